"""A command that was not read because of where it stands: whoever may write is told once, and nobody else (R20)."""

from __future__ import annotations

import pytest

from irontree.domain.comments import reply_problems
from irontree.domain.state import Phase
from irontree.services.answers.comments import look
from tests.support.forges import change_comment
from tests.support.world import MANUAL_TASK, Scene


@pytest.fixture
def asking(scene) -> Scene:
    """The work on issue 1 waits for acceptance. `alice` has write access."""
    scene.tracker.writers |= {"alice"}
    scene.drive(scene.start(MANUAL_TASK))
    return scene


def says(scene: Scene, text: str, by: str = "alice") -> None:
    scene.forge(by).post_comment(1, text)


def outcomes(scene: Scene) -> list[tuple[str, str]]:
    return [(found.by, found.outcome) for found in look(scene.app)]


def replies(scene: Scene) -> list[str]:
    return [body for body in scene.comments() if "was not taken" in body]


UNREAD = [
    ("```\n/accept\n```", 2, "in code"),
    ("Yes.\n\nOn 3 January, Bob wrote:\n\n/accept", 5, "below a quoted mail or a signature"),
    ("> he said\n/accept", 2, "in or directly below a quotation, a list or other markup"),
]


@pytest.mark.parametrize(("text", "line", "where"), UNREAD)
def test_who_may_write_is_told_once_of_a_command_that_was_not_read(asking, text: str, line: int, where: str):
    says(asking, text)
    assert outcomes(asking) == [("alice", "refused")]
    assert outcomes(asking) == []
    (reply,) = replies(asking)
    assert f"`/accept` was not taken: line {line} begins with `/accept` and was not read" in reply
    assert f"because it stands {where}. What to do: if it is yours, write it in a line of its own at the top." in reply
    assert reply_problems(reply) == ()
    assert asking.state().phase is Phase.PENDING


@pytest.mark.parametrize(("text", "line", "where"), UNREAD)
def test_nobody_else_is_told_of_it(asking, text: str, line: int, where: str):
    says(asking, text, by="mallory")
    assert outcomes(asking) == []
    assert replies(asking) == []


@pytest.mark.parametrize("text", ["> /accept", "say `/accept`", "<!-- \n/accept\n-->", "- /accept", "```\n/etc\n```"])
def test_of_what_begins_no_line_nothing_is_told(asking, text: str):
    says(asking, text)
    assert outcomes(asking) == []
    assert replies(asking) == []


def test_of_what_was_edited_or_said_before_nothing_is_told(scene):
    scene.tracker.writers |= {"alice"}
    loop = scene.start(MANUAL_TASK)
    says(scene, "```\n/accept\n```")
    scene.drive(loop)
    says(scene, "> a")
    change_comment(scene.tracker, 1, scene.tracker.comments[1][-1].id, "> a\n/accept")
    assert outcomes(scene) == []
    assert replies(scene) == []
