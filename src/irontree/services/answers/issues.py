"""A person's word for existing issues puts them into force, whole, and safe to repeat after a crash at any point."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from irontree.app import App
from irontree.domain.commands import Issues, OpenIssues
from irontree.domain.gates import require_typed
from irontree.domain.ids import intent_hash
from irontree.domain.loop import LoopEntity
from irontree.domain.plan import Plan
from irontree.domain.state import COLORS, NEEDS_BREAKDOWN, Phase, TaskState
from irontree.errors import ApprovalRefused, Busy, NeedsBreakdown, NotEligible, RemoteFailed
from irontree.ports import Issue, Label
from irontree.services.delivery.deliver import deliver
from irontree.services.execution.publish import PublishedNodes, publish
from irontree.services.execution.recovery import settle_leftovers
from irontree.services.loops.choice import refuse_at_work, refuse_beside_loop
from irontree.services.loops.loop import Loop, cancel, read_loops, require_trusted, start
from irontree.services.proposals.adoption import (
    _number,
    adopted_plan,
    approval_name,
    approved,
    clash,
    issue_now,
    plan_for,
    state_of,
    why_not,
)
from irontree.services.proposals.documents import go_on, release_approved
from irontree.services.proposals.issues import ResolvedPlan, left_in, resolve
from irontree.services.questions.brief import write_projections
from irontree.services.questions.questions import require_no_gate
from irontree.services.record.world import World, read_world

# --- Existing issues become tasks: taken in, approved, and taken in anew when their text changed (protocol, adoptio


def adopt(app: App, number: int) -> Plan:
    """Take one issue in, and stop there: it waits for its approval (protocol, `adopt issue-N`).

    Taken in anew if it was adopted before and its text changed; asking twice is no new work. The caller holds the
    driver lock. Raises NotEligible for an issue that cannot be taken in; one that is composite gets its label. Raises
    Busy while a loop is at work: its issue would begin anew under it.
    """
    refuse_beside_loop(app)
    settle_leftovers(app)
    world = read_world(app)
    issue = require_adoptable(app, world, number)
    plan = plan_for(app, world, issue)
    if problem := clash(app, world, plan):
        raise NotEligible(problem.reason, remedy=problem.remedy)
    state = state_of(world, number)
    if state and state.phase is not Phase.ADOPTED and state.approved_revision == plan.spec_revision:
        raise NotEligible(
            f"issue-{number} is adopted already: it is {state.phase}",
            remedy=f"`irontree task #{number}` works on it; edit the issue to have it taken in anew",
        )
    put_in_force(app, plan)
    app.repository.back_up()
    return plan


def require_adoptable(app: App, world: World, number: int) -> Issue:
    """The issue, if it can be taken in; raises NotEligible, after labelling one that has to be split first."""
    issue = app.forge().read_issue(number)
    if issue is None:
        raise NotEligible(f"there is no issue #{number} here", remedy="look at the number again")
    problem = why_not(app, world, issue)
    if problem is None:
        return issue
    if problem.composite:
        mark_composite(app, number)
    raise NotEligible(problem.reason, remedy=problem.remedy)


def mark_composite(app: App, number: int) -> None:
    """Set the label that asks for splitting; that it cannot be set changes nothing (contract, labels)."""
    try:
        app.forge().ensure_labels([Label(NEEDS_BREAKDOWN, COLORS[NEEDS_BREAKDOWN])])
        app.forge().set_labels(number, add=[NEEDS_BREAKDOWN])
    except RemoteFailed as error:
        app.progress.note(f"warning: #{number} has no label {NEEDS_BREAKDOWN}: {error.message}")


def approve_adopted(app: App, plan: Plan, revision: str, by: str) -> TaskState:
    """Answer `reapproval_required` for an adopted issue: what it says now is approved (ruling R7).

    Another text than the stream's is taken in anew. The caller holds the driver lock. Raises ApprovalRefused when
    *revision* does not name exactly what would be approved, and while the issue leaves something open.
    """
    now = issue_now(app, plan)
    require_typed(revision, approval_name(now))
    if revision.lower() != approval_name(now):
        raise ApprovalRefused(
            f"{revision} was approved, but #{_number(plan)} as it is now is {approval_name(now)}",
            remedy=f"look at it again: `irontree task '#{_number(plan)}' --plan`, then approve {approval_name(now)}",
        )
    settle_leftovers(app)
    put_in_force(app, approved(app, now, by, loop_mode=plan.loop_mode))
    release_approved(app, by)
    state = read_world(app).state(_number(plan))
    return go_on(app, state, by) if state.phase in (Phase.STALE, Phase.ADOPTED) else state


def put_in_force(app: App, *plans: Plan) -> PublishedNodes:
    """Write the plan of each issue, then their streams; safe to call again after a crash at any point (ruling R6).

    The caller has settled what was left.
    """
    world = read_world(app)
    for plan in plans:
        in_force = adopted_plan(world, _number(plan))
        if in_force is None or not _adds_nothing(in_force, plan):
            app.plans.save(plan)
    return publish(app, *plans)


def _adds_nothing(in_force: Plan, plan: Plan) -> bool:
    """Whether text, settings and being approved or not are the same; when, by whom and for a loop or not may differ.

    Compared with the plan in force alone: a text that was in force once has to be saved again.
    """
    different = ("adoption", "approval", "loop_mode")
    same = in_force.model_dump(exclude={*different}) == plan.model_dump(exclude={*different})
    return same and bool(in_force.approval) == bool(plan.approval)


# --- A person's word for a set of issues puts it into force, whole, and safe to repeat after a crash at any point


def resolve_to_approve(app: App, intent: Issues | OpenIssues, words: str) -> ResolvedPlan:
    """`resolve`, and a named issue that is composite gets its label; raises as `resolve` does.

    While somebody else has the driver lock the label waits for another time (contract, labels; ruling R3).
    """
    try:
        return resolve(app, intent, words)
    except NeedsBreakdown as error:
        with suppress(Busy), app.driver.hold(f"#{error.number}, label"):
            mark_composite(app, error.number)
        raise


def mark_excluded(app: App, resolved: ResolvedPlan) -> None:
    """Label what was left out because it has to be split first."""
    for each in resolved.excluded:
        if each.composite:
            mark_composite(app, each.number)


def authorise_issues(app: App, resolved: ResolvedPlan, by: str) -> Loop:
    """Take in and approve what was shown, and start its loop. The caller holds the driver lock.

    Each issue's plan comes first, then its stream, then the loop. Raises ApprovalRefused while an issue leaves
    something open, where it is not what was shown any more, and in a form for what has a gate; Busy while a loop over
    some of the tasks is at work, and NotEligible while another loop has them. Raises as `resolve` does.
    """
    _require_as_shown(app, resolved)
    require_no_gate(app, (member.node.task_key for member in resolved.due))
    replaced = _replaceable(app, resolved)
    _take_in(app, resolved, by, loop_mode=True)
    loop = resolved.open_loop or _start(app, resolved)
    for old in replaced:
        cancel(app, old.id, by, reason=f"its tasks go on in loop {loop.id}")
    app.repository.back_up()
    return loop


def approve_issues(app: App, resolved: ResolvedPlan, by: str) -> None:
    """Take in and approve what was shown, without a loop (stepwise). The caller holds the driver lock.

    Raises as `authorise_issues` does, and Busy while any loop over some of the tasks is at work.
    """
    _require_as_shown(app, resolved)
    _replaceable(app, replace(resolved, open_loop=None))
    _take_in(app, resolved, by, loop_mode=False)
    app.repository.back_up()


def _require_as_shown(app: App, resolved: ResolvedPlan) -> None:
    """Raise ApprovalRefused unless the same words ask for the same now, and the same loop goes on with it."""
    now = resolve(app, resolved.asked, resolved.intent)
    now.require_named(resolved.name)
    if now.stamp != resolved.stamp:
        raise now.refused(f"the loop of {resolved.query} changed while it was looked at")


def _take_in(app: App, resolved: ResolvedPlan, by: str, *, loop_mode: bool) -> None:
    plans = [approved(app, member.plan, by, loop_mode=loop_mode) for member in resolved.due]
    settle_leftovers(app)
    put_in_force(app, *plans)
    released = release_approved(app, by)
    world = read_world(app)
    for number in released:
        deliver(app, number)
        write_projections(app, world, world.state(number))
    mark_excluded(app, resolved)


def _start(app: App, resolved: ResolvedPlan) -> Loop:
    entity = LoopEntity(
        loop_id=resolved.loop_id,
        created_at=app.stamp(),
        goal_kind="task_done" if len(resolved.keys) == 1 else "set_done",
        intent=resolved.intent,
        resolved_query=resolved.query,
        task_keys=resolved.keys,
        budget_max_transitions=resolved.budget,
    )
    return start(app, entity, intent_hash(resolved.intent))


def _replaceable(app: App, resolved: ResolvedPlan) -> tuple[Loop, ...]:
    """Open loops that have none but these tasks left; raises for one at work, and for one that has others too."""
    require_trusted(app)
    keys, world = set(resolved.keys), read_world(app)
    own = resolved.open_loop.id if resolved.open_loop else None
    others = (loop for loop in read_loops(app)[0] if loop.is_open and loop.id != own)
    shared = tuple(loop for loop in others if keys & set(loop.keys))
    refuse_at_work(app, shared, "some of these tasks")
    for loop in shared:
        if not left_in(loop, world) <= keys:
            first = next(key for key in resolved.keys if key in loop.keys)
            raise NotEligible(
                f"loop {loop.id} is open, and has {first} among its tasks",
                remedy=f"go on with it: `irontree task resume {loop.id}`, "
                f"or end it: `irontree task resume {loop.id} cancel`",
            )
    return shared
