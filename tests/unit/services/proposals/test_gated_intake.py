"""The form of `intake` knows nobody by name: it approves nothing that a gate of approvals guards (decision 13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.app import App, Origin
from irontree.domain.commands import Issues
from irontree.domain.gates import Gate, Gates
from irontree.domain.state import Phase
from irontree.errors import ApprovalRefused
from irontree.services.answers.approve import approve
from irontree.services.loops.loop import Loop
from irontree.services.proposals.sources import propose, resolve
from irontree.services.questions.questions import FORM
from tests.support.approving import approve_as_shown
from tests.support.issues import CLEAR, write
from tests.support.world import GREETING, ONE_TASK, Scene

CHANGED = ONE_TASK.replace("it says hello", "it says hello to all")


@pytest.fixture
def gated(scene) -> Scene:
    scene.policy = scene.policy.model_copy(update={"gates": Gates(approval=Gate(approvers=2))})
    return scene


def form(scene: Scene) -> App:
    return replace(scene.app, origin=Origin("mallory", FORM))


def approves(app: App, scene: Scene, text: str) -> Loop:
    proposal = propose(app, scene.write(text))
    return approve(app, proposal, proposal.revision, "mallory")


def test_a_changed_document_is_not_approved_around_the_gate_and_the_gate_stays(gated):
    gated.start(ONE_TASK)
    gated.policy = gated.policy.model_copy(update={"gates": None})
    with pytest.raises(ApprovalRefused, match="does not know who you are") as refused:
        approves(form(gated), gated, CHANGED)
    assert "issue #1" in refused.value.remedy
    assert gated.world.plans[GREETING].policy.gates is not None


def test_who_runs_the_program_where_the_log_is_may(gated):
    gated.start(ONE_TASK)
    assert approves(gated.app, gated, CHANGED).is_open


def test_the_first_approval_has_no_gate(gated):
    assert approves(form(gated), gated, ONE_TASK).is_open


def test_what_was_approved_is_continued_without_another_approval(gated):
    """R6: exactly this was approved already."""
    loop = gated.start(ONE_TASK)
    assert approves(form(gated), gated, ONE_TASK).id == loop.id


def test_what_is_done_has_nothing_to_pass_any_more(gated):
    gated.drive(gated.start(ONE_TASK))
    assert gated.state().phase is Phase.DONE
    more = f"{ONE_TASK}\n## Close\n\n- [ ] closed `$ has close.txt`\n"
    assert approves(form(gated), gated, more).is_open


def test_a_changed_issue_is_not_approved_around_the_gate_either(gated):
    number = write(gated, "Greeting", CLEAR)
    asked = Issues((number,))
    approve_as_shown(gated.app, resolve(gated.app, asked, f"#{number}"), "ada")
    gated.policy = gated.policy.model_copy(update={"gates": None})
    found = resolve(gated.app, asked, f"#{number}")
    assert found.due
    with pytest.raises(ApprovalRefused, match="does not know who you are"):
        approve(form(gated), found, found.name, "mallory")
