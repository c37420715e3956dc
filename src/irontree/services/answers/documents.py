"""A person's word for a document puts it into force, whole, and safe to repeat after a crash at any point (R7, R17)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from irontree.app import App
from irontree.domain.commands import Intent, Issues, OpenIssues, resolve_intent
from irontree.domain.gates import key_of_approval
from irontree.domain.plan import Plan
from irontree.domain.state import Phase, TaskState
from irontree.errors import ApprovalRefused, NothingToDo
from irontree.services.answers.issues import approve_adopted, resolve_to_approve
from irontree.services.execution.publish import PublishedNodes, publish
from irontree.services.execution.recovery import settle_leftovers
from irontree.services.loops.choice import loop_for, replace_open, require_at_rest
from irontree.services.loops.loop import Loop
from irontree.services.proposals.approval import Wanted
from irontree.services.proposals.documents import (
    UNREADABLE,
    ApprovalChoices,
    Proposal,
    approve,
    go_on,
    planned,
    propose,
    propose_again,
    release_approved,
    require_as_shown,
    with_choices,
)
from irontree.services.proposals.issues import resolve
from irontree.services.questions.questions import require_no_gate
from irontree.services.record.world import read_world


def authorise(app: App, proposal: Proposal, revision: str, by: str) -> Loop:
    """Write the plan, publish its nodes, start its loop: the one approval names all three (protocol, invariants).

    The caller holds the driver lock. Raises ApprovalRefused for another revision than the proposal's, and where it
    would not do what was shown any more, and in a form for what has a gate; Busy while a loop over other tasks of the
    document is at work.
    """
    require_as_shown(app, proposal)
    if not proposal.approved:
        require_no_gate(app, _approved_before(app, proposal))
    _require_at_rest(app, proposal)
    plan = approve(app, proposal, revision, by)
    intent = proposal.intent or proposal.spec_path
    _put_in_force(app, plan, by, intent, proposal.loop_id)
    loop = loop_for(app, plan, intent, proposal.loop_id)
    app.repository.back_up()
    return loop


def authorise_stepwise(app: App, proposal: Proposal, revision: str, by: str) -> PublishedNodes:
    """Write the plan and publish its nodes; no loop goes on over other tasks.

    The caller holds the driver lock. Raises ApprovalRefused as `authorise` does, and Busy while any loop of the
    document is at work: none of it would be approved for a loop any more.
    """
    require_as_shown(app, proposal)
    require_at_rest(app, proposal.spec_path, ())
    plan = approve(app, proposal, revision, by, loop_mode=False)
    published = _put_in_force(app, plan, by)
    app.repository.back_up()
    return published


def approve_again(
    app: App, issue_number: int, revision: str, by: str, choices: ApprovalChoices | None = None
) -> TaskState:
    """Answer `reapproval_required`: approve what the document and the configuration say now (ruling R7).

    An unchanged task goes on from where it was; a changed one begins a fresh stream; one that is no longer in the
    document is cancelled, and its state stays what it is. An open loop over other tasks of the document is replaced.
    An adopted issue is approved as it says now. *revision* is what the form showed: with its stamp it names all that
    approving would do, which is compared here, under the lock. Raises as `authorise` does.
    """
    plan = _plan_now(app, issue_number)
    if plan.adoption:
        return approve_adopted(app, plan, revision, by)
    proposal = with_choices(propose_again(app, plan), choices or ApprovalChoices())
    proposal.require_named(revision)
    _require_at_rest(app, proposal)
    plan = approve(app, proposal, revision, by, loop_mode=plan.loop_mode)
    _put_in_force(app, plan, by)
    world = read_world(app)
    now = world.state(issue_number)
    waits = now.phase in (Phase.STALE, Phase.ADOPTED) and now.task_key not in world.cancelled
    return go_on(app, now, by) if waits else now


def _approved_before(app: App, proposal: Proposal) -> set[str]:
    """The tasks that this would approve again: those of the document as it was, and those it names now."""
    world = read_world(app)
    earlier = {key for key, plan in world.plans.items() if plan.spec_path == proposal.spec_path and not plan.adoption}
    return earlier | {node.task_key for node in planned(proposal)}


def _require_at_rest(app: App, proposal: Proposal) -> None:
    require_at_rest(app, proposal.spec_path, [node.task_key for node in planned(proposal)])


def _put_in_force(app: App, plan: Plan, by: str, intent: str = "", loop_id: str = "") -> PublishedNodes:
    """Make its issues, once nothing is at work on them, and let what waited for it go on.

    The loop first: a plan that is not published whole is taken up again (`catch_up`), in the loop that has all of it.
    """
    settle_leftovers(app)
    replace_open(app, plan, intent, loop_id)
    published = publish(app, plan)
    release_approved(app, by)
    return published


def _plan_now(app: App, issue_number: int) -> Plan:
    """The plan in force for that issue; raises NotEligible where it was cancelled or no plan lists it."""
    world = read_world(app)
    state = world.state(issue_number)
    world.require_wanted(state)
    return world.plan(state)


# --- What an approval that is asked for in a form is about, read anew each time: it may be open for days (ruling R6


ApprovalStanding = Literal["open", "changed", "settled"]


def wanted_for(app: App, document: str, *, reads_only: bool = False) -> Wanted:
    """What approving *document* would approve now: a path relative to the repository, or words that name issues.

    Unless it *reads_only*, a named issue that is composite gets its label. Raises ApprovalRefused for what is no file
    of the repository, and as `propose` and `resolve_to_approve` do.
    """
    match _read_as(app, document):
        case Issues() | OpenIssues() as intent:
            return (resolve if reads_only else resolve_to_approve)(app, intent, document)
        case _:
            return propose(app, _document(app, document))


def names_issues(app: App, document: str) -> bool:
    """Whether *document* names issues: only the forge tells what approving it would approve."""
    return isinstance(_read_as(app, document), Issues | OpenIssues)


def question_key(wanted: Wanted) -> str:
    """The key under which it is asked: what changes of it while the form is open makes it another question."""
    return key_of_approval(wanted.name, wanted.stamp)


def standing_of(app: App, document: str, key: str) -> ApprovalStanding:
    """What became of the question *key* about *document* while its form was open.

    `settled`: it is approved, or nothing is left to do. `changed`: approving it is another question now. What cannot
    be read just now stays `open`.
    """
    try:
        wanted = wanted_for(app, document, reads_only=True)
    except NothingToDo:
        return "settled"
    except UNREADABLE:
        return "open"
    if wanted.approved:
        return "settled"
    return "open" if key.startswith(question_key(wanted)) else "changed"


def _read_as(app: App, document: str) -> Intent:
    return resolve_intent(document, lambda path: _path(app, path).is_file())


def _document(app: App, document: str) -> Path:
    path = _path(app, document)
    if not (path.is_file() and path.is_relative_to(app.repository.root.resolve())):
        raise ApprovalRefused(f"{document} is not a file in {app.repository.root}", remedy="give a path inside it")
    return path


def _path(app: App, document: str) -> Path:
    return (app.repository.root / document).resolve()
