"""What a listing shows of an open question beside what the log holds."""

from __future__ import annotations

from irontree.services.questions.listing import list_questions
from tests.support.issues import CLEAR, say, take_in, write
from tests.support.world import Scene


def test_what_an_adopted_issue_leaves_open_is_asked_until_a_comment_answers_it(scene: Scene):
    write(scene, body="Greet people.")
    take_in(scene.app, 1)
    [asked] = list_questions(scene.app, scene.world, ())
    assert "its text leaves open: What must hold" in asked.detail
    say(scene, 1, CLEAR)
    [asked] = list_questions(scene.app, scene.world, ())
    assert asked.detail == ""
    assert asked.revision
