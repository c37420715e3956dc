"""Puts an approval into force: writes plans, publishes or adopts issues, chooses the loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from irontree.app import App
from irontree.domain import typed
from irontree.domain.commands import Intent, Issues, OpenIssues, resolve_intent
from irontree.domain.gates import key_of_approval, key_of_branch
from irontree.domain.issues import Issue
from irontree.domain.plan import Plan, PublishPolicy, canonical_digest
from irontree.domain.state import NEEDS_BREAKDOWN, Phase, TaskState
from irontree.domain.text import shell_word
from irontree.domain.workflow.target import why_it_stays
from irontree.errors import (
    ApprovalRefused,
    BranchUndecided,
    Busy,
    NeedsBreakdown,
    NotEligible,
    NothingToDo,
    RemoteFailed,
)
from irontree.services.delivery.deliver import LABELS, deliver
from irontree.services.execution.publish import PublishedNodes, go_on, publish, release_approved
from irontree.services.execution.steps import settle_leftovers
from irontree.services.loops.choice import loop_for, refuse_at_work, refuse_beside_loop, replace_open, require_at_rest
from irontree.services.loops.loop import Loop, cancel, open_loops, require_trusted, start
from irontree.services.proposals.adoption import adopted_plan, clash, number_of, plan_for, why_not
from irontree.services.proposals.again import UNREADABLE, propose_again
from irontree.services.proposals.guard import require_unguarded
from irontree.services.proposals.proposal import ApprovalChoices, Proposal, approved_plans, propose_from
from irontree.services.proposals.sources import propose, resolve
from irontree.services.record import World, is_approved_for, read_world
from irontree.services.views.report import write_projections


def adopt(app: App, number: int) -> Plan:
    """Adopt one issue without approving it; returns its plan (protocol, `adopt issue-N`).

    An issue whose text changed since its adoption is adopted again; one that still waits for approval stays as it is.
    The caller holds the driver lock. Raises NotEligible for an issue that cannot be adopted, after labelling it if it
    is composite, and Busy while a loop is active, because its issue would start over during that work.
    """
    refuse_beside_loop(app)
    world = settle_leftovers(app)
    issue = require_adoptable(app, world, number)
    plan = plan_for(app, world, issue)
    if problem := clash(app, world, plan):
        raise NotEligible(problem.reason, remedy=problem.remedy)
    state = world.find(number)
    if state and state.phase is not Phase.ADOPTED and is_approved_for(app, state, plan):
        raise NotEligible(
            f"issue-{number} is adopted already: it is {state.phase}",
            remedy=f"`irontree task #{number}` works on it; edit the issue to adopt it again",
        )
    waiting = _behind_the_old_gates(world, plan, number)
    save_adopted(app, waiting)
    publish(app, waiting)
    app.repository.back_up()
    return plan


def _behind_the_old_gates(world: World, plan: Plan, number: int) -> Plan:
    """The plan as it waits: gates in force hold until another approval, so adopting again loosens none (R6)."""
    earlier = adopted_plan(world, number)
    gates = earlier.policy.gates if earlier else None
    return plan.model_copy(update={"policy": plan.policy.model_copy(update={"gates": gates})}) if gates else plan


def require_adoptable(app: App, world: World, number: int) -> Issue:
    """The issue, if it can be adopted. Raises NotEligible if not, after labelling one that has to be split first."""
    issue = app.forge().read_issue(number)
    if issue is None:
        raise NotEligible(f"there is no issue #{number} here", remedy="check the number")
    problem = why_not(app, world, issue)
    if problem is None:
        return issue
    if problem.composite:
        mark_composite(app, number)
    raise NotEligible(problem.reason, remedy=problem.remedy)


def mark_composite(app: App, number: int) -> None:
    """Set the label that asks for splitting; if the forge fails, only a warning is shown (contract, labels)."""
    try:
        app.forge().ensure_labels([LABELS[NEEDS_BREAKDOWN]])
        app.forge().set_labels(number, add=[NEEDS_BREAKDOWN])
    except RemoteFailed as error:
        app.progress.note(f"warning: #{number} has no label {NEEDS_BREAKDOWN}: {error.message}")


def save_adopted(app: App, *plans: Plan) -> None:
    """Write the plan of each issue before its stream; safe to repeat after a crash at any point (R6)."""
    world = read_world(app)
    for plan in plans:
        in_force = adopted_plan(world, number_of(plan))
        if in_force is None or not _adds_nothing(in_force, plan):
            app.plans.save(plan)


def _adds_nothing(in_force: Plan, plan: Plan) -> bool:
    """Whether text, settings and approval status are the same; the approval's author, time and Loop Mode may differ.

    Only the plan in force is compared: a text that was in force earlier has to be saved again.
    """
    different = ("adoption", "approval", "loop_mode")
    same = in_force.model_dump(exclude={*different}) == plan.model_dump(exclude={*different})
    return same and bool(in_force.approval) == bool(plan.approval)


def resolve_to_approve(app: App, intent: Issues | OpenIssues, words: str) -> Proposal:
    """Like `resolve`, but labels a named issue that is composite before raising for it.

    The label is not set while another driver holds the lock (contract, labels; R3).
    """
    try:
        return resolve(app, intent, words)
    except NeedsBreakdown as error:
        with suppress(Busy), app.driver.hold(f"#{error.number}, label"):
            mark_composite(app, error.number)
        raise


# --- Putting an approval into force, safe to repeat after a crash at any point (R6, R7, R17)


def approve(app: App, proposal: Proposal, revision: str, by: str) -> Loop:
    """Write the plans, publish their nodes and start their loop, all by one approval (protocol, invariants).

    The caller holds the driver lock. Raises ApprovalRefused if *revision* is not the proposal's, if approving would no
    longer do what was shown, if a task has open questions or a gate of approvals; Busy while a loop that it would
    replace is active; NotEligible if another loop has some of the tasks. Also raises the errors of `Source.read`.
    """
    _require_as_shown(app, proposal)
    require_unguarded(app, proposal)
    replaced = _replaceable(app, proposal, loop_mode=True)
    plans = write_plans(app, proposal, revision, by)
    _, released = _put_in_force(app, proposal, plans, by)
    _tell(app, proposal, released)
    loop = _loop(app, proposal, plans)
    for old in replaced:
        cancel(app, old.id, by, reason=f"its tasks go on in loop {loop.id}")
    app.repository.back_up()
    return loop


def approve_stepwise(app: App, proposal: Proposal, revision: str, by: str) -> PublishedNodes:
    """Write the plans and publish their nodes without a loop; an open loop over other tasks of the document ends.

    The caller holds the driver lock. Raises as `approve` does, and Busy while a loop over any of the tasks, or over the
    document, is active: its tasks would no longer be approved for a loop.
    """
    _require_as_shown(app, proposal)
    require_unguarded(app, proposal)
    _replaceable(app, proposal, loop_mode=False)
    plans = write_plans(app, proposal, revision, by, loop_mode=False)
    published, released = _put_in_force(app, proposal, plans, by)
    _tell(app, proposal, released)
    app.repository.back_up()
    return published


def approve_again(
    app: App,
    issue_number: int,
    revision: str,
    by: str,
    choices: ApprovalChoices | None = None,
    *,
    first: Callable[[Proposal], None] = lambda _: None,
) -> TaskState:
    """Approve the document or issue with today's configuration, in answer to `reapproval_required` (R7).

    An unchanged task resumes, a changed one begins a fresh stream, and one no longer in the document is cancelled with
    its state kept. An open loop over other tasks of the document is replaced. *revision* is what the form showed; for a
    document it includes a stamp of everything that approving would do, compared here under the lock. *first* is called
    with what is approved, once nothing refuses it any more and before anything is written. Returns the issue's state.
    Raises as `approve` does.
    """
    plan = _plan_now(app, issue_number)
    proposal = replace(propose_again(app, plan), choices=choices or ApprovalChoices())
    proposal.require_named(revision)
    if proposal.draft.whole:
        require_at_rest(app, proposal.what, proposal.keys)
    else:
        proposal.require_clear()
    first(proposal)
    _put_in_force(app, proposal, write_plans(app, proposal, revision, by, loop_mode=plan.loop_mode), by)
    world = read_world(app)
    now = world.state(issue_number)
    waits = now.phase in (Phase.STALE, Phase.ADOPTED) and now.task_key not in world.cancelled
    return go_on(app, now, by) if waits else now


def _plan_now(app: App, issue_number: int) -> Plan:
    """The plan in force for that issue. Raises NotEligible if the issue was cancelled or no plan lists it."""
    world = read_world(app)
    state = world.state(issue_number)
    world.require_wanted(state)
    return world.plan(state)


def _require_as_shown(app: App, proposal: Proposal) -> None:
    """Raise ApprovalRefused unless approving still does what *proposal* showed. The caller holds the driver lock.

    In the meantime other users may have approved, finished a task or ended a loop.
    """
    propose_from(app, proposal.source, proposal.intent).require_as_shown(proposal)


def write_plans(app: App, proposal: Proposal, revision: str, by: str, *, loop_mode: bool = True) -> tuple[Plan, ...]:
    """Write the approved plans durably, before any other effect. Raises ApprovalRefused for another name.

    *proposal* is what was shown, and *revision* its name. A plan that is already approved with exactly this content
    stays as it is. Interrupted attempts are settled first, under their own plans.
    """
    proposal.require_named(revision)
    plans = approved_plans(app, proposal, by, loop_mode=loop_mode)
    settle_leftovers(app)
    for plan in plans:
        if start := plan.policy.publish.branch_from:  # nothing else may keep it until the branch is made
            app.repository.keep(start, f"refs/irontree/from/{start}")
    if not proposal.draft.whole:
        save_adopted(app, *plans)
    elif not proposal.approved_plan:
        app.plans.save(plans[0])
    return plans


def _put_in_force(
    app: App, proposal: Proposal, plans: tuple[Plan, ...], by: str
) -> tuple[PublishedNodes, tuple[int, ...]]:
    """Publish the plans' issues, and resume the tasks that were waiting.

    Returns the published nodes and the issue numbers that were released. A document's loop comes first: if publication
    is cut short, `catch_up` continues it in the loop that has all its tasks.
    """
    if proposal.draft.whole:
        replace_open(app, plans[0], proposal.intent, proposal.loop_id)
    published = publish(app, *plans)
    return published, release_approved(app, read_world(app), by, None)


def _tell(app: App, proposal: Proposal, released: tuple[int, ...]) -> None:
    """For issues: deliver the effects of their release, and label those that were left out as composite."""
    if proposal.draft.whole:
        return
    world = read_world(app)
    for number in released:
        deliver(app, world, number)
        write_projections(app, world, world.state(number))
    for each in proposal.draft.excluded:
        if each.composite:
            mark_composite(app, each.number)


# --- The loop of an approval: an open one that continues, or a new one


def _loop(app: App, proposal: Proposal, plans: tuple[Plan, ...]) -> Loop:
    if proposal.draft.whole:
        return loop_for(app, plans[0], proposal.intent, proposal.loop_id)
    if proposal.open_loop:
        return proposal.open_loop
    return start(
        app,
        proposal.loop_id,
        proposal.keys,
        intent=proposal.intent,
        query=proposal.what,
        budget=proposal.draft.budget,
        goal="task_done" if len(proposal.keys) == 1 else "set_done",
    )


def _replaceable(app: App, proposal: Proposal, *, loop_mode: bool) -> tuple[Loop, ...]:
    """Open loops that have no other tasks left. Raises Busy for an active one, NotEligible for one with other tasks.

    A document's loops over other tasks are replaced when its plan is published.
    """
    if proposal.draft.whole:
        require_at_rest(app, proposal.what, proposal.keys if loop_mode else ())
        return ()
    require_trusted(app)
    own, keys, world = proposal.open_loop if loop_mode else None, set(proposal.keys), read_world(app)
    others = (loop for loop in open_loops(app) if own is None or loop.id != own.id)
    shared = tuple(loop for loop in others if keys & set(loop.keys))
    refuse_at_work(app, shared, "some of these tasks")
    for loop in shared:
        if not {key for key in loop.keys if not world.is_done(key)} <= keys:
            first = next(key for key in proposal.keys if key in loop.keys)
            raise NotEligible(
                f"loop {loop.id} is open, and has {first} among its tasks",
                remedy=f"go on with it: `{typed.resume(loop.id)}`, or end it: `{typed.stop(loop.id)}`",
            )
    return shared


# --- What an approval requested in a form is about, read anew each time


ApprovalStanding = Literal["open", "changed", "settled"]


def wanted_for(app: App, document: str, branch: str = "", *, reads_only: bool = False) -> Proposal:
    """What approving *document*, a path relative to the repository or the names of issues, would approve now.

    *branch* is what was chosen for a workflow file: without it BranchUndecided may be raised. Labels a named issue that
    is composite, unless *reads_only*. Raises ApprovalRefused for a path that is not a file in the repository, and as
    `propose` and `resolve_to_approve` do.
    """
    match _read_as(app, document):
        case Issues() | OpenIssues() as intent:
            if branch:
                raise NotEligible(f"{document} names no workflow file", remedy="leave the branch out")
            return (resolve if reads_only else resolve_to_approve)(app, intent, document)
        case _:
            return propose(app, _document(app, document), branch=branch)


def names_issues(app: App, document: str) -> bool:
    """Whether *document* names issues: then only the forge knows what would be approved."""
    return isinstance(_read_as(app, document), Issues | OpenIssues)


def question_key(wanted: Proposal) -> str:
    """The key of the question; if what would be approved changes while the form is open, it is another question."""
    return key_of_approval(wanted.digest, "" if wanted.draft.whole else wanted.stamp)


def branch_key(document: str, undecided: BranchUndecided) -> str:
    """The key of the question where *document* is worked on; on another branch it is another question."""
    return key_of_branch(canonical_digest([document, undecided.message]))


def standing_of(app: App, document: str, key: str, branch: str = "") -> ApprovalStanding:
    """The status of the question *key* about *document* while its form is open; *branch* was chosen in it before.

    `settled`: it is approved, or nothing is left to do. `changed`: approving it is another question now. `open`:
    neither, or its source cannot be read now.
    """
    try:
        wanted = _wanted_now(app, document, branch)
    except NothingToDo:
        return "settled"
    except BranchUndecided as undecided:
        return "open" if key.startswith(branch_key(document, undecided)) else "changed"
    except UNREADABLE:
        return "open"
    if wanted.approved:
        return "settled"
    return "open" if key.startswith(question_key(wanted)) else "changed"


def _wanted_now(app: App, document: str, branch: str) -> Proposal:
    """What would be approved; a plan that was approved on another *branch* meanwhile is the one that counts."""
    try:
        return wanted_for(app, document, branch, reads_only=True)
    except NotEligible:
        if not branch:
            raise
        return wanted_for(app, document, reads_only=True)


def _read_as(app: App, document: str) -> Intent:
    return resolve_intent(document, lambda path: _path(app, path).is_file())


def _document(app: App, document: str) -> Path:
    path = _path(app, document)
    if not (path.is_file() and path.is_relative_to(app.repository.root.resolve())):
        raise ApprovalRefused(f"{document} is not a file in {app.repository.root}", remedy="give a path inside it")
    return path


def _path(app: App, document: str) -> Path:
    return (app.repository.root / document).resolve()


# --- The user's checkout, put on the branch of a workflow that was just approved


def put_on_branch(app: App, publish: PublishPolicy, *, is_here: bool) -> str:
    """Put the checkout on the plan's own branch, and say so, or why it stays and how to do that by hand.

    *is_here* says whether the approval was given on a terminal in that checkout. Empty if it is there already. The
    caller holds the driver lock.
    """
    branch, start = publish.target_branch, publish.branch_from
    checkout = app.repository.user_checkout(publish.remote)
    if checkout.branch == branch or start is None:
        return ""
    why = why_it_stays(checkout, start) if is_here else "the approval was not given on a terminal in it"
    why = why or app.repository.switch(branch, start) or ""
    if not why:
        return f"Your checkout is on {branch} now, and follows the work."
    there = shell_word(branch)
    command = f"git switch {there}" if branch in checkout.branches else f"git switch --create {there} {start[:12]}"
    return f"Your checkout stays on {checkout.branch or 'no branch'}: {why}. To follow the work: {command}"
