"""The follower of a loop with `loop.on_halt: go_on`: it tells who asks, and asks when the loop halts (R17)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.decide import Run, Verify
from irontree.services.execution.steps import perform, stop_at
from tests.support.world import MANUAL_TASK, Scene, accepts, does, drive, make_scene, nobody
from tests.unit.cli.following import Person, follower_of


@pytest.fixture
def scene(tmp_path) -> Scene:
    return make_scene(tmp_path)


TWO_TASKS = f"{MANUAL_TASK}\n## Other\n\n- [ ] it says hello `$ has other.txt hello`\n"


@pytest.fixture
def going_on(scene):
    """A follower of a loop that goes on at halts; greeting waits for acceptance, and other is left to do."""
    scene.policy = scene.policy.model_copy(update={"on_halt": "go_on"})
    scene.agent = ScriptedAgent(does(greet_txt="hello\n"), does(other_txt="hello\n"))
    follower = follower_of(scene, TWO_TASKS, driven=False, person=Person(answers=[accepts()]))
    for step in (Run, Verify):
        perform(scene.app, step("greeting"), follower.loop_id)
    return follower


def test_a_question_that_is_open_while_other_work_goes_on_is_told_once_and_asked_when_the_loop_halts(going_on, scene):
    for _ in range(2):
        going_on.catch_up()
    [told] = [line for line in going_on.screen.lines if "other work goes on" in line]
    assert told.startswith("#1 Greeting: your acceptance is needed, and ")
    assert going_on.screen.asked == 0
    drive(scene.app, going_on.loop_id, nobody)
    assert going_on.follow() == "completed"
    assert going_on.screen.asked == 1
    assert scene.state("other").done
    assert going_on.screen.lines.count(told) == 1


def test_what_runs_and_what_waits_is_shown_at_once(going_on, scene):
    shown: list[str] = []
    going_on.screen.busy = shown.append
    scene.agent = ScriptedAgent(lambda _: going_on.catch_up())
    perform(scene.app, Run("other"), going_on.loop_id)
    assert shown == ["#2 Other: the agent works; 1 waiting for you"]


def test_a_question_is_not_told_twice_where_the_loop_halts_at_once(scene):
    scene.policy = scene.policy.model_copy(update={"on_halt": "go_on"})
    follower = follower_of(scene, MANUAL_TASK, driven=False)
    for step in (Run, Verify):
        perform(scene.app, step("greeting"), follower.loop_id)
    follower.catch_up()
    assert not [line for line in follower.screen.lines if "other work goes on" in line]


def test_the_end_of_a_stretch_says_how_many_more_wait(going_on, scene):
    scene.agent = ScriptedAgent(does(other_txt="hello\n"))
    perform(scene.app, Run("other"), going_on.loop_id)
    with scene.app.driver.hold("stop"):
        stop_at(scene.app, 2, "enough")
    drive(scene.app, going_on.loop_id, nobody)
    going_on.catch_up()
    assert going_on.screen.lines[-1] == "the loop stops here: your acceptance is needed, and 1 more"
