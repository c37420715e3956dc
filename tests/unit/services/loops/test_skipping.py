"""What a person skipped in a loop stays so as long as it is open, however it is gone on with (R17)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.domain.decide import Halt
from irontree.errors import AnswerRefused
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.answers.approve import approve
from irontree.services.execution.checkup import finalize
from irontree.services.loops import loop as loops
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.proposal import ApprovalChoices
from irontree.services.proposals.sources import propose
from irontree.services.questions.commands import next_command
from irontree.services.questions.listing import explain
from irontree.services.questions.pages import tree_text
from irontree.services.questions.questions import given_up
from irontree.services.views.overview import overview
from tests.support.world import CLOSE, GREETING, MANUAL_TASK, ONE_TASK, Scene, accepts, prepared, sends_back

OTHER = "\n## Close\n\n- [ ] closed `$ has close.txt`\n"
CLOSING = "\n## Close\n\nDepends on: Greeting\n\n- [ ] closed `$ has close.txt`\n"


def without_close(scene: Scene) -> loops.Loop:
    """The loop over a document with two tasks, of which a person skipped the second."""
    loop = scene.start(ONE_TASK + CLOSING)
    assert loops.skip(scene.app, loop.id, CLOSE, "ada") == (CLOSE,)
    return loop


def test_an_approval_after_a_skip_lists_what_is_left_out_and_goes_on_with_the_loop_without_it(scene):
    reduced = without_close(scene)
    scene.policy = scene.policy.model_copy(update={"check_seconds": 99})
    proposal = propose(scene.app, scene.root / "SPEC.md")
    assert (proposal.loop_id, proposal.skipped) == (reduced.id, (CLOSE,))
    shown = approval_text(scene.app, proposal, loop_mode=True, answer="")
    assert f"#2 Close: skipped in loop {reduced.id}" in shown
    assert f"irontree stop {reduced.id}" in shown
    assert "- Goal: this task is done" in shown
    loop = approve(scene.app, proposal, proposal.name, "ada")
    assert (loop.id, loop.keys) == (reduced.id, (GREETING,))
    assert scene.drive(loop) == Halt("goal_reached")
    assert not scene.state(CLOSE).done


def test_asking_for_the_document_again_after_a_skip_is_what_resuming_is(scene):
    """After a crash nobody knows which of both was typed."""
    reduced = without_close(scene)
    proposal = propose(scene.app, scene.root / "SPEC.md")
    assert proposal.approved_in_words.endswith(f"without what was skipped in loop {reduced.id}: {CLOSE}")
    loop = approve(scene.app, proposal, proposal.name, "ada")
    assert (loop.id, loop.keys) == (reduced.id, (GREETING,))


def test_what_was_skipped_is_worked_on_again_once_its_loop_was_stopped(scene):
    reduced = without_close(scene)
    loops.cancel(scene.app, reduced.id, "ada")
    proposal = propose(scene.app, scene.root / "SPEC.md")
    assert proposal.skipped == ()
    loop = approve(scene.app, proposal, proposal.name, "ada")
    assert (loop.id != reduced.id, loop.keys) == (True, (GREETING, CLOSE))


def test_a_skipped_task_that_is_kept_in_the_plan_is_skipped_still(scene):
    reduced = without_close(scene)
    shown = propose(scene.app, scene.write(ONE_TASK))
    assert shown.loop_id == reduced.id
    keeping = replace(shown, choices=ApprovalChoices(keep_removed=True))
    assert keeping.skipped == (CLOSE,)
    loop = approve(scene.app, keeping, keeping.name, "ada")
    assert (loop.id, loop.keys) == (reduced.id, (GREETING,))


def test_an_approval_of_the_same_tasks_joins_a_loop_at_work_in_which_something_was_skipped(scene):
    reduced = without_close(scene)
    proposal = propose(scene.app, scene.root / "SPEC.md")
    with scene.lease.hold(reduced.id):
        assert approve(scene.app, proposal, proposal.name, "ada").id == reduced.id


def test_what_was_skipped_stays_skipped_when_a_form_of_the_loop_is_answered(scene):
    reduced = without_close(scene)
    scene.write((ONE_TASK + CLOSING).replace("it says hello", "it greets"))
    name = propose(scene.app, scene.root / "SPEC.md").name
    assert scene.drive(reduced, prepared(Answer("approve", "ada", revision=name))) == Halt("goal_reached")
    assert loops.read_loop(scene.app, reduced.id).keys == (GREETING,)
    assert not scene.state(CLOSE).done


def skipped_while_pending(scene: Scene) -> loops.Loop:
    """A loop that goes on without the one of its two tasks that waited for acceptance."""
    loop = scene.start(MANUAL_TASK + OTHER)
    scene.drive(loop)
    loops.skip(scene.app, loop.id, GREETING, "ada")
    return loops.read_loop(scene.app, loop.id)


def shown_as(scene: Scene, loop: loops.Loop) -> set[str]:
    """How each of the views shows the first task."""
    world, all_loops = scene.world, loops.read_loops(scene.app)[0]
    return {
        "skipped" if GREETING in loops.skipped(all_loops, world) else "",
        "skipped" if GREETING in given_up(all_loops, world) else "",
        "skipped" if explain(scene.app, GREETING).standing == "skipped" else "",
        "skipped" if "skipped" in tree_text(scene.app, loop.id, {}) else "",
    }


def test_what_was_skipped_takes_no_answer_as_long_as_its_loop_is_open(scene):
    loop = skipped_while_pending(scene)
    before = scene.repository.remote["main"]
    for answer in (accepts(), sends_back("longer")):
        with pytest.raises(AnswerRefused, match=f"was skipped in loop {loop.id}, and stays skipped") as refused:
            answer_issue(scene.app, 1, answer)
        assert f"`irontree stop {loop.id}`" in refused.value.remedy
    assert (scene.repository.remote["main"], shown_as(scene, loop)) == (before, {"skipped"})


def test_what_is_accepted_once_its_loop_is_over_is_shown_as_skipped_nowhere(scene):
    loop = skipped_while_pending(scene)
    assert scene.drive(loop) == Halt("goal_reached")
    assert shown_as(scene, loop) == {"skipped"}
    answer_issue(scene.app, 1, accepts())
    assert shown_as(scene, loop) == {""}
    assert next_command(scene.app, scene.world, loops.read_loops(scene.app)[0]) == "irontree checkup finalize issue-1"
    finalize(scene.app, 1)
    assert (shown_as(scene, loop), scene.state().done) == ({""}, True)
    (row,) = overview(scene.app).loops
    assert (row.done, row.total, row.skipped) == (2, 2, 0)
