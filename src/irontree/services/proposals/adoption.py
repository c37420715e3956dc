"""One existing issue as a task: whether it can be adopted, its text, and the plan that adopting it would make."""

from __future__ import annotations

from collections.abc import Mapping

from irontree.app import App
from irontree.domain import adoption
from irontree.domain.adoption import Adoptable, Ineligible
from irontree.domain.gates import name_of
from irontree.domain.ids import adopted_digest, adopted_source, digest_of, revision_in
from irontree.domain.issues import Issue
from irontree.domain.loop import default_budget
from irontree.domain.plan import Adoption, ExecutionPolicy, Plan, PlanNode, canonical_digest
from irontree.errors import ApprovalRefused, NotEligible, RemoteFailed
from irontree.services.record import World

# --- Existing issues as tasks


def why_not(app: App, world: World, issue: Issue) -> Ineligible | None:
    """Why the issue cannot be adopted; None if it can. Writes nothing."""
    return adoption.ineligible(issue, app.preferences().composite_threshold) or _ours(world, issue)


def _ours(world: World, issue: Issue) -> Ineligible | None:
    """Why not, for an issue that was published from a document, or whose log cannot be trusted."""
    state, number = world.find(issue.number), issue.number
    if state and state.problem:
        return Ineligible(f"issue-{number}: {state.problem}", state.way_out)
    plan = world.plans.get(state.task_key) if state else None
    if plan and plan.adoption is None:
        return Ineligible(f"#{number} is published from {plan.spec_path}", f"edit and approve {plan.spec_path} instead")
    if plan is None and issue.trusted and adoption.has_key_marker(issue.body):
        return Ineligible(f"#{number} was made from a document, whose log is not here", "approve that document here")
    return None


def clash(app: App, world: World, plan: Plan) -> Ineligible | None:
    """Another task with this one's key or exactly its text (R8); None if there is none."""
    number, key = number_of(plan), plan.nodes[0].task_key
    owner = world.plans.get(key)
    if owner and owner.spec_path != plan.spec_path:
        return Ineligible(
            f"#{number}: task key {key} belongs to {owner.spec_path} already",
            "give the issue another title, or a line `Key: another-key`",
        )
    twin = app.plans.load(digest_of(plan))
    if twin and twin.spec_path != plan.spec_path:
        return Ineligible(f"#{number} says the same as {twin.spec_path}", "close one of them, or say what differs")
    return None


def plan_for(app: App, world: World, issue: Issue, known: Mapping[int, str] | None = None) -> Plan:
    """The plan that adopting the issue as it is now would put into force, before its approval. Writes nothing.

    A known issue keeps its key: task keys are stable (contract, core fields). *known*: the keys that `#N` may name.
    """
    earlier = adopted_plan(world, issue.number)
    policy, keys = (
        app.policy(earlier.policy.publish if earlier else None),
        world.known_issues if known is None else known,
    )
    read = read_adoptable(app, policy, issue, keys, _known_key(world, issue, earlier))
    digest = adopted_digest(issue.title, issue.body)
    return Plan(
        spec_revision=revision_in(digest),
        digest=digest,
        spec_path=adoption.spec_path(app.forge().name, issue.number),
        source=adopted_source(issue.title, issue.body),
        nodes=(read.node,),
        policy=policy,
        loop_mode=False,
        budget_max_transitions=app.preferences().loop_budget or default_budget(1),
        adoption=Adoption(issue_number=issue.number, url=issue.url, title=issue.title, at=app.clock.now().isoformat()),
    )


def _known_key(world: World, issue: Issue, earlier: Plan | None) -> str | None:
    """The issue's present key: from its plan or, if that is lost, from its stream."""
    state = world.find(issue.number)
    return earlier.nodes[0].task_key if earlier else state.task_key if state else None


def read_adoptable(
    app: App, policy: ExecutionPolicy, issue: Issue, known: Mapping[int, str], key: str | None = None
) -> Adoptable:
    """The task that title, body and comments by people describe (T3); *known* are the keys of other issues."""
    others = {number: task_key for number, task_key in known.items() if number != issue.number}
    by_people = [each for each in app.forge().comments(issue.number) if not policy.is_agents(each.author)]
    return adoption.read_issue(issue, by_people, others, key=key, type_labels=app.preferences().type_labels)


def adopted_plan(world: World, number: int) -> Plan | None:
    """The plan in force of that adopted issue, even if its stream was just archived."""
    plans = (plan for plan in world.plans.values() if plan.adoption and plan.adoption.issue_number == number)
    return next(plans, None)


def issue_to_divide(app: App, world: World, number: int, spec_path: str) -> tuple[PlanNode, Adoption]:
    """The issue that the document *spec_path* divides, as the root of its tree. Raises NotEligible, RemoteFailed."""
    issue = app.forge().read_issue(number)
    if issue is None:
        raise NotEligible(f"there is no issue #{number} to divide", remedy=f"check the line `Parent:` of {spec_path}")
    problem = adoption.ineligible(issue, threshold=len(issue.body)) or _divided_elsewhere(world, issue, spec_path)
    if problem:
        raise NotEligible(problem.reason, remedy=problem.remedy)
    key = _known_key(world, issue, adopted_plan(world, number))
    root = adoption.root_of(issue, key, type_labels=app.preferences().type_labels)
    digest, at = adopted_digest(issue.title, issue.body), app.clock.now().isoformat()
    return root, Adoption(issue_number=number, url=issue.url, title=issue.title, at=at, digest=digest)


def _divided_elsewhere(world: World, issue: Issue, spec_path: str) -> Ineligible | None:
    state = world.find(issue.number)
    plan = world.plans.get(state.task_key) if state else None
    return None if plan and plan.divides and plan.spec_path == spec_path else _ours(world, issue)


def approval_digest(plan: Plan) -> str:
    """64 hex over all that an approval of one issue covers: its text, its task, its settings, its loop's budget.

    The task is more than the text: comments can add criteria and commands.
    """
    covered = [plan.spec_path, digest_of(plan), plan.nodes[0].digest, plan.policy.digest, plan.budget_max_transitions]
    return canonical_digest(covered)


def approval_name(plan: Plan) -> str:
    """What an approval of one issue names, wherever it is shown."""
    return name_of(approval_digest(plan))


def issue_now(app: App, world: World, plan: Plan) -> Plan:
    """The plan that approving the adopted issue of *plan* would put into force now; raises ApprovalRefused if none."""
    try:
        issue = app.forge().read_issue(number_of(plan))
    except RemoteFailed as error:
        raise ApprovalRefused(error.message, remedy=error.remedy) from error
    if issue is None:
        raise ApprovalRefused(f"#{number_of(plan)} is not there any more", remedy="restore it, or skip its task")
    problem = why_not(app, world, issue)
    if problem:
        raise ApprovalRefused(problem.reason, remedy=problem.remedy)
    return plan_for(app, world, issue)


def number_of(plan: Plan) -> int:
    """The number of the adopted issue. Raises NotEligible for the plan of a document."""
    if plan.adoption is None:
        raise NotEligible(f"{plan.spec_path} is not an adopted issue", remedy="approve the document instead")
    return plan.adoption.issue_number
