"""Many comments, and some that cannot be read: what is asked of the forge, and who gets an answer all the same."""

from __future__ import annotations

from typing import Any

from irontree.errors import RemoteFailed
from irontree.services.answers.comments import look
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from tests.support.world import MANUAL_TASK, Scene


class Counting:
    """A forge that counts whom it was asked about."""

    def __init__(self, forge: Any) -> None:
        self._forge, self.asked_about = forge, list[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._forge, name)

    def may_write(self, login: str) -> bool:
        self.asked_about.append(login)
        return bool(self._forge.may_write(login))


class Unreadable(Counting):
    """A forge on which the comments of issue 1 cannot be read."""

    def comments_since(self, number: int, moment: str) -> Any:
        if number == 1:
            raise RemoteFailed("0009.md is not UTF-8 text")
        return self._forge.comments_since(number, moment)


def test_however_many_strangers_command_each_comment_is_asked_about_once(scene: Scene):
    """Each question of who may write is a request to the forge, which counts them."""
    scene.tracker.writers |= {"alice"}
    scene.drive(scene.start(MANUAL_TASK))
    scene.forge_seen = forge = Counting(scene.forge_seen)
    for number in range(250):
        scene.forge("mallory").post_comment(1, f"/accept {number}")
    for _ in range(3):
        assert look(scene.app) == ()
    assert forge.asked_about == ["mallory"] * 250
    scene.forge("alice").post_comment(1, "/accept")
    assert [found.outcome for found in look(scene.app)] == ["taken"]


def test_what_cannot_be_read_under_one_issue_keeps_no_answer_from_another(scene: Scene):
    scene.tracker.writers |= {"alice"}
    scene.publish(f"{MANUAL_TASK}\n## Close\n\n- [ ] it is pretty (manual)\n")
    for number in (1, 2):
        run(scene.app, number), verify(scene.app, number)
        scene.forge("alice").post_comment(number, "/accept")
    scene.forge_seen = Unreadable(scene.forge_seen)
    found = [(one.issue_number, one.outcome, one.said, one.ended_pass) for one in look(scene.app)]
    assert found == [(1, "later", "0009.md is not UTF-8 text", False), (2, "taken", "", False)]
