"""Existing issues become tasks: taken in, approved, and taken in anew when their text changed (protocol, adoption)."""

from __future__ import annotations

from collections.abc import Mapping

from irontree.app import App
from irontree.domain import adoption
from irontree.domain.adoption import Adoptable, Ineligible, IssueText, Spoken
from irontree.domain.approvals import require_typed
from irontree.domain.ids import adopted_revision, adopted_source
from irontree.domain.labels import COLORS, NEEDS_BREAKDOWN
from irontree.domain.loop import default_budget
from irontree.domain.plan import Adoption, Approval, Plan, canonical_digest
from irontree.domain.state import Phase, TaskState
from irontree.errors import ApprovalRefused, NotEligible, RemoteFailed
from irontree.ports import Issue, Label
from irontree.services.execution.recovery import settle_leftovers
from irontree.services.loops.lease import refuse_beside_loop
from irontree.services.planning.approve import go_on, release_approved
from irontree.services.planning.issue_text import has_key_marker
from irontree.services.planning.publish import Published, publish
from irontree.services.world import World, read_world


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


def why_not(app: App, world: World, issue: Issue) -> Ineligible | None:
    """Why the issue cannot be taken in; None if it can. Writes nothing."""
    found = adoption.ineligible(
        issue.number,
        issue.body,
        is_open=issue.state == "open",
        pull_request=issue.pull_request,
        threshold=app.preferences().composite_threshold,
    )
    return found or _ours(world, issue)


def _ours(world: World, issue: Issue) -> Ineligible | None:
    """An issue that was made from a document, or whose log cannot be trusted."""
    state, number = state_of(world, issue.number), issue.number
    if state and state.problem:
        return Ineligible(f"issue-{number}: {state.problem}", state.way_out)
    plan = world.plans.get(state.task_key) if state else None
    if plan and plan.adoption is None:
        return Ineligible(f"#{number} is published from {plan.spec_path}", f"edit and approve {plan.spec_path} instead")
    if plan is None and issue.trusted and has_key_marker(issue.body):
        return Ineligible(f"#{number} was made from a document, whose log is not here", "approve that document here")
    return None


def clash(app: App, world: World, plan: Plan) -> Ineligible | None:
    """Whether another task has this one's key or its very text already (ruling R8)."""
    number, key = _number(plan), plan.nodes[0].task_key
    owner = world.plans.get(key)
    if owner and owner.spec_path != plan.spec_path:
        return Ineligible(
            f"#{number}: task key {key} belongs to {owner.spec_path} already",
            "give the issue another title, or a line `Key: another-key`",
        )
    twin = app.plans.load(plan.spec_revision)
    if twin and twin.spec_path != plan.spec_path:
        return Ineligible(f"#{number} says the same as {twin.spec_path}", "close one of them, or say what differs")
    return None


def mark_composite(app: App, number: int) -> None:
    """Set the label that asks for splitting; that it cannot be set changes nothing (contract, labels)."""
    try:
        app.forge().ensure_labels([Label(NEEDS_BREAKDOWN, COLORS[NEEDS_BREAKDOWN])])
        app.forge().set_labels(number, add=[NEEDS_BREAKDOWN])
    except RemoteFailed as error:
        app.progress.note(f"warning: #{number} has no label {NEEDS_BREAKDOWN}: {error.message}")


def plan_for(app: App, world: World, issue: Issue, known: Mapping[int, str] | None = None) -> Plan:
    """What taking the issue in as it is now puts into force, before its approval. Writes nothing.

    It keeps the key it has: a task's key is stable (contract, core fields). *known* are the keys that `#N` may mean.
    """
    earlier = adopted_plan(world, issue.number)
    read = read_adoptable(app, issue, world.known_issues if known is None else known, _known_key(world, issue, earlier))
    return Plan(
        spec_revision=adopted_revision(issue.title, issue.body),
        spec_path=adoption.spec_path(app.forge().name, issue.number),
        source=adopted_source(issue.title, issue.body),
        nodes=(read.node,),
        policy=app.policy(earlier.policy.publish if earlier else None),
        loop_mode=False,
        budget_max_transitions=app.preferences().loop_budget or default_budget(1),
        adoption=Adoption(issue_number=issue.number, url=issue.url, title=issue.title, at=app.clock.now().isoformat()),
    )


def _known_key(world: World, issue: Issue, earlier: Plan | None) -> str | None:
    """The key that the issue has: of its plan, or where that is lost, of its stream."""
    state = state_of(world, issue.number)
    return earlier.nodes[0].task_key if earlier else state.task_key if state else None


def read_adoptable(app: App, issue: Issue, known: Mapping[int, str], key: str | None = None) -> Adoptable:
    """What title, body and comments say; *known* are the keys of other issues."""
    comments = app.forge().comments(issue.number)
    text = IssueText(
        number=issue.number,
        title=issue.title,
        body=issue.body,
        author=issue.author,
        trusted=issue.trusted,
        labels=issue.labels,
        comments=tuple(Spoken(comment.author, comment.body, comment.trusted) for comment in comments),
    )
    return adoption.read_issue(text, {n: task_key for n, task_key in known.items() if n != issue.number}, key=key)


def adopted_plan(world: World, number: int) -> Plan | None:
    """The plan in force of that adopted issue, whether its stream is there or was just moved away."""
    plans = (plan for plan in world.plans.values() if plan.adoption and plan.adoption.issue_number == number)
    return next(plans, None)


def state_of(world: World, number: int) -> TaskState | None:
    """The state of that issue; None if nothing is known of it."""
    found = world.replays.get(number)
    return found.state if found else None


def approval_name(plan: Plan) -> str:
    """What an approval of one issue names: its text, and what was made of it together with the settings.

    The revision alone says nothing of comments, which can add criteria and commands.
    """
    rest = canonical_digest([plan.policy.digest, plan.nodes[0].digest])
    return f"{plan.spec_revision}-{rest[:8]}"


def require_answered(plan: Plan) -> None:
    """Raise ApprovalRefused for an issue that leaves something open (protocol, Brief Standardization)."""
    node = plan.nodes[0]
    if node.open_questions:
        raise ApprovalRefused(
            "; ".join(node.open_questions), remedy="answer in the issue: edit it, or add a comment with the criteria"
        )


def approved(app: App, plan: Plan, by: str, *, loop_mode: bool) -> Plan:
    """The plan with a person's word for it; raises ApprovalRefused while it leaves something open."""
    require_answered(plan)
    # To the microsecond: of two plans for one task the later approval counts.
    approval = Approval(by=by, at=app.clock.now().isoformat(), channel=app.origin.channel)
    return plan.model_copy(update={"approval": approval, "loop_mode": loop_mode})


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


def issue_now(app: App, plan: Plan) -> Plan:
    """What approving the adopted issue of *plan* would put into force now; raises ApprovalRefused if nothing can."""
    world = read_world(app)
    try:
        issue = app.forge().read_issue(_number(plan))
    except RemoteFailed as error:
        raise ApprovalRefused(error.message, remedy=error.remedy) from error
    if issue is None:
        raise ApprovalRefused(f"#{_number(plan)} is not there any more", remedy="restore it, or skip its task")
    problem = why_not(app, world, issue)
    if problem:
        raise ApprovalRefused(problem.reason, remedy=problem.remedy)
    return plan_for(app, world, issue)


def put_in_force(app: App, *plans: Plan) -> Published:
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


def _number(plan: Plan) -> int:
    if plan.adoption is None:
        raise NotEligible(f"{plan.spec_path} is no adopted issue", remedy="approve the document instead")
    return plan.adoption.issue_number
