"""What `checkup accept`, `reject` and `unblock` say of an answer that is refused."""

from __future__ import annotations

import pytest

from irontree.cli.decisions import _record
from irontree.errors import AnswerRefused
from irontree.services.answers.answers import NOTE_LIMIT, Answer
from irontree.services.loops.loop import open_loops
from irontree.services.questions.listing import asked_about
from tests.support.world import MANUAL_TASK, Scene, make_scene, sends_back


@pytest.fixture
def scene(tmp_path) -> Scene:
    return make_scene(tmp_path)


def refused(scene: Scene, answer: Answer) -> str | None:
    """The remedy."""
    scene.drive(scene.start(MANUAL_TASK))
    asked = asked_about(scene.app, scene.world, open_loops(scene.app), scene.state())
    with pytest.raises(AnswerRefused) as error:
        _record(scene.app, 1, answer, asked)
    return error.value.remedy


def test_an_answer_that_fits_and_is_refused_keeps_the_remedy_of_what_stands_in_its_way(scene):
    assert refused(scene, sends_back("x" * (NOTE_LIMIT + 1))) == "put long texts elsewhere"


@pytest.mark.parametrize("choice", ["retry", ""])
def test_an_answer_to_another_question_is_told_the_commands_that_fit(scene, choice):
    assert "`irontree accept 1` | " in refused(scene, Answer(choice, "ada", count=1))
