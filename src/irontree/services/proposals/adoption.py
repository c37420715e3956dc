"""One existing issue as a task: whether it can be adopted, its text, and the plan that it would become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from irontree.app import App
from irontree.domain import adoption
from irontree.domain.adoption import Adoptable, Ineligible, IssueComment, IssueText
from irontree.domain.ids import adopted_revision, adopted_source
from irontree.domain.loop import default_budget
from irontree.domain.plan import Adoption, Plan, PlanNode, canonical_digest
from irontree.domain.state import TaskState
from irontree.errors import ApprovalRefused, NotEligible, RemoteFailed
from irontree.ports import Issue
from irontree.services.record import World, closing_policy, read_world
from irontree.services.views.values import IssueView, StatusView

_KEY_MARK: Final = "<!-- irontree:task-key "
_DOCUMENT_MARK: Final = "<!-- irontree:document "


def key_marker(task_key: str) -> str:
    """A hidden line of its own that holds the task key."""
    return f"{_KEY_MARK}{task_key} -->"


def document_marker(spec_path: str) -> str:
    """A hidden line of its own that names the document a task is from: another's may have a task of the same key."""
    return f"{_DOCUMENT_MARK}{quote(spec_path)} -->"


def marked_document(body: str) -> str | None:
    """The document that the issue with this text was made from; None if it does not say."""
    lines = (line.strip() for line in body.split("\n"))
    found = next((line for line in lines if line.startswith(_DOCUMENT_MARK)), None)
    return unquote(found.removeprefix(_DOCUMENT_MARK).removesuffix(" -->")) if found else None


def has_key_marker(body: str) -> bool:
    """Whether the issue with this text was made from a document, whatever its key."""
    return _KEY_MARK in body


def issue_body(app: App, plan: Plan, node: PlanNode, numbers: Mapping[str, int]) -> str:
    """The stable metadata and text of a task; parents and dependencies by number where they have one in *numbers*."""
    view = IssueView(
        node=node,
        status=_first_status(plan, node),
        close_on_done=closing_policy(app, node),
        marker=f"{key_marker(node.task_key)}\n{document_marker(plan.spec_path)}",
        parent=_locator(numbers, node.parent) if node.parent else None,
        depends_on=tuple(_locator(numbers, key) for key in node.depends_on),
    )
    return app.renderer.render("issues/body.md", issue=view)


def _locator(numbers: Mapping[str, int], task_key: str) -> str:
    return f"#{numbers[task_key]}" if task_key in numbers else task_key


def _first_status(plan: Plan, node: PlanNode) -> StatusView:
    container = node.executability == "container"
    return StatusView(
        spec_revision=plan.spec_revision,
        approved_revision=plan.spec_revision,
        approval_state="approved",
        current_stage="definition",
        next_stage="decompose" if container else "run",
        workflow_entry_state="needs_breakdown" if container else "ready_to_start",
        attempt_count=0,
        max_retry_count=plan.policy.retries_of(node),
        code_publication_state="not_applicable",
    )


# --- Existing issues become tasks


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
    """Whether another task has this one's key or its very text already (R8)."""
    number, key = number_of(plan), plan.nodes[0].task_key
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
        comments=tuple(IssueComment(comment.author, comment.body, comment.trusted) for comment in comments),
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


def issue_now(app: App, plan: Plan) -> Plan:
    """What approving the adopted issue of *plan* would put into force now; raises ApprovalRefused if nothing can."""
    world = read_world(app)
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
    """The number of the adopted issue; raises NotEligible for the plan of a document."""
    if plan.adoption is None:
        raise NotEligible(f"{plan.spec_path} is no adopted issue", remedy="approve the document instead")
    return plan.adoption.issue_number


# --- Where the streams that ended are kept


def archive_path(name: str) -> str:
    """The folder that the log calls *name*, as it is shown (contract, `archive_path`)."""
    return f".mino/archive/{name}"
