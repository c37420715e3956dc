"""Many comments, and some that cannot be read: what is asked of the forge, and who gets an answer all the same."""

from __future__ import annotations

from typing import Any

from irontree.domain.gates import Gate, Gates
from irontree.errors import RemoteFailed
from irontree.services.answers.comments import look
from irontree.services.answers.lookout import Lookout
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from tests.support.forges import change_comment
from tests.support.world import MANUAL_TASK, BusyFor, Scene


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


class Asked(Counting):
    """A forge that tells under which issues comments were looked for, 0 being all of them."""

    def comments_since(self, number: int, moment: str) -> Any:
        self.asked_about.append(f"#{number}")
        return self._forge.comments_since(number, moment)

    def commented_since(self, moment: str) -> Any:
        self.asked_about.append("all")
        return self._forge.commented_since(moment)


def two_questions(scene: Scene) -> None:
    scene.publish(f"{MANUAL_TASK}\n## Close\n\n- [ ] it is pretty (manual)\n")
    for number in (1, 2):
        run(scene.app, number), verify(scene.app, number)


def test_several_questions_share_one_look(scene: Scene):
    """What is waited for costs the same, however much there is of it."""
    scene.tracker.writers |= {"alice"}
    two_questions(scene)
    scene.forge_seen = forge = Asked(scene.forge_seen)
    lookout = Lookout()
    asked = []
    for _ in range(4):
        assert look(scene.app, lookout) == ()
        asked.append(tuple(forge.asked_about))
        forge.asked_about.clear()
    assert (asked[0], asked[2], asked[3]) == (("#1", "#2"), ("all",), ("all",))
    scene.forge("mallory").post_comment(1, "how nice")
    look(scene.app, lookout)
    assert forge.asked_about == ["all", "#1"]
    scene.forge("alice").post_comment(2, "/accept")
    assert [(one.issue_number, one.outcome) for one in look(scene.app, lookout)] == [(2, "taken")]


def test_an_answer_that_could_not_be_taken_is_due_again_without_another_comment(scene: Scene):
    scene.tracker.writers |= {"alice"}
    two_questions(scene)
    lookout = Lookout()
    assert look(scene.app, lookout) == ()
    scene.forge("alice").post_comment(2, "/accept")
    scene.driver, ours = BusyFor(scene.clock, 60), scene.driver
    assert [one.outcome for one in look(scene.app, lookout)] == ["later"]
    scene.driver = ours
    assert [one.outcome for one in look(scene.app, lookout)] == ["taken"]


def test_an_outage_of_the_shared_look_ends_the_pass_and_loses_no_answer(scene: Scene):
    scene.tracker.writers |= {"alice"}
    two_questions(scene)
    lookout = Lookout()
    assert look(scene.app, lookout) == ()
    scene.forge("alice").post_comment(2, "/accept")
    scene.tracker.outage = "503"
    assert [(one.outcome, one.ended_pass) for one in look(scene.app, lookout)] == [("later", True)]
    scene.tracker.outage = None
    assert [one.outcome for one in look(scene.app, lookout)] == ["taken"]


def test_what_cannot_be_read_under_one_issue_keeps_no_answer_from_another(scene: Scene):
    scene.tracker.writers |= {"alice"}
    scene.publish(f"{MANUAL_TASK}\n## Close\n\n- [ ] it is pretty (manual)\n")
    for number in (1, 2):
        run(scene.app, number), verify(scene.app, number)
        scene.forge("alice").post_comment(number, "/accept")
    scene.forge_seen = Unreadable(scene.forge_seen)
    found = [(one.issue_number, one.outcome, one.said, one.ended_pass) for one in look(scene.app)]
    assert found == [(1, "later", "0009.md is not UTF-8 text", False), (2, "taken", "", False)]


def edited_after_it_counted(scene: Scene) -> None:
    """Three people have to accept; alice did, and edited that once it was counted."""
    scene.policy = scene.policy.model_copy(update={"gates": Gates(acceptance=Gate(approvers=3))})
    scene.tracker.writers |= {"alice", "bob"}
    scene.drive(scene.start(MANUAL_TASK))
    scene.forge("alice").post_comment(1, "/accept")
    look(scene.app)
    change_comment(scene.tracker, 1, scene.tracker.comments[1][-2].id, "/accept, it is lovely")


def test_whose_answer_was_edited_is_told_when_the_next_one_is_counted(scene: Scene):
    edited_after_it_counted(scene)
    scene.forge("mallory").post_comment(1, "/accept")
    change_comment(scene.tracker, 1, scene.tracker.comments[1][-1].id, "/accept!")
    scene.forge("bob").post_comment(1, "/accept")
    look(scene.app)
    told = scene.comments()[-1]
    assert "1 of 3 so far: bob" in told
    assert "The comment of alice was edited and no longer counts: say it again in a new comment." in told
    assert "mallory" not in told


def test_who_said_it_again_after_editing_is_not_told(scene: Scene):
    edited_after_it_counted(scene)
    scene.forge("alice").post_comment(1, "/accept")
    scene.forge("bob").post_comment(1, "/accept")
    look(scene.app)
    assert "2 of 3 so far: alice, bob" in scene.comments()[-1]
    assert "edited" not in scene.comments()[-1]
