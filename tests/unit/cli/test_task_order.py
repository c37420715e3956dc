"""`irontree task`: what takes longest starts as soon as it is wanted for certain."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from irontree.cli.task import approve_and_drive
from irontree.domain.agents import AgentSpec, Member
from irontree.errors import ConfigRefused, NotEligible
from irontree.services.proposals.sources import propose
from tests.support.world import ONE_TASK, make_scene


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


def test_the_author_of_the_task_has_to_be_here_before_anybody_is_asked_and_nobody_else(tmp_path):
    scene = make_scene(tmp_path)
    team = (Member(name="coder", command=("no-such-coder",)), Member(name="other", command=("no-such",)))
    scene.policy = scene.policy.model_copy(update={"team": team, "agent": AgentSpec(command=("sh",))})

    @contextmanager
    def server_of(app: object, *, detach: bool) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(start=lambda _: None)

    context = SimpleNamespace(options=Namespace(approve=None, detach=False))
    with pytest.raises(ConfigRefused, match="no-such-coder, the program of the agent coder, is not on PATH"):
        approve_and_drive(context, scene.app, lambda: propose(scene.app, scene.write(ONE_TASK)), (), server_of)
