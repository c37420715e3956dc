"""`irontree task`: what takes longest starts as soon as it is wanted for certain."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from irontree.cli.task import approve_and_drive
from irontree.errors import NotEligible


@pytest.mark.parametrize(
    ("given", "detach", "order"),
    [
        ("0" * 16, False, ["the server starts", "the proposal is read"]),
        (None, False, ["the proposal is read"]),
        ("0" * 16, True, ["the proposal is read"]),
    ],
    ids=["approved beforehand", "somebody is asked first", "a worker has a server"],
)
def test_the_server_starts_before_the_proposal_is_read_where_the_approval_is_given(given, detach, order):
    happened: list[str] = []

    @contextmanager
    def server_of(app: object, *, detach: bool) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(start=lambda _: happened.append("the server starts"))

    def find() -> object:
        happened.append("the proposal is read")
        raise NotEligible("it cannot be read")

    context = SimpleNamespace(options=Namespace(approve=given, detach=detach))
    with pytest.raises(NotEligible):
        approve_and_drive(context, SimpleNamespace(), find, (), server_of)
    assert happened == order
