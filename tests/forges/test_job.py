"""The issues of a loop on a real Gitea: published, asked about, answered by comment, through a killed server."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.domain.decide import Finalize
from irontree.services.answers.comments import look
from irontree.services.execution.steps import perform
from tests.support.gitea.real_stage import OWNER, RealGiteaStage
from tests.support.world import GREETING, MANUAL_TASK, Scene, make_scene


@pytest.fixture
def waiting(stage: RealGiteaStage, tmp_path: Path) -> Scene:
    """Work whose acceptance is asked for on the issue; the server is killed and started before anybody answers."""
    scene = make_scene(tmp_path)
    scene.forge_seen = stage.ours
    scene.drive(scene.start(MANUAL_TASK))
    stage.server.restart()
    return scene


def say(stage: RealGiteaStage, login: str, text: str) -> None:
    stage.server.ask("POST", f"{stage.home}/issues/1/comments", login, body=text)


def test_a_writers_comment_accepts_and_the_issue_is_closed(stage: RealGiteaStage, waiting: Scene):
    assert "verify_pending_acceptance" in waiting.events()
    say(stage, "writer", "/accept")
    assert [found.outcome for found in look(waiting.app)] == ["taken"]
    perform(waiting.app, Finalize(GREETING))
    issue = stage.ours.read_issue(1)
    assert waiting.state().done
    assert (issue.state, "stage:done" in issue.labels) == ("closed", True)


def test_a_strangers_comment_accepts_nothing(stage: RealGiteaStage, waiting: Scene):
    before = waiting.events()
    say(stage, "mallory", "/accept")
    look(waiting.app)
    assert waiting.events() == before


def test_whoever_lost_the_right_accepts_nothing(stage: RealGiteaStage, waiting: Scene):
    before = waiting.events()
    stage.dismiss("writer")
    say(stage, "writer", "/accept")
    look(waiting.app)
    assert waiting.events() == before


def test_the_owner_may_answer_too(stage: RealGiteaStage, waiting: Scene):
    say(stage, OWNER, "/accept")
    assert [found.outcome for found in look(waiting.app)] == ["taken"]
