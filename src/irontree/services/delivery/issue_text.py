"""The text of an issue that was made from a document, and the parts of it that are kept current (R9).

Only what stands between our markers is written anew; an adopted issue has none, and its text is never edited.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from irontree.app import App
from irontree.domain.adoption import document_marker, key_marker
from irontree.domain.checks import checks_for
from irontree.domain.external import REQUEST_CLOSED
from irontree.domain.halt import AGENT_ASKS, RED_BEFORE, SECRET_IN_COMMIT, block_title, halt_of
from irontree.domain.ids import adopted_digest
from irontree.domain.issues import BEGIN, END, Issue, regions, with_regions, without_regions
from irontree.domain.plan import Plan, PlanNode, canonical_digest
from irontree.domain.state import Phase, TaskState
from irontree.domain.values import short_sha
from irontree.services.delivery.comments import parts_marker, post_once
from irontree.services.record import World, approved_plan, closing_policy, is_approved_for


class Part(NamedTuple):
    """A child of a container, as its parent lists it; 0 as long as it has no issue."""

    title: str
    number: int
    done: bool


def issue_body(
    app: App,
    plan: Plan,
    node: PlanNode,
    numbers: Mapping[str, int],
    state: TaskState | None = None,
    done: Collection[str] = (),
) -> str:
    """The issue's metadata and text in this state, by default as it is published.

    Parents, children and dependencies appear by number, if they have one in *numbers*; children in *done* are ticked.
    """
    return app.renderer.render(
        "issues/body.md",
        node=node,
        plan=plan,
        checks=checks_for(node, plan.policy, present=()) if node.executability == "executable" else (),
        standing=_standing(node, state),
        current=_current(plan, node, state),
        parts=tuple(
            Part(each.title, numbers.get(each.task_key, 0), each.task_key in done) for each in plan.parts(node.task_key)
        ),
        close_on_done=closing_policy(app, node),
        marker=f"{key_marker(node.task_key)}\n{document_marker(plan.spec_path)}",
        parent=_shown(node.parent, numbers) if node.parent else None,
        depends_on=tuple(_shown(key, numbers) for key in node.depends_on),
    )


def _shown(key: str, numbers: Mapping[str, int]) -> str:
    return f"#{numbers[key]}" if key in numbers else key


_NOBODY: Final = "Nobody has to do anything."
_AT_WORK: Final[Mapping[Phase, str]] = {
    Phase.CONTAINER: "**Waiting for its parts.** It is done once all of them are.",
    Phase.READY: "**Waiting for its turn.** An agent will work on it.",
    Phase.RUNNING: "**An agent works on it.** Then the checks run.",
    Phase.COMMITTED: "**The checks run** on what an agent made. If they pass, it is published or a person is asked.",
    Phase.VERIFIED: "**The work is accepted and published.** The issue is closed next.",
}
_AFTER_OTHERS: Final = "**Waiting for its turn.** An agent works on it once nothing that it depends on is left."
_WHAT_TO_DO: Final[Mapping[Phase, str]] = {
    Phase.PENDING: "look at it, then comment `/accept`, or `/send-back` with a note",
    Phase.TERMINAL: "comment `/retry 1` to allow another attempt",
    Phase.BLOCKED: "put it right, then comment `/continue`",
    Phase.STALE: "look at what changed, then approve it again",
    Phase.ADOPTED: "approve it as its newest comment says",
}
_AT_CHECK: Final[Mapping[str | None, str]] = {
    REQUEST_CLOSED: "comment `/continue` to have its work proposed again, or take the task out of its document",
    AGENT_ASKS: "comment `/send-back` with an answer, or `/continue` to have it try again without one",
    RED_BEFORE: "put it right and comment `/continue`, or `/accept` if the work is to make it pass",
    SECRET_IN_COMMIT: "comment `/send-back` with a note, or `/continue` to have it published as it is",
}


def _standing(node: PlanNode, state: TaskState | None) -> str:
    """Where the work stands, what happens next and who must do what, for people who do not know the program."""
    phase = state.phase if state else Phase.CONTAINER if node.executability == "container" else Phase.READY
    if state is None or phase in _AT_WORK:
        words = _AFTER_OTHERS if phase is Phase.READY and node.depends_on else _AT_WORK[phase]
        return f"{words} {_NOBODY}"
    if phase is Phase.DONE:
        commit = short_sha(state.code_ref)
        return f"**Done** ({state.completion_basis}). {f'Published as commit {commit}.' if commit else ''}".strip()
    rule = halt_of(state)
    title = block_title(state.blocking_check) if phase is Phase.BLOCKED else rule.title if rule else ""
    what = f"merge the request #{state.request}" if state.is_proposed else _WHAT_TO_DO[phase]
    if phase is Phase.BLOCKED and not state.problem:
        what = _AT_CHECK.get(state.blocking_check, what)
    look = f"`irontree show issue-{state.issue_number}` shows everything."
    return f"**{title}.** The work waits for somebody with write access: {what}. {look}"


def _current(plan: Plan, node: PlanNode, state: TaskState | None) -> dict[str, Any]:
    """The fields of the status, and whether the criteria are met: only evidence ticks a box."""
    if state:
        names = ("approval_state", "current_stage", "next_stage", "workflow_entry_state", "attempt_count")
        more = ("max_retry_count", "code_publication_state")
        return {name: getattr(state, name) for name in (*names, *more)} | {"met": bool(state.completion_basis)}
    is_container = node.executability == "container"
    return {
        "approval_state": "approved",
        "current_stage": "definition",
        "next_stage": "decompose" if is_container else "run",
        "workflow_entry_state": "needs_breakdown" if is_container else "ready_to_start",
        "attempt_count": 0,
        "max_retry_count": plan.policy.retries_of(node),
        "code_publication_state": "not_applicable",
        "met": False,
    }


def own_words(app: App, world: World, state: TaskState) -> tuple[str, str]:
    """Title and body of a published issue now, rendered from the plan that its stream was approved with."""
    plan = world.plans.get(state.task_key)
    if plan is None or not is_approved_for(app, state, plan):
        plan = approved_plan(app, state) or world.plan(state)
    try:
        node = plan.node(state.task_key)
    except KeyError:
        node = world.node(state)
    children = {each.task_key for each in plan.parts(node.task_key)}
    related = {*children, *node.depends_on, *([node.parent] if node.parent else [])}
    numbers = {key: world.states[key].issue_number for key in related if key in world.states}
    done = {key for key in children if world.is_done(key)}
    return node.title, issue_body(app, plan, node, numbers, state, done)


def text_digest(title: str, body: str) -> str:
    """What a person may not change: title and text without the parts that are kept current."""
    return adopted_digest(title, without_regions(body))


def is_own_text(issue: Issue, title: str, body: str) -> bool:
    """Whether the issue says *title* and *body*; also as an earlier version wrote it, without our markers."""
    earlier = "\n".join(line for line in body.split("\n") if line not in (BEGIN, END))
    return text_digest(issue.title, issue.body) in (text_digest(title, body), adopted_digest(title, earlier))


def keep_current(app: App, world: World, state: TaskState, shown: str) -> str:
    """Write the parts between our markers anew where they differ; returns the digest of what they say now.

    *shown* is that digest as it was last written: nothing is asked or sent if it is the same. Markers that somebody
    took out are left out. Raises RemoteFailed.
    """
    if state.issue_digest:
        return _tell_parts(app, world, state, shown)
    if state.adopted or state.task_key not in world.plans or not app.preferences().keeps_current:
        return shown
    _, body = own_words(app, world, state)
    now = canonical_digest(regions(body))[:16]
    if now == shown:
        return shown
    there = app.forge().read_text(state.issue_number)
    if there is not None:
        put_current(app, state.issue_number, there, body)
    return now


def _tell_parts(app: App, world: World, state: TaskState, told: str) -> str:
    """Comment once which parts the issue of somebody else has, if these are not the *told* ones; the digest of them."""
    keys = [key for key in world.children.get(state.task_key, ()) if key in world.states]
    parts = tuple(Part(world.nodes[key].title, world.states[key].issue_number, world.is_done(key)) for key in keys)
    now = canonical_digest([part.number for part in parts])[:16]
    if parts and now != told:
        marker = parts_marker(state.issue_number, now)
        text = app.renderer.render("comments/parts.md", parts=parts, marker=marker)
        post_once(app, state.issue_number, text, marker)
    return now if parts else told


def put_current(app: App, number: int, there: str, body: str) -> None:
    """Write what *body* has between our markers into an issue whose text is *there*, if that changes it."""
    text = with_regions(there, body)
    if text is not None and regions(text) != regions(there):
        app.forge().edit_issue(number, body=text)
