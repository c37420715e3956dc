"""Whether what was approved is still what would run: text, settings, the issue on the forge (rulings R6, R7)."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import unified_diff

from irontree.app import App
from irontree.domain.ids import adopted_revision
from irontree.domain.plan import ExecutionPolicy, Plan, PlanNode
from irontree.domain.spec import read_requirements, reads_as
from irontree.domain.state import TaskState
from irontree.errors import FORGE_FAILED, ConfigRefused, RequirementsRefused
from irontree.services.record.world import World


def is_changed(app: App, node: PlanNode, state: TaskState) -> bool:
    """Whether the task's own text is not what its stream was approved for (staleness is per node, R7)."""
    earlier = app.plans.load(state.approved_revision)
    known = next((known for known in earlier.nodes if known.task_key == node.task_key), node) if earlier else node
    return known.digest != node.digest


def is_as_approved(app: App, world: World, state: TaskState) -> bool:
    """Whether nothing differs any more; a forge that does not answer cannot say so."""
    plan = world.plan(state)
    if plan.approval is None or is_changed(app, world.node(state), state):
        return False
    try:
        return not _change(app, world, state)
    except FORGE_FAILED:
        return False


def changed_since_approval(app: App, world: World, state: TaskState) -> str | None:
    """What differs from the approved plan, in words; None if nothing does (rulings R6, R7).

    A document that is not there is no change, nor is an issue that cannot be read now.
    """
    try:
        return _change(app, world, state)
    except FORGE_FAILED as error:
        app.progress.note(f"#{state.issue_number} could not be compared with what was approved: {error.message}")
        return None


def _change(app: App, world: World, state: TaskState) -> str | None:
    plan, node = world.plan(state), world.node(state)
    try:
        policy = app.policy(plan.policy.publish)
    except ConfigRefused as error:
        return f"the configuration cannot be read: {error.message}"
    if policy.digest != plan.policy.digest:
        return "the configuration (commands, agent, workspace, publication or budgets) is not the approved one"
    if plan.adoption:
        return _edited(app, plan, plan.adoption.issue_number, state)
    return _document_change(app, world, plan, node)


def _edited(app: App, plan: Plan, number: int, state: TaskState) -> str | None:
    """Whether title or body of an adopted issue say something else now; one that is gone says nothing."""
    if plan.spec_revision != state.approved_revision:  # taking it in anew was cut short, and nobody may have approved
        return f"#{number} was taken in anew"
    issue = app.forge().read_issue(number)
    if issue is None or adopted_revision(issue.title, issue.body) == plan.spec_revision:
        return None
    return f"title or text of #{number} is not what was approved"


def _document_change(app: App, world: World, plan: Plan, node: PlanNode) -> str | None:
    document = app.repository.root / plan.spec_path
    if not document.is_file():
        return None
    data = document.read_bytes()
    if reads_as(data, plan.source):
        return None
    try:
        nodes = read_requirements(data, plan.spec_path, known_issues=world.known_issues).nodes
    except RequirementsRefused as error:
        return f"{plan.spec_path} can no longer be read: {error.problems[0]}"
    return _difference(plan, node, {found.task_key: found for found in nodes})


def _difference(plan: Plan, approved: PlanNode, now: Mapping[str, PlanNode]) -> str | None:
    spec_path = plan.spec_path
    if approved.task_key not in now:
        return None if approved.task_key in plan.kept else f"“{approved.title}” is no longer in {spec_path}"
    if now[approved.task_key].digest != approved.digest:
        return f"“{approved.title}” in {spec_path} is not what was approved"
    return None


def diff_of(plan: Plan, source: str, policy: ExecutionPolicy) -> str:
    """Text and settings of *plan* against *source* and *policy*, as one unified diff."""
    texts = (
        (plan.spec_path, plan.source, source),
        (".mino/config.yml (what is approved of it)", _shown(plan.policy), _shown(policy)),
    )
    lines = (
        line
        for name, before, now in texts
        for line in unified_diff(before.splitlines(), now.splitlines(), name, name, "approved", "now", lineterm="")
    )
    return "\n".join(lines)


def _shown(policy: ExecutionPolicy) -> str:
    return policy.model_dump_json(indent=2)
