"""Acceptance cases TC-5.x: what was approved is what runs, and nothing is published twice."""

from __future__ import annotations

import pytest

from irontree.domain.commands import Issues
from irontree.domain.state import Phase
from irontree.errors import NotEligible
from irontree.services.answers.approve import approve, resolve_to_approve
from irontree.services.execution.publish import publish
from irontree.services.execution.run import run
from irontree.services.proposals.sources import propose
from tests.support.issues import write
from tests.support.world import GREETING, ONE_TASK, SPEC, Scene


def test_tc_5_1_a_changed_document_needs_approval_again_and_nothing_runs(scene: Scene):
    scene.publish(ONE_TASK)
    scene.write(ONE_TASK.replace("it says hello", "it says goodbye"))
    assert run(scene.app, scene.number()).phase is Phase.STALE
    assert scene.events() == ["task_published", "task_reapproval_required"]
    assert scene.agent.tasks == []


def test_tc_5_2_the_same_document_twice_makes_no_issue_twice_and_keeps_the_briefs(scene: Scene):
    plan = scene.publish(SPEC)
    issues, briefs = dict(scene.tracker.issues), dict(scene.projections.texts)
    proposal = propose(scene.app, scene.root / "SPEC.md")
    assert proposal.approved_plan == plan
    approve(scene.app, proposal, proposal.name, "ada")
    publish(scene.app, plan)
    assert dict(scene.tracker.issues) == issues
    assert dict(scene.projections.texts) == briefs
    assert scene.events(GREETING) == ["task_published"]


def test_tc_5_3_a_vague_composite_is_marked_for_breakdown_and_no_tree_is_guessed(scene: Scene):
    write(scene, "Everything", "".join(f"- [ ] part {number}\n" for number in range(5)))
    with pytest.raises(NotEligible, match="appears composite"):
        resolve_to_approve(scene.app, Issues((1,)), "#1")
    assert scene.tracker.issues[1].labels == ("iron-tree:needs-breakdown",)
    assert (len(scene.tracker.issues), scene.log.streams(), scene.plans.revisions()) == (1, (), ())
