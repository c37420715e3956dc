"""By what key an approval is asked for, and what can be read from it."""

from __future__ import annotations

import pytest

from irontree.domain.gates import is_of_earlier_version, key_of_approval, name_in_key

DIGEST = "0123456789abcdef" * 4


def test_the_key_of_a_question_says_what_approving_has_to_name():
    assert name_in_key(key_of_approval(DIGEST)) == DIGEST[:16]
    assert name_in_key(f"{key_of_approval(DIGEST)}-again-2") == DIGEST[:16]
    assert name_in_key(key_of_approval(DIGEST, "2026-04-22-1432-a3f8b2")) == DIGEST[:16]


def test_the_key_holds_the_whole_digest():
    assert key_of_approval(DIGEST) != key_of_approval(f"{DIGEST[:-1]}0")


@pytest.mark.parametrize("key", ["intake-0123abcd-4567ef89-new", "intake-0123abcd-4567ef89-89abcdef-again-2"])
def test_a_question_of_an_earlier_version_is_still_an_approval_that_waits(key):
    assert name_in_key(key).startswith("0123abcd-4567ef89")
    assert is_of_earlier_version(key)
    assert not is_of_earlier_version(key_of_approval(DIGEST))


def test_the_key_of_another_question_names_no_approval():
    assert name_in_key("issue-7-3-pending-acceptance") is None
