"""What the form of an issue shows and offers when the document behind it changed (R7)."""

from __future__ import annotations

import pytest

from irontree.domain.state import Phase
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.consistency.audit import audit
from irontree.services.execution.run import run
from irontree.services.execution.steps import next_step
from irontree.services.proposals.again import special_choices
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.proposal import ApprovalChoices, ways_to_approve
from irontree.services.proposals.sources import propose
from irontree.services.questions.listing import explain
from irontree.services.questions.pages import question_text
from tests.support.world import CLOSE, GREETING, ONE, ONE_TASK, PARTS, Scene

KEEP = ApprovalChoices(keep_removed=True)
WITH_CLOSE = f"{ONE_TASK}\n## Close\n\n- [ ] closed `$ has close.txt`\n"


def without_close(scene: Scene) -> str:
    """Greeting and Close are published, and Close is no longer in the document; what to approve."""
    scene.publish(WITH_CLOSE)
    return propose(scene.app, scene.write(ONE_TASK)).name


def test_the_form_of_an_issue_offers_to_keep_what_was_removed_and_does_so(scene):
    """R7: not only where the document is approved as a whole."""
    approval = without_close(scene)
    run(scene.app, 2)
    assert special_choices(scene.app, "reapproval_required", CLOSE) == ("approve-keep",)
    shown = question_text(scene.app, next_step(scene.app, 2))
    assert "**approve-keep**: approve; keep what was removed" in shown
    assert "approve-reopen" not in shown
    assert explain(scene.app, CLOSE).rule == "a person decides; the choices are: approve, approve-keep"
    answer_issue(scene.app, 2, Answer("approve-keep", "ada", revision=approval))
    assert scene.world.plans[CLOSE].kept == (CLOSE,)
    assert scene.state(CLOSE).phase is Phase.READY


def test_a_group_is_not_kept_without_any_of_its_parts(scene):
    """It would wait for parts for ever: the only one is somewhere else in the document now."""
    part = "\n- [ ] one exists `$ has one.txt`\n"
    scene.publish(f"# Toy\n\n## Parts\n\n### Part one\n\nKey: one\n{part}")
    moved = propose(scene.app, scene.write(f"# Toy\n\n## Part one\n\nKey: one\n{part}"), choices=KEEP)
    assert [node.task_key for node in moved.draft.removed] == [PARTS]
    assert moved.kept == ()
    gone = propose(scene.app, scene.write(ONE_TASK), choices=KEEP)
    assert [node.task_key for node in gone.kept] == [PARTS, "one"]


@pytest.mark.parametrize("choice", ["approve-reopen", "approve; begin again what is done and changed"])
def test_the_form_of_an_issue_offers_to_reopen_what_is_done_and_changed_and_does_so(scene, choice):
    """R7; a terminal sends the name, a form in the browser the label."""
    loop = scene.start(ONE_TASK)
    assert scene.drive(loop).reason == "goal_reached"
    scene.publish(WITH_CLOSE)
    name = propose(scene.app, scene.write(WITH_CLOSE.replace("says hello", "greets").replace("closed", "shut"))).name
    assert run(scene.app, 2).phase is Phase.STALE
    assert special_choices(scene.app, "reapproval_required", CLOSE) == ("approve-reopen",)
    answer_issue(scene.app, 2, Answer(choice, "ada", revision=name))
    assert scene.state(GREETING).phase is Phase.READY
    assert scene.events(GREETING) == ["task_published"]


def test_where_nothing_was_there_before_only_the_plain_approval_is_offered(scene):
    scene.publish(ONE_TASK)
    scene.write(ONE_TASK.replace("says hello", "says good day"))
    assert special_choices(scene.app, "reapproval_required", GREETING) == ()
    assert special_choices(scene.app, "blocked", GREETING) == ()
    scene.write("no headings")
    assert special_choices(scene.app, "reapproval_required", GREETING) == ()


def test_a_changed_document_is_summed_up_before_its_diff(scene):
    """R7: what was added, removed and changed, and of that what."""
    without_close(scene)
    changed = ONE_TASK.replace("says hello `$ has greet.txt hello`", "greets `$ has greet.txt`")
    scene.write(f"{changed}\n## Leave\n\n- [ ] it leaves (manual)\n")
    run(scene.app, 2)
    shown = question_text(scene.app, next_step(scene.app, 2))
    summary, _, diff = shown.partition("```diff")
    for line in ("added: “Leave”", "removed: “Close”", "criterion added: it greets", "command removed: has greet.txt"):
        assert line in summary
    assert "+## Leave" in diff


def test_a_form_offers_only_what_makes_a_difference(scene):
    """R7"""
    assert ways_to_approve(propose(scene.app, scene.write(ONE_TASK))) == {}
    without_close(scene)
    ways = ways_to_approve(propose(scene.app, scene.root / "SPEC.md"))
    assert list(ways.values()) == [ApprovalChoices(keep_removed=True)]


# --- new parts of what is done ------------------------------------------------------------------------------

GROWN = "# Toy\n\n## Parts\n\n### Part one\n\n- [ ] one exists `$ has one.txt`\n"
NEW_PART = "\n### Part two\n\n- [ ] two exists `$ has two.txt`\n"


def test_a_finished_composite_that_gets_a_new_part_begins_again_and_waits_for_it(scene):
    scene.drive(scene.start(GROWN))
    assert scene.state(PARTS).done
    proposal = propose(scene.app, scene.write(GROWN + NEW_PART))
    assert proposal.draft.grown == (PARTS,)
    assert "is done, but has an unfinished part: it begins again" in approval_text(
        scene.app, proposal, loop_mode=True, answer="yes"
    )
    loop = scene.start(GROWN + NEW_PART)
    assert not scene.state(PARTS).done
    assert audit(scene.app) == ()
    assert scene.drive(loop).reason == "goal_reached"
    assert scene.state(PARTS).completion_basis == "aggregated"
    assert scene.state(ONE).runs_started == 1, "what is done and unchanged stays done"


def test_a_finished_composite_whose_parts_are_all_done_stays_done(scene):
    scene.drive(scene.start(GROWN))
    proposal = propose(scene.app, scene.write(GROWN + "\n## Other\n\n- [ ] it is `$ has two.txt`\n"))
    assert proposal.draft.grown == ()
