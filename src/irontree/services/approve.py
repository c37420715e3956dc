"""From a document to an approved plan: what would be done, and a person's word for exactly that (phases 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from irontree.app import App
from irontree.domain.events import TaskApproved
from irontree.domain.loop import default_budget
from irontree.domain.plan import Approval, ExecutionPolicy, Plan, PlanNode
from irontree.domain.spec import Requirements, read_requirements
from irontree.domain.state import Phase, TaskState
from irontree.errors import ApprovalRefused, ConfigRefused, NotEligible, RequirementsRefused
from irontree.services.publish import publish
from irontree.services.record import record, snapshot
from irontree.services.world import World, read_world


@dataclass(frozen=True, slots=True)
class Proposal:
    """Everything an approval is about. `spec_path` is relative to the repository; nothing is written yet."""

    requirements: Requirements
    policy: ExecutionPolicy
    spec_path: str
    budget: int
    approved: Plan | None = None
    """The plan in force with exactly this content: it is continued without asking (ruling R6).

    None too if its approval did not name Loop Mode, and a loop is wanted (ruling R17)."""

    @property
    def revision(self) -> str:
        """The Spec Revision that an approval must name."""
        return self.requirements.revision


def propose(app: App, document: Path, *, loop_mode: bool = True) -> Proposal:
    """Read *document* and say what approving it would mean; writes nothing.

    Raises RequirementsRefused with every problem of the document at once, when it cannot be read, and when a task
    key belongs to another document already (ruling R8).
    """
    spec_path = _relative(app, document)
    try:
        text = document.read_bytes()
    except OSError as error:
        raise RequirementsRefused((f"{spec_path}: {error.strerror}",)) from error
    return _proposal(app, spec_path, text, loop_mode=loop_mode)


def propose_again(app: App, plan: Plan) -> Proposal:
    """What approving again would mean, for the document as it is now; where it is not, for the text in the plan."""
    document = app.repository.root / plan.spec_path
    text = document.read_bytes() if document.is_file() else plan.source.encode()
    return _proposal(app, plan.spec_path, text, loop_mode=plan.loop_mode)


def _proposal(app: App, spec_path: str, text: bytes, *, loop_mode: bool) -> Proposal:
    world = read_world(app)
    requirements = read_requirements(text, spec_path, known_issues=_known_issues(world))
    _refuse_foreign_keys(world, requirements, spec_path)
    policy = app.policy()
    known = _in_force(app, spec_path)
    same = known and known.spec_revision == requirements.revision and known.policy == policy
    named = known and (known.loop_mode or not loop_mode)
    budget = app.preferences().loop_budget or default_budget(len(requirements.nodes))
    return Proposal(requirements, policy, spec_path, budget, known if same and named else None)


def _in_force(app: App, spec_path: str) -> Plan | None:
    """The plan of that document that was approved last; an earlier one counts for nothing any more."""
    plans = (app.plans.load(revision) for revision in reversed(app.plans.revisions()))
    return next((plan for plan in plans if plan and plan.spec_path == spec_path), None)


def approve(app: App, proposal: Proposal, revision: str, by: str, *, loop_mode: bool = True) -> Plan:
    """Write the approved plan durably, before anything else happens; raises ApprovalRefused for another revision.

    A plan with exactly this content is returned as it is: it was approved before.
    """
    require_revision(proposal, revision)
    if proposal.approved:
        return proposal.approved
    plan = Plan(
        spec_revision=proposal.revision,
        spec_path=proposal.spec_path,
        source=proposal.requirements.source,
        nodes=proposal.requirements.nodes,
        policy=proposal.policy,
        loop_mode=loop_mode,
        budget_max_transitions=proposal.budget,
        # To the microsecond: of two plans for one task the later approval counts.
        approval=Approval(by=by, at=app.clock.now().isoformat(), channel=app.origin.channel),
    )
    app.plans.save(plan)
    return plan


def what_changed(plan: Plan, proposal: Proposal) -> str:
    """The approved document and settings against those of now, as one unified diff (ruling R7)."""
    texts = (
        (plan.spec_path, plan.source, proposal.requirements.source),
        (".mino/config.yml (what is approved of it)", _shown(plan.policy), _shown(proposal.policy)),
    )
    lines = (
        line
        for name, before, now in texts
        for line in unified_diff(before.splitlines(), now.splitlines(), name, name, "approved", "now", lineterm="")
    )
    return "\n".join(lines)


def _shown(policy: ExecutionPolicy) -> str:
    return policy.model_dump_json(indent=2)


def require_revision(proposal: Proposal, revision: str) -> None:
    """Raise ApprovalRefused unless *revision* (any case) is what the document is now."""
    if revision.lower() != proposal.revision:
        raise ApprovalRefused(
            f"revision {revision} was approved, but {proposal.spec_path} is revision {proposal.revision}",
            remedy=f"look at it again and approve what it is now: --approve {proposal.revision}",
        )


def approve_again(app: App, issue_number: int, revision: str, by: str) -> TaskState:
    """Answer `reapproval_required`: approve what the document and the configuration say now (ruling R7).

    An unchanged task goes on from where it was; a changed one begins a fresh stream. Raises NotEligible for a task
    that is no longer in its document.
    """
    world = read_world(app)
    state = world.state(issue_number)
    plan, node = world.plan(state), world.node(state)
    proposal = propose_again(app, plan)
    if node.task_key not in {known.task_key for known in proposal.requirements.nodes}:
        raise NotEligible(
            f"“{node.title}” is no longer in {plan.spec_path}", remedy="skip it, or put it back into the document"
        )
    publish(app, approve(app, proposal, revision, by, loop_mode=plan.loop_mode))
    now = read_world(app).state(issue_number)
    return _go_on(app, now, by) if now.phase in (Phase.STALE, Phase.ADOPTED) else now


def approve_reverted(app: App) -> tuple[int, ...]:
    """Let tasks go on whose text and configuration are what was approved again; the issues it did so for (R7)."""
    return release_approved(app, by="irontree", channel="reverted")


def release_approved(app: App, by: str, channel: str | None = None) -> tuple[int, ...]:
    """Let every task go on that waits for an approval it has by now; the issues it did so for."""
    world = read_world(app)
    stale = [state for state in world.states.values() if state.phase is Phase.STALE and state.task_key in world.plans]
    back = [state for state in stale if not state.problem and not changed_since_approval(app, world, state)]
    for state in back:
        _go_on(app, state, by, channel)
    return tuple(state.issue_number for state in back)


def changed_since_approval(app: App, world: World, state: TaskState) -> str | None:
    """What differs from the approved plan, in words; None if nothing does (rulings R6, R7).

    A document that is not there is no change: it need not exist where the work is done.
    """
    plan, node = world.plan(state), world.node(state)
    try:
        policy = app.policy()
    except ConfigRefused as error:
        return f"the configuration cannot be read: {error.message}"
    if policy.digest != plan.policy.digest:
        return "the configuration (commands, agent, workspace or publication) is not the approved one"
    document = app.repository.root / plan.spec_path
    if not document.is_file():
        return None
    try:
        nodes = read_requirements(document.read_bytes(), plan.spec_path, known_issues=_known_issues(world)).nodes
    except RequirementsRefused as error:
        return f"{plan.spec_path} can no longer be read: {error.problems[0]}"
    return _difference(plan.spec_path, node, {found.task_key: found for found in nodes})


def _difference(spec_path: str, approved: PlanNode, now: dict[str, PlanNode]) -> str | None:
    if approved.task_key not in now:
        return f"“{approved.title}” is no longer in {spec_path}"
    if now[approved.task_key].digest != approved.digest:
        return f"“{approved.title}” in {spec_path} is not what was approved"
    return None


def _go_on(app: App, state: TaskState, by: str, channel: str | None = None) -> TaskState:
    restored = snapshot(state.before or state)
    return record(app, state, TaskApproved, **restored, by=by, channel=channel or app.origin.channel)


def _relative(app: App, document: Path) -> str:
    resolved, root = document.resolve(), app.repository.root.resolve()
    return str(resolved.relative_to(root)) if resolved.is_relative_to(root) else str(resolved)


def _known_issues(world: World) -> dict[int, str]:
    return {state.issue_number: key for key, state in world.states.items()}


def _refuse_foreign_keys(world: World, requirements: Requirements, spec_path: str) -> None:
    owners = {key: plan.spec_path for key, plan in world.plans.items()}
    clashes = tuple(
        f"{spec_path}:{node.line or 1}: task key {node.task_key} belongs to {owners[node.task_key]} already. "
        "Give it another title, or a `Key:` of its own."
        for node in requirements.nodes
        if owners.get(node.task_key, spec_path) != spec_path
    )
    if clashes:
        raise RequirementsRefused(clashes)
