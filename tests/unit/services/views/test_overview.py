"""Everything at a glance, without a lock, and whatever is damaged (R3, R13)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from irontree.cli.consistency import findings
from irontree.cli.doctor import left_behind
from irontree.ports import BackupFailure, LeftLease, LeftLock
from irontree.services.execution.publish import publish
from irontree.services.execution.run import run
from irontree.services.proposals.sources import propose
from irontree.services.views.overview import overview
from tests.support.approving import write_plan
from tests.support.watching import Killed, Watched, dying_at
from tests.support.world import CLOSE, GREETING, ONE, ONE_TASK, PARTS, SPEC, TWO, Scene, accepts, nobody, prepared


def rows(scene: Scene) -> dict:
    return {row.task_key: row for row in overview(scene.app).issues}


def test_the_tree_is_shown_parents_first(scene):
    scene.publish(SPEC)
    assert [(row.task_key, row.depth) for row in overview(scene.app).issues] == [
        *((GREETING, 0), (PARTS, 0), (ONE, 1), (TWO, 1), (CLOSE, 0)),
    ]


def test_a_row_says_what_an_issue_waits_for_and_what_it_asks(scene):
    loop = scene.start()
    scene.drive(loop, nobody)
    found = rows(scene)
    assert found[GREETING].phase == "done"
    assert found[CLOSE].waits_for == (TWO,)
    assert (found[TWO].asks, found[TWO].attempts) == ("pending_acceptance", "1 / 4")
    assert found[CLOSE].attempts == ""


def test_a_loop_says_how_far_it_is(scene):
    loop = scene.start()
    scene.drive(loop, nobody)
    row = overview(scene.app).loops[0]
    assert (row.status, row.halt_reason, row.halt_at) == ("halted", "pending_acceptance", TWO)
    assert (row.done, row.total, row.budget) == (2, 5, 50)
    scene.drive(loop, prepared(accepts()))
    row = overview(scene.app).loops[0]
    assert (row.status, row.done) == ("completed", 5)


def test_who_drives_is_named_and_nobody_is_waited_for(scene):
    scene.publish(ONE_TASK)
    assert overview(scene.app).busy is None
    with scene.driver.hold("greeting, run"):
        assert overview(scene.app).busy.startswith("greeting, run (process")


def test_a_file_that_cannot_be_read_is_a_problem_of_its_issue_and_of_nothing_else(scene):
    scene.publish(SPEC)
    scene.log.files(1).files["0002-run-started.yml"] = b"torn"
    found = overview(scene.app)
    assert len(found.issues) == 5
    assert "issue-1/0002-run-started.yml" in found.problems[0]
    assert rows(scene)[GREETING].asks == "blocked"
    assert rows(scene)[ONE].asks is None


def test_an_issue_whose_plan_is_lost_is_shown_by_its_key(scene):
    scene.publish(ONE_TASK)
    scene.plans._plans.clear()
    row = rows(scene)[GREETING]
    assert (row.title, row.parent, row.depth) == (GREETING, None, 0)


def test_a_loop_that_cannot_be_read_stops_nothing(scene):
    loop = scene.start()
    files = scene.loops.files(loop.id).files
    files["0002-loop-halted.yml"] = b"torn"
    assert any("0002-loop-halted.yml" in problem for problem in overview(scene.app).problems)
    files.clear()
    found = overview(scene.app)
    assert [row.loop_id for row in found.loops] == [loop.id], "its file says so much"
    assert any(loop.id in problem for problem in found.problems)


def test_what_was_not_delivered_is_shown(scene):
    scene.publish(ONE_TASK)
    scene.tracker.outage = "503"
    scene.repository.hook = lambda _: "no"
    from irontree.services.delivery.deliver import deliver

    run(scene.app, 1)
    deliver(scene.app, scene.world, 1)
    assert any("503" in failure for failure in rows(scene)[GREETING].undelivered)


def test_another_tools_loop_is_at_work_until_its_lease_is_stale(scene):
    scene.lease.other = LeftLease("2026-04-21-0000-00ff00", "loop 2026-04-21-0000-00ff00, process 7")
    assert overview(scene.app).active_loop == "loop 2026-04-21-0000-00ff00, process 7"
    scene.lease.is_old = True
    found = overview(scene.app)
    assert found.active_loop is None
    assert any("stale loop lease detected" in problem for problem in found.problems)


def test_an_empty_repository_has_an_empty_overview(scene):
    found = overview(scene.app)
    assert (found.issues, found.loops, found.problems) == ((), (), ())


def test_an_approval_that_was_cut_off_is_said_with_what_goes_on_until_all_of_it_is_published(scene):
    """Ruling R6; also where not one of its tasks has an issue yet."""
    proposal = propose(scene.app, scene.write(SPEC))
    plan = write_plan(scene.app, proposal, proposal.name, "ada")
    said = f"approved revision {plan.spec_revision} is only partly published: {{}} of 5 -> irontree task SPEC.md"
    assert overview(scene.app).problems == (said.format(0),)
    with scene.driver.hold("SPEC.md, publish"):
        assert overview(scene.app).problems == (), "somebody is at it"
    dead = replace(scene.app, forge=lambda: Watched(scene.forge_seen, ["create_issue"], third))
    third = dying_at("before", 3)
    with pytest.raises(Killed):
        publish(dead, plan)
    assert overview(scene.app).problems == (said.format(2),)
    (found,) = findings(scene.app, scene.world)
    assert (found.where, found.remedy) == (f".mino/plans/{plan.spec_revision}.yml", "irontree task SPEC.md")
    publish(scene.app, plan)
    assert (overview(scene.app).problems, tuple(findings(scene.app, scene.world))) == ((), ())


def test_a_backup_that_fails_is_a_warning_at_once_and_trouble_after_an_hour(scene):
    """`status` and `doctor` say the same."""
    now = scene.app.clock.now()
    lock = LeftLock("config.lock is 5 min old", "remove it")
    scene.repository.locks_left = (lock,)
    scene.repository.backup_failed = BackupFailure(now, "no room", "make some")
    assert "no room -> make some" in overview(scene.app).backup
    assert overview(scene.app).problems == ()
    assert [(found.verdict, found.remedy) for found in left_behind(scene.app)] == [("note", ""), ("note", lock.remedy)]
    scene.repository.backup_failed = BackupFailure(now - timedelta(hours=1), "no room", "make some")
    [trouble] = overview(scene.app).problems
    assert "no room" in trouble
    assert overview(scene.app).backup is None
    assert next(left_behind(scene.app)).verdict == "bad"
