"""A block that time lifts: nobody has to answer, a person may be faster, and a restart forgets nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from irontree.flows.runs import runs
from irontree.flows.runs.recovery import have_asking
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.steps import next_step
from irontree.services.questions.questions import Question
from irontree.services.work.preflight import block
from tests.prefect.toys import GREETING, make_toy

LONG_AGO, NEVER = datetime(2020, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(days=1)


def blocked(folder, client, not_before):
    """An issue that is blocked until then, and its run, driven once."""
    toy = make_toy(folder, client, GREETING, "issue")
    toy.publish()
    with toy.app.driver.hold("a test"):
        block(toy.app, toy.state(), "rate-limited", "its limit is reached", not_before=not_before)
    run_id = toy.start()
    return toy, run_id, toy.drive(run_id)


def clear_event(toy):
    """The event that went on, and its meta."""
    return next(record for record in toy.app.log.read(1).records if record.event.event == "checkup_unblocked")


def test_when_the_time_has_come_the_run_goes_on_by_itself(tmp_path, client):
    toy, _, ended = blocked(tmp_path, client, LONG_AGO)
    assert ended.name == "Done"
    record = clear_event(toy)
    assert (record.event.by, record.meta["channel"]) == ("timer", "timer")
    assert toy.state().attempt_count == 1


def test_until_then_it_asks_and_a_person_may_be_faster(tmp_path, client):
    toy, run_id, ended = blocked(tmp_path, client, NEVER)
    assert ended.name == "Suspended"
    form = toy.asked(run_id)
    assert toy.state().not_before in form.description
    toy.answer(run_id, next(choice for choice in form.choices if "go on" in choice))
    assert toy.drive(run_id).name == "Done"
    assert clear_event(toy).meta["channel"] == "form"


def test_a_suspended_run_whose_question_time_has_answered_is_woken_and_no_other(tmp_path, client):
    """So does the janitor with each open loop; what is due follows from the log alone."""
    toy, run_id, _ = blocked(tmp_path, client, NEVER)
    asked = next_step(toy.app, 1)
    assert isinstance(asked, Question)
    assert have_asking(toy.app, toy.state(), asked).state == "PAUSED"
    assert have_asking(toy.app, toy.state(), replace(asked, not_before="2020-01-01T00:00:00Z")).id == run_id
    assert runs.state(client, run_id).state == "SCHEDULED"


def test_an_answer_that_comes_before_the_timer_counts_and_the_timer_is_silent(tmp_path, client):
    toy, run_id, ended = blocked(tmp_path, client, NEVER)
    assert ended.name == "Suspended"
    with toy.app.driver.hold("answer"):
        answer_issue(toy.app, 1, Answer("go-on", "eve"))
    assert [run.id for run in toy.suspended()] == [run_id]
    assert clear_event(toy).event.by == "eve"
