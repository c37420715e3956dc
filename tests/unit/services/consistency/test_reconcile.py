"""Reconciliation names what is wrong, once, and never marks anything done (phase 6; R13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.domain.state import Phase
from irontree.errors import LogDamaged, NotEligible
from irontree.ports import Blocker
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.consistency.audit import audit
from irontree.services.consistency.reconcile import reconcile
from irontree.services.execution.publish import publish
from irontree.services.execution.run import run
from irontree.services.execution.steps import next_step
from irontree.services.execution.verify import verify
from irontree.services.questions.questions import Question
from irontree.services.views.overview import overview
from tests.support.world import GREETING, ONE_TASK, SPEC, Scene


def damaged(scene: Scene) -> Scene:
    """TC-6.2: sequences 1, 3, 4 are there."""
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    del scene.log.files(1).files["0002-run-started.yml"]
    return scene


def test_a_sound_repository_has_nothing_to_reconcile(scene):
    scene.publish(SPEC)
    found = reconcile(scene.app)
    assert (found.gaps, found.outside, found.problems, found.open_questions, found.restored) == ((), (), (), (), ())


def test_a_gap_is_recorded_once_and_blocks(scene):
    damaged(scene)
    assert reconcile(scene.app).gaps == (1,)
    event = scene.last().event
    assert (event.event, event.sequence) == ("checkup_reconcile_sequence_gap_detected", 5)
    assert (event.found_sequences, event.missing_sequences, event.highest_replayable_sequence) == ((1, 3, 4), (2,), 1)
    assert reconcile(scene.app).gaps == ()
    assert (scene.state().phase, scene.state().blocking_check) == (Phase.BLOCKED, "sequence-gap")


def test_after_a_gap_a_person_says_how_to_go_on(scene):
    damaged(scene)
    reconcile(scene.app)
    state = answer_issue(scene.app, 1, Answer("go-on", "ada"))
    assert (state.phase, state.sequence) == (Phase.READY, 6)
    assert run(scene.app, 1).last_event == "run_completed"


def test_a_file_that_cannot_be_read_at_the_end_is_a_gap_too(scene):
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    scene.log.files(1).files["0003-run-completed.yml"] = b"torn"
    found = reconcile(scene.app)
    assert found.gaps == (1,)
    assert isinstance(next_step(scene.app, 1), Question)


@pytest.mark.parametrize(("old", "new"), [(b"run_completed", b"run_celebrated"), (b"version: 1", b"version: 2")])
def test_what_a_newer_version_wrote_is_no_gap_but_one_advice_to_upgrade(scene, old, new):
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    name = "0003-run-completed.yml"
    scene.log.files(1).files[name] = scene.log.files(1).files[name].replace(old, new)
    found = reconcile(scene.app)
    assert (found.gaps, scene.log.read(1).highest_sequence) == ((), 3)
    assert all("upgrade irontree" in problem for problem in found.problems)
    assert isinstance(next_step(scene.app, 1), Question)
    with pytest.raises(NotEligible, match="upgrade irontree"):
        run(scene.app, 1)


def test_an_issue_of_which_nothing_can_be_read_is_named(scene):
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    del scene.log.files(1).files["0001-task-published.yml"]
    assert any("issue-1" in problem for problem in reconcile(scene.app).problems)
    assert any("issue-1" in problem for problem in overview(scene.app).problems)


def test_an_issue_closed_outside_is_recorded_once_and_never_believed(scene):
    scene.publish(ONE_TASK)
    scene.forge_seen.edit_issue(1, state="closed")
    assert [change.where for change in reconcile(scene.app).outside] == ["issue-1"]
    assert reconcile(scene.app).outside == ()
    assert (scene.state().phase, scene.state().done) == (Phase.BLOCKED, False)
    assert len(scene.comments()) == 1


def test_our_own_closing_is_never_external(scene):
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    assert scene.tracker.issues[1].state == "closed"
    assert reconcile(scene.app).outside == ()


def test_a_closing_beneath_another_hold_is_not_recorded_again(scene):
    scene.publish(ONE_TASK)
    scene.forge_seen.edit_issue(1, state="closed")
    reconcile(scene.app)
    scene.log.files(1).files["0004-run-started.yml"] = b"torn"
    reconcile(scene.app)
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    before = scene.events()
    assert before.count("checkup_reconcile_external_close_detected") == 1


def test_an_issue_that_the_forge_cannot_show_is_left_alone(scene):
    scene.publish(ONE_TASK)
    scene.tracker.outage = "503"
    found = reconcile(scene.app)
    assert found.outside == ()
    assert any("503" in line for line in scene.notes.lines)


def test_what_was_not_delivered_is_delivered_and_else_listed(scene):
    scene.publish(ONE_TASK)
    scene.repository.hook = lambda _: "no"
    run(scene.app, 1)
    scene.tracker.outage = "503"
    assert any("503" in failure for failure in reconcile(scene.app).undelivered)
    scene.tracker.outage = None
    assert reconcile(scene.app).undelivered == ()
    assert len(scene.comments()) == 1


def test_deleted_briefs_are_made_again_with_both_revisions_and_the_attempts(scene):
    """TC-6.1"""
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    scene.projections.texts.clear()
    reconcile(scene.app)
    brief = scene.projections.texts[scene.root / ".mino/briefs/issue-1.md"]
    state = scene.state()
    assert brief.count(state.approved_revision) >= 2
    assert "1" in brief


def test_everything_that_waits_for_a_person_is_listed(scene):
    scene.publish(SPEC)
    scene.repository.blockers.append(Blocker("missing-identity", "nobody commits", "git config user.name"))
    run(scene.app, 1)
    questions = reconcile(scene.app).open_questions
    assert [(question.issue_number, question.rule.reason) for question in questions] == [(1, "blocked")]


def test_text_that_came_back_is_approved_by_reconciliation(scene):
    scene.publish(ONE_TASK)
    scene.write(ONE_TASK.replace("says", "cries"))
    run(scene.app, 1)
    scene.write(ONE_TASK)
    assert reconcile(scene.app).approved_again == (1,)
    assert scene.state().phase is Phase.READY


def test_a_deleted_issue_folder_is_published_again_under_the_same_number(scene):
    plan = scene.publish(ONE_TASK)
    scene.log.files(1).files.clear()
    publish(scene.app, plan)
    assert scene.number(GREETING) == 1
    assert len(scene.tracker.issues) == 1


class Unreadable:
    """A result store whose files are damaged."""

    def load(self, issue_number: int, anchor: str) -> None:
        raise LogDamaged(f".mino/reports/issue-{issue_number}/{anchor}.yml: not readable")


def test_check_results_that_cannot_be_read_keep_nothing_from_being_reconciled(scene):
    scene.drive(scene.start(ONE_TASK))
    damaged = replace(scene.app, results=Unreadable())
    scene.app.projections.write("brief", 1, "")
    reconcile(damaged)
    assert "Task Key" in scene.app.projections.read("brief", 1)
    assert [finding.what for finding in audit(damaged)] == [
        f".mino/reports/issue-1/{scene.state().anchor}.yml: not readable"
    ]
