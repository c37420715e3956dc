"""What a comment shows once its command was taken."""

from __future__ import annotations

from irontree.services.answers.comments import look
from tests.support.issues import say
from tests.support.requests import Refusing
from tests.support.world import MANUAL_TASK, Scene


def waits(scene: Scene) -> None:
    """For its acceptance, which `alice` may answer."""
    scene.tracker.writers |= {"alice"}
    scene.drive(scene.start(MANUAL_TASK))


def test_a_reaction_shows_that_a_command_was_taken_and_a_refused_one_gets_a_reply_alone(scene):
    waits(scene)
    say(scene, 1, "/send-back", author="alice")
    say(scene, 1, "/accept", author="alice")
    say(scene, 1, "thanks", author="alice")
    look(scene.app)
    look(scene.app)
    assert scene.tracker.reactions == {"1-3": {("us", "+1")}}
    assert len([said for said in scene.comments() if "was not taken" in said]) == 1


def test_a_forge_that_takes_no_reaction_keeps_no_answer_from_being_taken(scene):
    waits(scene)
    scene.forge_seen = Refusing(scene.forge_seen, "react")
    say(scene, 1, "/accept", author="alice")
    assert [found.outcome for found in look(scene.app)] == ["taken"]
