"""Single steps obey the time at which a block ends, as the timer of a flow's run does (R12)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.state import Phase
from irontree.errors import Cancelled, NotEligible
from irontree.ports import AgentResult
from irontree.services.answers.answers import Answer, answer_issue, let_time_pass
from irontree.services.execution.run import run
from tests.support.world import ONE_TASK, Patience, Scene, does

LIMITED = AgentResult("exited", 1, 1.0, "", None, "rate_limited")


@pytest.fixture
def waiting(scene) -> Scene:
    scene.publish(ONE_TASK)
    scene.agent = ScriptedAgent(lambda _: LIMITED, does(greet_txt="hello"))
    assert run(scene.app, 1).not_before
    return scene


def test_before_the_time_it_says_until_when_and_what_to_do(waiting):
    with pytest.raises(NotEligible) as refused:
        let_time_pass(waiting.app, waiting.state(), 10)
    assert f"issue-1 waits until {waiting.state().not_before} (rate-limited)" in refused.value.message
    assert "--wait" in refused.value.remedy
    assert "irontree retry 1" in refused.value.remedy


def test_who_is_ready_to_wait_that_long_waits_and_the_timer_answers(waiting):
    state = let_time_pass(waiting.app, waiting.state(), 3600)
    assert (state.phase, state.last_event) == (Phase.READY, "checkup_unblocked")
    meta = waiting.last().meta
    assert (waiting.last().event.by, meta["actor"], meta["channel"]) == ("timer", "timer", "timer")
    assert len(waiting.cancel.pauses) == 1
    assert run(waiting.app, 1).last_event == "run_completed"


def test_behind_the_time_nobody_waits(waiting):
    waiting.clock.moment += timedelta(hours=5)
    assert let_time_pass(waiting.app, waiting.state(), 0).phase is Phase.READY
    assert waiting.cancel.pauses == []


def test_asked_to_stop_while_it_waits_it_records_nothing(waiting):
    waiting.cancel = Patience(stops_at_a_pause=True)
    before = waiting.events()
    with pytest.raises(Cancelled):
        let_time_pass(waiting.app, waiting.state(), 3600)
    assert waiting.events() == before


def test_a_person_who_was_faster_is_not_answered_over(waiting):
    seen = waiting.state()
    answer_issue(waiting.app, 1, Answer("go-on", "ada"))
    waiting.clock.moment += timedelta(hours=5)
    assert let_time_pass(waiting.app, seen, 0).phase is Phase.READY
    assert waiting.last().event.by == "ada"


def test_what_waits_for_no_time_is_left_as_it_is(scene):
    scene.publish(ONE_TASK)
    assert let_time_pass(scene.app, scene.state(), 0) == scene.state()
