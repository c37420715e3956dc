"""The same failure as often as was approved: a person is asked, with the attempts side by side (decision 12)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.attempt import Claim
from irontree.domain.state import Phase
from irontree.ports import AgentResult
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.run import run
from irontree.services.execution.steps import next_step
from irontree.services.execution.verify import verify
from irontree.services.questions.commands import answers_to
from irontree.services.questions.listing import explain, waiting
from irontree.services.questions.pages import question_text
from tests.support.world import GREETING, ONE_TASK, Scene, does


def tries(text: str, words: str = ""):
    """A step that writes *text* where hello is asked for, and says these words."""

    def step(task):
        does(greet_txt=text)(task)
        return AgentResult("exited", 0, 1.0, "", Claim(True, "end_turn", words))

    return step


@pytest.fixture
def ready(scene) -> Scene:
    scene.policy = scene.policy.model_copy(update={"same_failure": 2})
    scene.publish(ONE_TASK)
    return scene


def attempt(scene: Scene):
    """One attempt and its verification; what stands before the attempt, if something does."""
    state = run(scene.app, 1)
    return verify(scene.app, 1) if state.phase is Phase.COMMITTED else state


def fail_twice(scene: Scene):
    scene.agent = ScriptedAgent(tries("good day\n", "it greets"), tries("good day\nagain\n"), tries("good evening\n"))
    attempt(scene), attempt(scene)
    return attempt(scene)


def test_a_person_is_asked_before_the_next_attempt(ready):
    state = fail_twice(ready)
    assert (state.phase, state.blocking_check, state.attempt_count) == (Phase.BLOCKED, "same-failure", 2)
    assert len(ready.agent.tasks) == 2


def test_the_form_shows_what_each_attempt_changed_and_how_it_failed(ready):
    fail_twice(ready)
    text = question_text(ready.app, next_step(ready.app, 1))
    assert "attempt 1 | attempt 2" in text
    assert "greet.txt +1 -0 | greet.txt +1 -0" in text, "the second one added a line to the first one's work"
    assert "it greets | no structured claim was found" in text
    assert text.count("How attempt") == 2
    assert "**retry**: try again; a note tells the next attempt what to change" in text
    [asked] = waiting(ready.app)
    assert dict(answers_to(asked))[asked.rule.choices[0]] == "irontree retry 1 --note 'NOTE'"


def test_why_says_how_often(ready):
    fail_twice(ready)
    assert "same-failure: 2 attempts in a row failed in the same way" in explain(ready.app, GREETING).because


def test_the_note_that_goes_with_the_answer_reaches_the_next_attempt(ready):
    fail_twice(ready)
    answer_issue(ready.app, 1, Answer("go-on", "ada", note="say hello, not good day"))
    attempt(ready)
    assert "say hello, not good day" in ready.agent.tasks[2].prompt


def test_behind_the_answer_the_counting_begins_anew(ready):
    fail_twice(ready)
    answer_issue(ready.app, 1, Answer("go-on", "ada"))
    assert attempt(ready).last_event == "verify_failed_retryable"
    assert ready.state().same_failures == 1


def test_the_fingerprint_stands_in_the_event(ready):
    fail_twice(ready)
    found = [r.meta["fingerprint"] for r in ready.records() if r.event.event == "verify_failed_retryable"]
    assert len(set(found)) == 1
    assert len(found[0]) == 16


def test_another_failure_begins_another_row(ready):
    codes = iter([1, 2, 1])
    ready.checks = ScriptedCheckRunner(lambda command, workspace: next(codes))
    ready.agent = ScriptedAgent(*[tries(f"{n}\n") for n in range(3)])
    for _ in range(3):
        assert attempt(ready).last_event == "verify_failed_retryable"
    assert ready.state().same_failures == 1


def test_a_timers_answer_in_between_is_no_decision_and_the_row_goes_on(ready):
    limited = AgentResult("exited", 1, 1.0, "", None, "rate_limited")
    ready.agent = ScriptedAgent(tries("a\n"), lambda task: limited, tries("b\n"))
    attempt(ready), attempt(ready)
    answer_issue(ready.app, 1, Answer("go-on", "timer"))
    attempt(ready)
    assert ready.state().same_failures == 2


def test_without_the_setting_all_attempts_are_used_as_the_contract_says(scene):
    scene.publish(ONE_TASK)
    scene.agent = ScriptedAgent(*[tries(f"{n}\n") for n in range(4)])
    events = [attempt(scene).last_event for _ in range(4)]
    assert events == ["verify_failed_retryable"] * 3 + ["verify_failed_terminal"]
    assert (
        "the last 4 attempts failed in the same way"
        in scene.projections.texts[scene.root / ".mino/reports/issue-1/report.md"]
    )


def test_more_attempts_that_were_allowed_are_not_stopped_by_those_before(ready):
    ready.policy = ready.policy.model_copy(update={"same_failure": 4})
    ready.publish(ONE_TASK)
    ready.agent = ScriptedAgent(*[tries(f"{n}\n") for n in range(5)])
    for _ in range(4):
        attempt(ready)
    answer_issue(ready.app, 1, Answer("retry", "ada", count=2))
    assert attempt(ready).last_event == "verify_failed_retryable"
