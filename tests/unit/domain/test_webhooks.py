"""Signed webhooks: GitHub's own example, and what is signed otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.external import SIGNATURE, is_signed

# https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
SECRET, BODY = "It's a Secret to Everybody", b"Hello, World!"
SIGNED = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


def test_what_github_signs_as_its_own_example_says_is_signed():
    assert is_signed(SECRET, BODY, {SIGNATURE: SIGNED})


@pytest.mark.parametrize(
    ("secret", "body", "signature"),
    [
        ("another", BODY, SIGNED),
        (SECRET, b"Hello, World?", SIGNED),
        (SECRET, BODY, ""),
        (SECRET, BODY, SIGNED.removeprefix("sha256=")),
        (SECRET, BODY, SIGNED.upper()),
        ("", b"", "sha256=b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"),
    ],
)
def test_everything_else_is_not(secret: str, body: bytes, signature: str):
    """A secret that is not set signs nothing, though anybody can compute it."""
    assert not is_signed(secret, body, {SIGNATURE: signature})


@given(st.binary(max_size=80), st.text(max_size=80))
def test_no_header_of_others_fits_or_breaks_it(body: bytes, signature: str):
    assert not is_signed(SECRET, body, {SIGNATURE: signature})
