"""`janitor` and `reconcile`: what a crash left is noticed and taken up; what lives, or is about to, is left alone."""

from __future__ import annotations

import logging

import pytest
from prefect.states import Pending, Running

from irontree.flows.janitor import janitor
from irontree.flows.reconcile import reconcile
from irontree.flows.runs import runs
from irontree.flows.runs.recovery import NOBODY_STARTS, WORKERS_START, mark_dead_runs, start_what_waits, take_up
from irontree.services.work.preflight import block
from tests.prefect.harness import logs
from tests.prefect.toys import GREETING, make_toy


@pytest.fixture
def toy(tmp_path, client):
    """A project whose loop is approved."""
    return make_toy(tmp_path, client, GREETING, "issue", "loop", "janitor", "reconcile")


@pytest.fixture
def at_work(toy, client):
    """The same, and its loop's run, which a process has taken up as far as Prefect knows."""
    loop_id = toy.authorise()
    run = take_up(toy.app, loop_id)
    client.set_flow_run_state(run.id, Running(), force=True)
    return toy, run


def upkeep(toy, flow):
    """Drive a run of that flow, as its schedule would; the state it ended in and its log."""
    run = toy.client.create_flow_run_from_deployment(toy.deployment(flow.name))
    ended = toy.drive(run.id, flow)
    return ended, logs(toy.client, run.id)


def test_a_run_whose_process_is_gone_has_crashed_and_its_loop_is_started_again(at_work, client):
    toy, run = at_work
    assert mark_dead_runs(toy.app, grace=NOBODY_STARTS) == (f"{run.name}: its process is gone",)
    assert runs.state(client, run.id).state == "CRASHED"
    [line] = start_what_waits(toy.app)
    assert line == f"loop {toy.app.loops.ids()[0]} goes on"
    assert runs.state(client, run.id).state == "SCHEDULED"


def test_a_run_whose_process_lives_is_left_alone(at_work, client):
    toy, run = at_work
    with toy.app.alive(str(run.id)).hold("its process"):
        assert mark_dead_runs(toy.app, grace=NOBODY_STARTS) == ()
    assert runs.state(client, run.id).state == "RUNNING"


def test_a_run_that_a_worker_may_be_starting_is_left_alone_where_there_may_be_workers(at_work, client):
    toy, run = at_work
    client.set_flow_run_state(run.id, Pending(), force=True)
    assert mark_dead_runs(toy.app, grace=WORKERS_START) == ()
    assert mark_dead_runs(toy.app, grace=NOBODY_STARTS) != ()


def test_a_run_that_is_just_starting_is_left_alone_and_so_is_the_janitors_own(at_work, client):
    toy, run = at_work
    ended, lines = upkeep(toy, janitor)
    assert (ended.name, ended.message) == ("Completed", "0 dead runs, 1 open loop")
    assert runs.state(client, run.id).state == "RUNNING"
    assert [text for level, text in lines if level > logging.INFO] == []


def test_the_janitor_delivers_what_a_crash_kept_from_the_forge(toy):
    toy.publish()
    app = toy.app
    with app.driver.hold("a step that is cut off behind its event"):
        block(app, toy.state(), "disk-full", "no space is left")
    assert app.forge().comments(1) == ()
    upkeep(toy, janitor)
    assert ["No space is left" in comment.body for comment in app.forge().comments(1)] == [True]


def test_the_janitor_removes_the_lock_files_of_runs_that_have_ended(toy):
    for _ in range(2):
        upkeep(toy, janitor)
    [own] = [run for run in toy.all_runs() if (toy.root / ".mino" / ".runs" / str(run.id)).exists()]
    assert own.state == "COMPLETED"


def test_a_loop_that_cannot_be_read_is_told_and_keeps_no_other_from_going_on(toy):
    """R13"""
    loop_id, damaged = toy.authorise(), "2026-04-22-1432-a3f8b2"
    folder = toy.root / ".mino" / "loops"
    (folder / f"{damaged}.yml").write_text("no: loop\n")
    assert damaged in toy.app.loops.ids()
    assert start_what_waits(toy.app) == (f"loop {loop_id} goes on",)
    ended, lines = upkeep(toy, janitor)
    assert ended.name == "Completed"
    assert any(level == logging.WARNING and damaged in text for level, text in lines)


def test_a_run_of_an_issue_that_somebody_made_by_hand_hands_over_to_the_issues_own(toy, client):
    """...in the loop that drives the issue, whether the person named it or not."""
    loop_id = toy.authorise()
    by_hand = client.create_flow_run_from_deployment(
        toy.deployment("issue"), parameters={"repository": str(toy.root), "number": 1}
    )
    ended = toy.drive(by_hand.id)
    [own] = [run for run in toy.runs_of(1) if run.id != by_hand.id]
    assert (ended.name, ended.message) == (
        "Handed over",
        f"the run of this issue is {own.name}: {runs.url_for(own.id)}",
    )
    assert (own.state, own.parameters["loop_id"]) == ("SCHEDULED", loop_id)
    assert toy.events() == ["task_published"]


def test_reconcile_says_what_is_wrong_and_what_waits_for_somebody(toy):
    toy.publish()
    toy.app.forge().edit_issue(1, state="closed")
    (toy.root / ".mino" / "events" / "issue-1" / "0002-nonsense.yml").write_text("not an event\n")
    ended, lines = upkeep(toy, reconcile)
    assert "1 questions open" in ended.message
    assert any(level == logging.WARNING and "0002-nonsense.yml" in text for level, text in lines)
