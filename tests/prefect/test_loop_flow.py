"""`loop` and `issue` together: one issue's run after the other, every halt with its answers, and an end of it all."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prefect.states import Crashed

from irontree.domain.decide import Halt
from irontree.flows.loop import loop
from irontree.flows.runs import runs
from irontree.flows.runs.recovery import newest_run, start_what_waits, take_up, wake_overtaken
from irontree.services.answers.answers import Answer, answer_issue, answer_loop
from irontree.services.consistency.reconcile import reconcile
from irontree.services.execution.steps import next_step, perform
from irontree.services.loops.loop import cancel, extend, halt, skip, spend
from irontree.services.questions.questions import Question, question_of_loop
from irontree.tasks.artifacts import key_of
from tests.prefect.harness import logs
from tests.prefect.toys import DIAMOND, FRIENDLY, GREETING, Toy, held_by_another_tool, make_toy, served, wait_until
from tests.support.repositories import git
from tests.support.soak import in_soak

ACCEPT = "accept this commit"
SKIP = "skip this task and what depends on it"
STOP = "stop the whole loop"
OTHER = "\n## Other\n\n- [ ] it is there `$ test -f other.txt`\n"
CLOSE = "\n## Close\n\nDepends on: Greeting\n\n- [ ] it is there `$ test -f close.txt`\n"


@pytest.fixture
def project(tmp_path, client):
    """Lay out a project whose loop is approved; nothing is started yet."""

    def project(spec: str, settings: str = "") -> tuple[Toy, str]:
        toy = make_toy(tmp_path, client, spec, "issue", "loop", settings=settings)
        return toy, toy.authorise()

    return project


def test_a_loop_halts_where_a_person_is_needed_and_reaches_its_goal_after_the_answer(project):
    toy, loop_id = project(DIAMOND)
    with served(toy):
        halted = toy.go(loop_id)
        [asking] = toy.suspended()
        assert (halted.state_name, toy.app.lease.holder()) == ("Halted", None)
        assert halted.message == f"Your acceptance is needed: parts-left. Answer at {runs.url_for(asking.id)} (Resume)"
        assert asking.name == "#3 Left"
        toy.answer(asking.id, ACCEPT)
        assert toy.rest(loop_id).state_name == "Goal reached"
    assert toy.loop_events(loop_id) == ["loop_started", "loop_halted", "loop_resumed", "loop_completed"]
    for number in range(1, 6):
        assert toy.state(number).done
        assert [run.state_name for run in toy.runs_of(number)] == ["Done"]
    shown = [artifact["data"] for artifact in progress_of(toy, loop_id)]
    assert shown == [20, 100], "one for each run of the loop: up to the halt, and up to the goal"
    levels = [level for run in toy.all_runs() for level, _ in logs(toy.client, run.id)]
    assert len(levels) > 20
    assert max(levels) == logging.INFO
    subjects = git(toy.root.parent / "remote.git", "log", "--format=%s", "main").splitlines()
    assert sorted(subject.partition(":")[0] for subject in subjects[:-1]) == [f"[run] #{n}" for n in (1, 3, 4, 5)]


def test_an_issues_question_is_asked_while_another_driver_keeps_the_halt_from_being_told(project):
    """The form is the way on; the comment is news."""
    toy, loop_id = project(FRIENDLY)
    for _ in range(2):
        perform(toy.app, next_step(toy.app, 1))
    with served(toy):
        with toy.app.driver.hold("somebody"):
            assert take_up(toy.app, loop_id)
            [asking] = wait_until(toy.suspended, patience=20)
            assert (asking.parameters["number"], toy.loop_events(loop_id)[-1]) == (1, "loop_halted")
        assert toy.rest(loop_id).state_name == "Halted"


def progress_of(toy: Toy, loop_id: str) -> list[dict[str, Any]]:
    """The progress artifacts of the loop, oldest first."""
    key = {"artifacts": {"key": {"any_": [key_of(toy.app, f"loop-{loop_id}")]}}}
    found = toy.client.request("POST", "/artifacts/filter", json=key).json()
    return sorted(found, key=lambda artifact: artifact["created"])


@in_soak
def test_a_loop_whose_transitions_are_used_up_asks_itself_and_goes_on_when_it_gets_more(project):
    toy, loop_id = project(GREETING, "loop:\n  max_transitions: 2\n")
    with served(toy):
        asking = toy.go(loop_id)
        assert asking.state_name == "Suspended"
        assert [run.id for run in toy.suspended()] == [asking.id]
        assert toy.app.lease.holder() is None
        assert "2" in toy.asked(asking.id).description
        assert "- `/extend N`: allow more transitions\n- `/stop`: " in toy.app.forge().comments(1)[-1].body, (
            "told under the issue by then"
        )
        toy.answer(asking.id, "allow more transitions", count=5)
        assert toy.rest(loop_id).state_name == "Goal reached"
    assert toy.loop_events(loop_id)[1:] == ["loop_halted", "loop_budget_extended", "loop_resumed", "loop_completed"]
    assert [run.state_name for run in toy.runs_of(1)] == ["Done"]


def plan_all_day(toy: Toy, began: datetime) -> Path:
    """Let the log say that a planner took two hours then."""
    folder = toy.app.repository.root / ".mino" / "reports" / "plans" / began.strftime("%Y%m%dT%H%M%SZ") / "1"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"ended": "exited", "seconds": 7200}))
    return folder.parent


@in_soak
def test_a_loop_whose_agents_may_spend_no_more_asks_and_takes_an_amount(project):
    toy, loop_id = project(GREETING, "budgets:\n  day: {time: 1h}\n")
    plan_all_day(toy, datetime.now(UTC))
    with served(toy):
        asking = toy.go(loop_id)
        assert asking.state_name == "Suspended"
        assert "A new day begins at" in toy.asked(asking.id).description
        toy.answer(asking.id, "allow more to be spent", amount="5h")
        assert toy.rest(loop_id).state_name == "Goal reached"
    assert toy.loop_events(loop_id)[1:] == ["loop_halted", "loop_budget_extended", "loop_resumed", "loop_completed"]


@in_soak
def test_on_a_new_day_nobody_has_to_answer_for_the_budget_of_the_old_one(project):
    toy, loop_id = project(GREETING, "budgets:\n  day: {time: 1h}\n")
    spent = plan_all_day(toy, datetime.now(UTC))
    with served(toy):
        asking = toy.go(loop_id)
        assert asking.state_name == "Suspended"
        spent.rename(spent.with_name("20200101T000000Z"))
        assert question_of_loop(toy.app, loop_id) is None
        take_up(toy.app, loop_id)
        wake_overtaken(toy.app)
        wait_until(lambda: toy.loop(loop_id).entity.status == "completed" or None)
        wait_until(lambda: None if toy.suspended() else True)
    assert toy.loop_events(loop_id)[1:] == ["loop_halted", "loop_resumed", "loop_completed"]


def test_a_question_of_the_loop_is_asked_by_one_run_whoever_takes_the_loop_up(project, client):
    """Two forms of one question would take two decisions, and the log only the first."""
    toy, loop_id = project(GREETING, "loop:\n  max_transitions: 1\n")
    asking = take_up(toy.app, loop_id)
    spend(toy.app, loop_id, "greeting", "run")
    halt(toy.app, loop_id, Halt("loop_budget_exhausted"))
    assert toy.drive(asking.id, loop).name == "Suspended"
    assert take_up(toy.app, loop_id).id == asking.id
    assert start_what_waits(toy.app) == (f"loop {loop_id} waits for a person",)
    client.set_flow_run_state(asking.id, Crashed(), force=True)
    assert take_up(toy.app, loop_id).id == asking.id
    assert [run.state_name for run in toy.all_runs()] == ["Rescheduled"]


def test_an_answer_to_a_loops_question_that_came_second_is_told_where_its_run_ends(project):
    toy, loop_id = project(GREETING, "loop:\n  max_transitions: 1\n")
    asking = take_up(toy.app, loop_id)
    spend(toy.app, loop_id, "greeting", "run")
    halt(toy.app, loop_id, Halt("loop_budget_exhausted"))
    toy.drive(asking.id, loop)
    toy.answer(asking.id, STOP)
    answer_loop(toy.app, loop_id, Answer("extend", "eve", count=5))
    with toy.app.lease.hold(loop_id):
        ended = toy.drive(asking.id, loop)
    assert ended.name == "Busy"
    assert ended.message.endswith(f"The answer of Ada (“{STOP}”) was not taken: its question is open no more")


def test_a_loop_that_got_its_transitions_before_a_crash_does_not_ask_for_them_again(project):
    toy, loop_id = project(GREETING, "loop:\n  max_transitions: 1\n")
    spend(toy.app, loop_id, "greeting", "run")
    halt(toy.app, loop_id, Halt("loop_budget_exhausted"))
    assert question_of_loop(toy.app, loop_id).rule.reason == "loop_budget_exhausted"
    extend(toy.app, loop_id, 5, "ada")
    assert question_of_loop(toy.app, loop_id) is None


@in_soak
def test_a_skipped_task_takes_those_that_need_it_along_and_the_rest_reaches_the_goal(project):
    toy, loop_id = project(FRIENDLY + CLOSE + OTHER)
    with served(toy):
        toy.go(loop_id)
        toy.answer(toy.runs_of(1)[0].id, SKIP)
        assert toy.rest(loop_id).state_name == "Goal reached"
    assert toy.loop(loop_id).cancelled == {"greeting", "close"}
    assert [run.state_name for run in toy.runs_of(1)] == ["Waiting"]
    assert toy.runs_of(2) == []
    assert toy.state(3).done
    assert toy.suspended() == []


@in_soak
def test_a_loop_with_nothing_left_to_do_ends_without_another_question(project):
    toy, loop_id = project(FRIENDLY)
    with served(toy):
        toy.go(loop_id)
        toy.answer(toy.runs_of(1)[0].id, SKIP)
        toy.rest(loop_id)
    assert toy.suspended() == []
    assert toy.loop(loop_id).entity.status == "cancelled"


def test_a_loop_that_is_stopped_in_an_issues_form_leaves_no_question_open(project):
    toy, loop_id = project(FRIENDLY)
    with served(toy):
        toy.go(loop_id)
        toy.answer(toy.runs_of(1)[0].id, STOP)
        toy.rest(loop_id)
    assert toy.loop(loop_id).entity.status == "cancelled"
    assert toy.suspended() == []
    assert take_up(toy.app, loop_id) is None


def test_after_an_answer_the_loops_log_tells_where_it_stops_next(project, client):
    """Two issues wait at once: the second was closed on the forge while the first one asked."""
    toy, loop_id = project(FRIENDLY + OTHER)
    with served(toy):
        toy.go(loop_id)
        app = toy.app
        app.forge().edit_issue(2, state="closed")
        with app.driver.hold("reconcile"):
            reconcile(app)
        toy.answer(toy.runs_of(1)[0].id, ACCEPT)
        assert toy.rest(loop_id).message.startswith("Something is in the way: other.")
    assert toy.loop_events(loop_id) == ["loop_started", "loop_halted", "loop_resumed", "loop_halted"]
    assert toy.loop(loop_id).entity.halt_at_task_key == "other"
    assert [run.parameters["number"] for run in toy.suspended()] == [2]


@in_soak
def test_an_answer_from_the_command_line_while_nobody_served_lets_the_loop_go_on_when_somebody_does(project):
    """...and leaves no run suspended with a question that has its answer."""
    toy, loop_id = project(FRIENDLY)
    with served(toy):
        toy.go(loop_id)
    with toy.app.driver.hold("answer"):
        answer_issue(toy.app, 1, Answer("accept", "eve"))
    with served(toy):
        assert toy.go(loop_id).state_name == "Goal reached"
    assert [run.state_name for run in toy.runs_of(1)] == ["Done"]
    assert toy.loop_events(loop_id)[-2:] == ["loop_resumed", "loop_completed"]


@in_soak
def test_a_question_that_outlives_its_loop_is_answered_in_the_next_one(project):
    """The suspended run was started by a loop that was cancelled; the answer counts for the one that is open now."""
    toy, loop_id = project(FRIENDLY)
    with served(toy):
        toy.go(loop_id)
        cancel(toy.app, loop_id, "eve")
        following = toy.authorise()
        assert following != loop_id
        assert toy.go(following).state_name == "Halted"
        toy.answer(toy.suspended()[0].id, ACCEPT)
        assert toy.rest(following).state_name == "Goal reached"


@pytest.mark.parametrize("over", ["cancelled", pytest.param("skipped", marks=in_soak)])
def test_an_answer_about_the_issue_counts_although_its_loop_is_over_by_the_time_it_is_given(project, over):
    toy, loop_id = project(FRIENDLY)
    with served(toy):
        toy.go(loop_id)
        end(toy, loop_id, over)
        toy.answer(toy.suspended()[0].id, ACCEPT)
        toy.settle()
    assert toy.events()[-1] == "checkup_accept_recorded"
    assert [run.state_name for run in toy.runs_of(1)] == ["Waiting"]


def test_an_answer_about_a_loop_that_is_over_is_refused_with_the_reason(project):
    toy, loop_id = project(FRIENDLY)
    with served(toy):
        toy.go(loop_id)
        end(toy, loop_id, "cancelled")
        toy.answer(toy.suspended()[0].id, SKIP)
        toy.settle()
    [run] = toy.runs_of(1)
    assert run.state_name == "Waiting"
    assert "its loop is cancelled. The answer of Ada was not taken: " in run.message
    assert toy.loop_events(loop_id)[-1] == "loop_cancelled"


def end(toy: Toy, loop_id: str, how: str) -> None:
    if how == "cancelled":
        cancel(toy.app, loop_id, "eve")
    else:
        skip(toy.app, loop_id, "greeting", "eve")


def test_a_question_whose_run_a_person_cancelled_is_asked_again_when_a_person_resumes_not_before(project, client):
    toy, loop_id = project(FRIENDLY)
    with served(toy):
        toy.go(loop_id)
        [asking] = toy.suspended()
        runs.cancel(client, asking.id)
        assert start_what_waits(toy.app) == ()
        assert question_of_issue(toy, loop_id).rule.reason == "pending_acceptance"
        assert take_up(toy.app, loop_id).id == asking.id
        toy.settle()
        assert [run.id for run in toy.suspended()] == [asking.id]


def question_of_issue(toy: Toy, loop_id: str) -> Question:
    found = next_step(toy.app, 1, loop_id)
    assert isinstance(found, Question)
    return found


@in_soak
def test_a_question_whose_loop_was_cancelled_is_asked_no_more(project):
    toy, loop_id = project(FRIENDLY)
    with served(toy):
        toy.go(loop_id)
        assert wake_overtaken(toy.app) == ()
        end(toy, loop_id, "cancelled")
        assert [run.id for run in wake_overtaken(toy.app)] == [toy.runs_of(1)[0].id]
        toy.settle()
    assert toy.suspended() == []


def test_a_question_of_a_loop_that_was_cancelled_is_asked_no_more(project):
    toy, loop_id = project(GREETING, "loop:\n  max_transitions: 1\n")
    with served(toy):
        asking = toy.go(loop_id)
        assert (asking.state_name, wake_overtaken(toy.app)) == ("Suspended", ())
        end(toy, loop_id, "cancelled")
        assert [run.id for run in wake_overtaken(toy.app)] == [asking.id]
        toy.settle()
    assert toy.rest(loop_id).state_name == "Cancelled"


def test_an_issue_whose_run_keeps_ending_without_a_step_becomes_a_question_of_the_loop(project):
    toy, loop_id = project(GREETING)
    lock = held_by_another_tool(toy)
    with served(toy):
        asking = toy.go(loop_id)
        assert asking.state_name == "Suspended"
        assert "remove .mino/run.lock" in toy.asked(asking.id).description
        lock.unlink()
        toy.answer(asking.id, "reviewed, go on")
        assert toy.rest(loop_id).state_name == "Goal reached"
    assert toy.loop_events(loop_id) == ["loop_started", "loop_halted", "loop_resumed", "loop_completed"]


def test_while_another_loop_is_at_work_a_run_ends_at_once_and_says_so(project):
    toy, loop_id = project(GREETING)
    run = take_up(toy.app, loop_id)
    with toy.app.lease.hold("2026-04-22-1432-a3f8b2"):
        ended = toy.drive(run.id, loop)
        assert (ended.name, "2026-04-22-1432-a3f8b2" in ended.message) == ("Busy", True)
        assert take_up(toy.app, loop_id) is None, "nothing goes on here"
    with toy.app.lease.hold(loop_id):
        assert take_up(toy.app, loop_id).id == newest_run(toy.app, loop_id).id == run.id
    assert toy.loop_events(loop_id) == ["loop_started"]


@in_soak
def test_a_stale_lease_of_another_tool_is_a_question_and_taken_over_by_its_answer(project):
    toy, loop_id = project(GREETING)
    lock = toy.root / ".mino" / "loops" / "active.lock"
    lock.write_text('loop_id: "2020-01-01-0000-000000"\nholder_pid: 1\nheartbeat_at: "2020-01-01T00:00:00Z"\n')
    with served(toy):
        assert toy.go(loop_id).state_name == "Halted"
        [asking] = toy.suspended()
        assert "stale loop lease detected" in toy.asked(asking.id).description
        assert lock.exists()
        toy.answer(asking.id, "it is put right, go on")
        assert toy.rest(loop_id).state_name == "Goal reached"
    assert not lock.exists()
    assert toy.loop_events(loop_id) == ["loop_started", "loop_halted", "loop_resumed", "loop_completed"]
