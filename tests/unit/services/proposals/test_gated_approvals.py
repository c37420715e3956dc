"""The gate of approvals: origin x gate x kind of approval, with one rule for all of them (R20, decision 13)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import pytest

from irontree.app import App, Origin
from irontree.domain.gates import Gate, Gates
from irontree.domain.state import Phase
from irontree.errors import AnswerRefused, ApprovalRefused
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.answers.approve import adopt, approve, approve_stepwise
from irontree.services.answers.comments import look
from irontree.services.execution.run import run
from irontree.services.proposals.guard import require_unguarded
from irontree.services.proposals.proposal import Proposal
from irontree.services.proposals.sources import propose
from irontree.services.questions.listing import waiting
from irontree.services.questions.questions import FORM
from tests.support.approving import approve_as_shown
from tests.support.issues import CLEAR, edit, resolved, say, write
from tests.support.world import ONE_TASK, Scene

CHANGED = ONE_TASK.replace("it says hello", "it says hello to all")
EDITED = f"{CLEAR}- [ ] it is there `$ has greet.txt`\n"
GATES: Final = {
    "no gate": None,
    "another gate": Gates(acceptance=Gate(approvers=2)),
    "one person": Gates(approval=Gate()),
    "two people": Gates(approval=Gate(approvers=2)),
    "not the requester": Gates(approval=Gate(not_requester=True)),
}


# --- What is to be approved


@dataclass(frozen=True)
class Kind:
    """A plan that is to be approved: how it comes about, and what approving it would do."""

    make: Callable[[Scene], None]
    wanted: Callable[[Scene], Proposal]
    gate: bool = True
    """Whether the gate guards it."""
    asks: bool = True
    """Whether its issue asks for the approval."""


def of_document(scene: Scene) -> Proposal:
    return propose(scene.app, scene.root / "SPEC.md")


def of_issue(scene: Scene) -> Proposal:
    return resolved(scene, 1)


def new_document(scene: Scene) -> None:
    scene.write(ONE_TASK)


def changed_document(scene: Scene) -> None:
    scene.start(ONE_TASK)
    scene.write(CHANGED)


def changed_document_asks(scene: Scene) -> None:
    changed_document(scene)
    run(scene.app, 1)


def changed_settings(scene: Scene) -> None:
    """The change takes the gate away: the one that was approved holds."""
    scene.start(ONE_TASK)
    scene.policy = scene.policy.model_copy(update={"gates": None, "max_retry_count": 9})


def another_task(scene: Scene) -> None:
    scene.start(ONE_TASK)
    scene.write(f"{ONE_TASK}\n## Close\n\n- [ ] closed `$ has close.txt`\n")


def another_title(scene: Scene) -> None:
    """For the log that is a task less and one more."""
    scene.start(ONE_TASK)
    scene.write(ONE_TASK.replace("Greeting", "Welcome"))


def stepwise_document(scene: Scene) -> None:
    """It was approved with exactly this content, and now a loop is wanted."""
    found = propose(scene.app, scene.write(ONE_TASK), loop_mode=False)
    approve_stepwise(scene.app, found, found.name, "ada")


def new_issue(scene: Scene) -> None:
    write(scene, "Greeting", CLEAR)


def adopted_issue(scene: Scene) -> None:
    new_issue(scene)
    adopt(scene.app, 1)


def loosened_and_adopted_again(scene: Scene) -> None:
    adopted_issue(scene)
    scene.policy = scene.policy.model_copy(update={"gates": None})
    adopt(scene.app, 1)


def approved_issue(scene: Scene) -> None:
    """Approved when there was no gate to pass on the way: by comments."""
    gates, scene.policy = scene.policy.gates, scene.policy.model_copy(update={"gates": None})
    new_issue(scene)
    approve_as_shown(scene.app, resolved(scene, 1), "ada")
    [plan] = {plan.spec_revision: plan for plan in scene.world.plans.values()}.values()
    scene.policy = scene.policy.model_copy(update={"gates": gates})
    scene.plans.save(plan.model_copy(update={"policy": scene.policy}))


def edited_issue(scene: Scene) -> None:
    approved_issue(scene)
    edit(scene, 1, body=EDITED)


def edited_issue_asks(scene: Scene) -> None:
    edited_issue(scene)
    run(scene.app, 1)


def edited_and_adopted_again(scene: Scene) -> None:
    """Settings without the gate, and a new text that is taken in: the gate that was approved holds."""
    edited_issue(scene)
    scene.policy = scene.policy.model_copy(update={"gates": None})
    adopt(scene.app, 1)


KINDS: Final = {
    "a new document": Kind(new_document, of_document, gate=False, asks=False),
    "a changed document": Kind(changed_document, of_document, asks=False),
    "a changed document that asks": Kind(changed_document_asks, of_document),
    "changed settings": Kind(changed_settings, of_document, asks=False),
    "another task": Kind(another_task, of_document, gate=False, asks=False),
    "another title": Kind(another_title, of_document, asks=False),
    "a loop over what is approved": Kind(stepwise_document, of_document, gate=False, asks=False),
    "an issue": Kind(new_issue, of_issue, asks=False),
    "an adopted issue": Kind(adopted_issue, of_issue),
    "an issue that is adopted again": Kind(loosened_and_adopted_again, of_issue),
    "an edited issue": Kind(edited_issue, of_issue, asks=False),
    "an edited issue that asks": Kind(edited_issue_asks, of_issue),
    "an edited issue that is adopted again": Kind(edited_and_adopted_again, of_issue),
}


# --- Who approves it, and how


def by(scene: Scene, channel: str) -> App:
    return replace(scene.app, origin=Origin("mallory", channel))


def at_a_terminal(scene: Scene, wanted: Proposal) -> None:
    """`yes` at the prompt, and `--approve NAME`: both before the prompt and under the lock."""
    require_unguarded(by(scene, "command"), wanted)
    approve(by(scene, "command"), wanted, wanted.name, "mallory")


def stepwise(scene: Scene, wanted: Proposal) -> None:
    approve_stepwise(by(scene, "command"), wanted, wanted.name, "mallory")


def in_a_form(scene: Scene, wanted: Proposal) -> None:
    """Also what a label or the night asks for."""
    approve(by(scene, FORM), wanted, wanted.name, "mallory")


def checkup_unblock(scene: Scene, wanted: Proposal) -> None:
    answer_issue(by(scene, "command"), 1, Answer("approve", "mallory", revision=wanted.name))


def in_the_issues_form(scene: Scene, wanted: Proposal) -> None:
    answer_issue(by(scene, FORM), 1, Answer("approve", "mallory", revision=wanted.name))


ON_THE_ISSUE: Final = (checkup_unblock, in_the_issues_form)
ORIGINS: Final = (at_a_terminal, stepwise, in_a_form, *ON_THE_ISSUE)
ROWS: Final = [
    pytest.param(origin, case, gate, id=f"{origin.__name__}-{kind}-{gate}")
    for origin in ORIGINS
    for kind, case in KINDS.items()
    if case.asks or origin not in ON_THE_ISSUE
    for gate in ("no gate", "another gate", "two people")
]


@pytest.mark.parametrize(("origin", "case", "gate"), ROWS)
def test_who_is_not_known_by_name_passes_no_gate_of_approvals(scene, origin, case: Kind, gate: str):
    """And where none is in the way, every way to approve works."""
    scene.policy = scene.policy.model_copy(update={"gates": GATES[gate]})
    case.make(scene)
    wanted, before = case.wanted(scene), everything(scene)
    if case.gate and gate == "two people":
        with pytest.raises((ApprovalRefused, AnswerRefused), match="does not know who you are") as refused:
            origin(scene, wanted)
        assert "issue #1" in refused.value.remedy
        assert everything(scene) == before
    else:
        origin(scene, wanted)
        assert phases(scene) == {Phase.READY}


def everything(scene: Scene) -> tuple[object, ...]:
    events = [scene.log.read(number).records for number in scene.log.streams()]
    return events, scene.loops.ids(), [scene.plans.load(revision) for revision in scene.plans.revisions()]


def phases(scene: Scene) -> set[Phase]:
    world = scene.world
    return {state.phase for key, state in world.states.items() if key not in world.cancelled}


@pytest.mark.parametrize(("gate", "people"), [("one person", 1), ("two people", 2), ("not the requester", 1)])
@pytest.mark.parametrize("case", [pytest.param(case, id=kind) for kind, case in KINDS.items() if case.asks])
def test_comments_of_people_with_write_access_pass_it_as_many_as_it_asks_for(scene, case: Kind, gate: str, people: int):
    scene.policy = scene.policy.model_copy(update={"gates": GATES[gate]})
    scene.tracker.writers |= {"alice", "bob"}
    case.make(scene)
    look(scene.app)
    [asked] = waiting(scene.app)
    for name in ("alice", "bob")[:people]:
        assert phases(scene) <= {Phase.ADOPTED, Phase.STALE}
        say(scene, 1, f"/approve {asked.revision}", author=name)
        look(scene.app)
    assert phases(scene) == {Phase.READY}


# --- What is done, and what a plan says of it


def test_what_is_done_has_nothing_to_pass_any_more(scene):
    """Not in a document: its new tasks have no issue to comment on."""
    scene.policy = scene.policy.model_copy(update={"gates": GATES["two people"]})
    scene.drive(scene.start(ONE_TASK))
    assert scene.state().phase is Phase.DONE
    more = f"{CHANGED}\n## Close\n\n- [ ] closed `$ has close.txt`\n"
    in_a_form(scene, propose(scene.app, scene.write(more)))


def test_what_was_approved_is_continued_without_another_approval(scene):
    """R6: exactly this was approved already."""
    scene.policy = scene.policy.model_copy(update={"gates": GATES["two people"]})
    loop = scene.start(ONE_TASK)
    found = propose(scene.app, scene.root / "SPEC.md")
    assert approve(by(scene, FORM), found, found.name, "mallory").id == loop.id
