"""Answers in comments where the Prefect server does not do what it is asked: what is recorded stays recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from irontree.errors import ServerUnavailable
from irontree.flows.runs import runs
from irontree.flows.serve.chores import take_comments
from tests.support.prefect_stub import prefect_that
from tests.support.world import MANUAL_TASK, make_scene


@pytest.fixture
def refused() -> Iterator[None]:
    """A server that finds fault with every request."""
    with prefect_that(lambda *_: (422, {"exception_message": "no such filter"})):
        yield


@pytest.mark.usefixtures("refused")
def test_what_the_server_refuses_keeps_no_comment_from_being_taken(tmp_path):
    """Whoever looks would die of it, in silence; the janitor starts by the log what could not be started."""
    scene = make_scene(tmp_path)
    scene.tracker.writers |= {"alice"}
    scene.drive(scene.start(MANUAL_TASK))
    scene.forge("alice").post_comment(1, "/accept")
    assert [found.outcome for found in take_comments(scene.app)] == ["taken"]


@pytest.mark.usefixtures("refused")
def test_what_the_server_refuses_is_told_in_its_own_words():
    """...as what can be survived: who serves many repositories asks again later."""
    with (
        pytest.raises(ServerUnavailable, match=r"refused what it was asked: .*no such filter"),
        runs.connect() as client,
    ):
        runs.find_runs(client, ["any"])
