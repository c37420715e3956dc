"""How a step ended, as the page of a run shows it."""

from __future__ import annotations

from irontree.agents.scripted import ScriptedAgent, idles
from irontree.domain.decide import Run, Verify
from irontree.domain.events import ISSUE_EVENTS
from irontree.services.execution.steps import perform
from irontree.services.views.endings import _ENDINGS, LONGEST, ending_of
from tests.support.world import GREETING, MANUAL_TASK, ONE_TASK, Scene, does


def ended(scene: Scene, step):
    perform(scene.app, step)
    return ending_of(scene.app, scene.last())


def test_every_end_that_has_a_name_is_an_event():
    assert _ENDINGS.keys() < ISSUE_EVENTS.keys()


def test_what_passes_is_published(scene):
    scene.publish(ONE_TASK)
    assert ended(scene, Run(GREETING))[::2] == ("Committed", False)
    assert ended(scene, Verify(GREETING))[::2] == ("Published", False)


def test_what_a_person_has_to_judge_is_verified(scene):
    scene.publish(MANUAL_TASK)
    perform(scene.app, Run(GREETING))
    assert ended(scene, Verify(GREETING))[::2] == ("Verified", False)


def test_what_fails_says_which_command_in_one_short_line(scene):
    scene.agent = ScriptedAgent(does(other_txt="hello"))
    scene.publish(ONE_TASK)
    perform(scene.app, Run(GREETING))
    name, why, failed = ended(scene, Verify(GREETING))
    assert (name, failed) == ("Checks failed", True)
    assert why.startswith("`has greet.txt hello` fails")
    assert "\n" not in why
    assert len(why) <= LONGEST


def test_an_attempt_that_changed_nothing_failed(scene):
    scene.agent = ScriptedAgent(idles)
    scene.publish(ONE_TASK)
    assert ended(scene, Run(GREETING)) == ("No change", "attempt 1 of 4: the agent left every file as it was", True)
