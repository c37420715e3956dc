"""Acceptance cases TC-6.x: briefs from nothing, and holes in the log."""

from __future__ import annotations

from irontree.domain.decide import Run
from irontree.domain.state import Phase
from irontree.services.consistency.reconcile import reconcile
from irontree.services.execution.run import run
from irontree.services.execution.steps import perform
from irontree.services.execution.verify import verify
from tests.support.world import GREETING, ONE_TASK, SPEC


def test_tc_6_1_deleted_briefs_are_rebuilt_with_attempts_and_both_revisions(scene):
    scene.publish(SPEC)
    perform(scene.app, Run(GREETING))
    before = dict(scene.projections.texts)
    scene.projections.texts.clear()
    reconcile(scene.app)
    assert scene.projections.texts == before
    state, brief = scene.state(), scene.projections.read("brief", 1)
    for line in (
        f"- Spec Revision: {state.spec_revision}",
        f"- Approved Revision: {state.approved_revision}",
        "- Attempt Count: 1",
    ):
        assert line in brief


def test_tc_6_2_of_sequences_1_3_4_the_first_is_replayed_and_the_rest_is_named(scene):
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    del scene.log.files(1).files["0002-run-started.yml"]
    found = reconcile(scene.app)
    gap = scene.last().event
    assert (gap.found_sequences, gap.missing_sequences, gap.highest_replayable_sequence) == ((1, 3, 4), (2,), 1)
    assert (found.gaps, scene.state().phase, scene.state().attempt_count) == ((1,), Phase.BLOCKED, 0)
    assert [question.detail for question in found.open_questions] == ["sequence-gap"]
