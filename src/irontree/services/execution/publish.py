"""Publishes what was approved: every node gets an issue and a stream, exactly once (protocol, phase 2; R7, R8).

The issue of an adopted task exists already, and its text is never edited.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from irontree.app import App
from irontree.domain.adoption import key_marker, marked_document
from irontree.domain.events import (
    IssueEvent,
    TaskAdopted,
    TaskApproved,
    TaskPublished,
    TaskReAdopted,
    TaskReapprovalRequired,
)
from irontree.domain.ids import digest_of
from irontree.domain.issues import Issue
from irontree.domain.plan import Adoption, Plan, PlanNode
from irontree.domain.state import AT_FIRST, Phase, TaskState
from irontree.domain.task_types import TASK_TYPES
from irontree.errors import FORGE_FAILED, ConfigRefused, RemoteFailed, RequirementsRefused
from irontree.ports import EffectLedger
from irontree.services.delivery.deliver import LABELS, Labels, deliver, refresh
from irontree.services.delivery.issue_text import issue_body
from irontree.services.proposals.approval import publication_order
from irontree.services.proposals.sources import newest_plan
from irontree.services.record import World, archive_path, closing_policy, is_approved_for, read_world, record, snapshot
from irontree.services.views.report import write_brief
from irontree.services.work.preflight import existing_issue, is_as_approved, is_changed

PublicationStatus = Literal["created", "found", "adopted", "kept", "renewed", "unreadable"]
PublishedNodes = tuple[tuple[PlanNode, int, PublicationStatus], ...]
"""The nodes of the plans in publication order, each with its issue number and what was done about it."""


def publish(app: App, *plans: Plan) -> PublishedNodes:
    """Create an issue and a stream for each node that has none, in dependency order; returns what was done about each.

    No two of *plans* may share a task or document: the log is read once for all of them.

    Safe to repeat at any time: an existing event is not written again, and an existing issue is found by its key or, if
    adopted, by its number. An unfinished task whose own text changed begins a fresh stream; the issue of a task that
    the document no longer has is closed. A stream that cannot be read is left alone, with a warning (R13). The caller
    holds the driver lock.
    """
    world = read_world(app)
    published = tuple(found for plan in plans for found in _publish_plan(app, world, plan))
    world = read_world(app)
    for node, _, _ in published:
        if node.task_key in world.states:
            write_brief(app, world, world.states[node.task_key])
    _close_cancelled(app, world)
    for node, _, _ in published:
        if node.executability == "container" and node.task_key in world.states:
            refresh(app, world, world.states[node.task_key])
    return published


def _publish_plan(app: App, world: World, plan: Plan) -> Iterator[tuple[PlanNode, int, PublicationStatus]]:
    # The only task of an adopted issue was never removed from its plan.
    previous = None if plan.adoption else newest_plan(app, plan.spec_path, besides=plan)
    numbers = {key: state.issue_number for key, state in world.states.items()}
    there = _IssuesThere(app, tuple(node.task_key for node in plan.nodes if node.task_key not in world.states))
    for node in publication_order(plan.nodes):
        state, labels = world.states.get(node.task_key), None
        if state is None and (before := existing_issue(plan, node)):
            number, status = _take_in(app, plan, node, before.issue_number)
        elif state is None:
            number, status, labels = _publish_node(app, world, plan, node, numbers, there)
        elif _is_renewed(app, plan, node, state):
            number, status = _renew(app, plan, node, state, numbers)
        else:
            number, status = _continue(app, previous, node, state)
        numbers[node.task_key] = number
        app.repository.mark_history()
        deliver(app, world, number, present=labels)
        yield node, number, status


def cut_short(app: App, world: World) -> tuple[Plan, ...]:
    """The plans in force with a task that has no issue yet, or still has the stream of an earlier text (R6)."""
    unfinished = (
        plan
        for key, plan in world.plans.items()
        if key not in world.cancelled
        and not plan.imported
        and _is_due(app, plan, world.approved[key], world.states.get(key))
    )
    return tuple({digest_of(plan): plan for plan in unfinished}.values())


def _is_due(app: App, plan: Plan, node: PlanNode, state: TaskState | None) -> bool:
    return state is None or (not is_approved_for(app, state, plan) and _is_renewed(app, plan, node, state))


def _publish_node(
    app: App, world: World, plan: Plan, node: PlanNode, numbers: Mapping[str, int], there: _IssuesThere
) -> tuple[int, PublicationStatus, Labels]:
    """The issue's number, what was done about it, and the labels that it has now."""
    found, body = _own_issue(app, plan, node, there), issue_body(app, plan, node, numbers)
    if found and (damage := _damage(app, found.number)):
        return (*_left_alone(app, found.number, damage), found.labels)
    if found and (found.title, found.body, found.state) != (node.title, body, "open"):
        app.forge().edit_issue(found.number, title=node.title, body=body, state="open")
    issue = found or _create(app, plan, node, body, there)
    # One that was found may have been cut off right after it was made: it has no event yet.
    _assign(app, plan, issue)
    _relate(app, world, node, issue.number, numbers)
    _first_event(app, plan, node, issue.number)
    app.progress.note(f"#{issue.number} {node.title}")
    return issue.number, "found" if found else "created", issue.labels


class _IssuesThere:
    """The issues that carry the keys of a publication, found in one look before the first of ours is created.

    Only those by us or by users with write access count (R8).
    """

    def __init__(self, app: App, keys: Sequence[str]) -> None:
        self._app = app
        self._markers = tuple(map(key_marker, keys))
        self._found: dict[str, list[Issue]] | None = None
        self._alone = True

    def with_key(self, key: str) -> tuple[Issue, ...]:
        """Those that carry *key*, lowest number first."""
        if self._found is None or not self._alone:
            self._found = {marker: [] for marker in self._markers}
            for issue in self._app.forge().find_issues(*self._markers):
                for line in {line.strip() for line in issue.body.split("\n")} & self._found.keys():
                    self._found[line].append(issue)
        return tuple(issue for issue in self._found[key_marker(key)] if issue.trusted)

    def look_each_time(self) -> None:
        """Somebody else publishes the same now: find their issues before each of ours from now on."""
        self._alone = False


def _create(app: App, plan: Plan, node: PlanNode, body: str, there: _IssuesThere) -> Issue:
    """Create the issue and check again: of two created at the same time, the one with the lower number counts.

    The other one is closed and no longer carries the key.
    """
    created = app.forge().create_issue(node.title, body, (_type_label(plan, node), *_first_labels(app)))
    if app.log.read(created.number).highest_sequence:
        app.forge().edit_issue(created.number, body="Made by mistake.", state="closed")
        raise ConfigRefused(
            f"{app.forge().name} calls the new issue #{created.number}, and the log here has another of that number: "
            "it began on another forge, or in another repository of it",
            remedy="set forge.adapter and forge.repository in .mino/config.yml as they were",
        )
    faster = app.forge().find_issues_before(created.number, key_marker(node.task_key))
    lowest = min((issue.number for issue in faster if issue.trusted), default=created.number)
    if lowest == created.number:
        return created
    there.look_each_time()
    app.forge().edit_issue(created.number, body=f"The same as #{lowest}.", state="closed")
    app.progress.note(f"#{lowest} was published by somebody else at the same time; #{created.number} is closed")
    return _own_issue(app, plan, node, there) or created


def _type_label(plan: Plan, node: PlanNode) -> str:
    return TASK_TYPES[node.type].label_given(type_labels=plan.policy.publish.type_labels)


def _first_labels(app: App) -> tuple[str, ...]:
    """The labels of a new task, to be given with its issue; none if they cannot be made now: delivery says why."""
    try:
        app.forge().ensure_labels(LABELS.values())
    except FORGE_FAILED:
        return ()
    return tuple(sorted(AT_FIRST))


def _assign(app: App, plan: Plan, issue: Issue) -> None:
    """Assign an issue without an event as approved; a failure is not tried again, because nothing depends on it."""
    if assignees := plan.policy.publish.assignees:
        try:
            app.forge().assign(issue.number, assignees)
        except RemoteFailed as error:
            app.progress.note(f"warning: publish.assignees of #{issue.number}: {error.message}")


def _relate(app: App, world: World, node: PlanNode, number: int, numbers: Mapping[str, int]) -> None:
    """Show parent and dependencies where the forge has them; a failure is not tried again, the texts say it too.

    A dependency that a person is to close is left out: the forge would not let this issue be closed before it.
    """
    if not app.preferences().keeps_current:
        return
    with suppress(*FORGE_FAILED):
        if node.parent and node.parent in numbers:
            app.forge().add_part(numbers[node.parent], number)
        for key in node.depends_on:
            if key in numbers and closing_policy(app, world.approved.get(key)) == "auto":
                app.forge().depend(number, numbers[key])


def _take_in(app: App, plan: Plan, node: PlanNode, number: int) -> tuple[int, PublicationStatus]:
    if damage := _damage(app, number):
        return _left_alone(app, number, damage)
    _first_event(app, plan, node, number)
    return number, "adopted"


def _damage(app: App, number: int) -> str | None:
    """What is wrong with the log of an issue that exists but has no state; None if it has no log."""
    if app.log.read(number).highest_sequence:
        return "its first event cannot be read"
    # A stream that was lost must not begin anew: its task would be worked on and published a second time.
    lost = any(path.startswith(f".mino/events/issue-{number}/") for path in app.repository.lost_files())
    return "its events were there and are gone (`irontree audit` names them)" if lost else None


def _own_issue(app: App, plan: Plan, node: PlanNode, there: _IssuesThere) -> Issue | None:
    """The issue that carries our key, the lowest of several.

    Raises RequirementsRefused if it was made from another document, which may have been published elsewhere (R8).
    """
    trusted = there.with_key(node.task_key)
    document = marked_document(trusted[0].body) if trusted else None
    if document not in {None, plan.spec_path}:
        raise RequirementsRefused(
            (f"task {node.task_key} of {plan.spec_path}: #{trusted[0].number} has this key but belongs to {document}",),
            remedy=f"give it another title, or a line `Key: ...`; if {document} was renamed, give it its name back",
        )
    if len(trusted) > 1:
        numbers = ", ".join(f"#{issue.number}" for issue in trusted)
        app.progress.note(f"warning: {numbers} all carry the key {node.task_key}; the lowest counts")
    return trusted[0] if trusted else None


def _first_event(app: App, plan: Plan, node: PlanNode, number: int) -> None:
    renewed = _renewed_from(app, number)
    values: dict[str, Any] = {
        "task_key": node.task_key,
        "issue_number": number,
        "spec_revision": plan.spec_revision,
        "approved_revision": plan.spec_revision,
        "sequence": 1,
        "attempt_count": 0,
        "max_retry_count": plan.policy.retries_of(node),
    }
    event = _adopted(app, plan.adoption, renewed, values) if plan.adoption else _published(node, values)
    there = existing_issue(plan, node)
    meta = {"approved_digest": digest_of(plan), **({"issue_digest": there.digest} if there and there.digest else {})}
    app.log.append(event, expected_sequence=0, meta=app.origin.meta() | meta | renewed)


def _published(node: PlanNode, values: Mapping[str, Any]) -> IssueEvent:
    if node.executability == "container":
        return TaskPublished(**values, next_stage="decompose", workflow_entry_state="needs_breakdown")
    return TaskPublished(**values, next_stage="run", workflow_entry_state="ready_to_start")


def _adopted(app: App, adoption: Adoption, renewed: Mapping[str, str], values: Mapping[str, Any]) -> IssueEvent:
    """The adoption event; after an archived stream, that of a re-adoption (protocol, Re-adoption)."""
    origin: dict[str, Any] = {
        "adopted_from": f"{app.forge().name}_issue",
        "issue_url": adoption.url,
        "adopted_at": app.stamp(),
    }
    if not renewed:
        return TaskAdopted(**values, **origin, original_title=adoption.title)
    return TaskReAdopted(
        **values,
        **origin,
        previous_revision=renewed["previous_revision"],
        archive_path=archive_path(renewed["archive_path"]),
    )


def _renewed_from(app: App, number: int) -> dict[str, str]:
    """The stream before this one, for `meta:`, from the archives, since a crash may have come after archiving."""
    archives = app.log.archives(number)
    if not archives:
        return {}
    return {"previous_revision": _revision_in(app, archives[-1]), "archive_path": archives[-1]}


def _revision_in(app: App, archive: str) -> str:
    """The revision that an archived stream was approved for: by its events, or by its name if none can be read."""
    records = app.log.read_archived(archive).records
    return records[-1].event.approved_revision if records else archive.partition("-rev-")[2].partition("-")[0]


def _is_renewed(app: App, plan: Plan, node: PlanNode, state: TaskState) -> bool:
    """Whether the task begins a fresh stream: it changed and is not done, or a user reopened it (R7).

    An adopted issue is its whole text: adopting it again reopens it. If the driver dies while a task is being reopened,
    the task is no longer done; so the plan decides, not the phase.
    """
    if plan.adoption or ((state.done or state.phase is Phase.STALE) and node.task_key in plan.reopened):
        return not is_approved_for(app, state, plan)
    return not state.done and is_changed(app, node, state)


def _renew(
    app: App, plan: Plan, node: PlanNode, state: TaskState, numbers: Mapping[str, int]
) -> tuple[int, PublicationStatus]:
    """End the old stream, archive it by one rename, and begin a new one."""
    if state.problem:
        return _left_alone(app, state.issue_number, state.problem)
    if state.phase is not Phase.STALE:
        record(app, state, TaskReapprovalRequired, meta={"reason": "its text changed"})
    app.deliveries.save(state.issue_number, EffectLedger())  # first: the new stream must not inherit the old one's
    app.log.archive(state.issue_number, state.approved_revision)
    if existing_issue(plan, node) is None:
        body = issue_body(app, plan, node, numbers)
        app.forge().edit_issue(state.issue_number, title=node.title, body=body, state="open")
    _first_event(app, plan, node, state.issue_number)
    return state.issue_number, "renewed"


def _left_alone(app: App, number: int, problem: str) -> tuple[int, PublicationStatus]:
    folder = f".mino/events/issue-{number}"
    app.progress.note(
        f"warning: issue-{number} is not published anew: {problem}. Restore {folder}, then approve again: "
        "irontree init --from-backup"
    )
    return number, "unreadable"


def _continue(app: App, previous: Plan | None, node: PlanNode, state: TaskState) -> tuple[int, PublicationStatus]:
    """Keep the stream; reopen the issue of a task that was cancelled and is back in the document."""
    came_back = previous is not None and node.task_key not in {known.task_key for known in previous.nodes}
    if came_back and not state.done:
        app.forge().edit_issue(state.issue_number, state="open")
    return state.issue_number, "kept"


def _close_cancelled(app: App, world: World) -> None:
    for key in sorted(world.cancelled & world.states.keys()):
        issue = app.forge().read_issue(world.states[key].issue_number)
        if issue and issue.state == "open" and not world.states[key].adopted:
            app.forge().edit_issue(issue.number, state="closed")
            app.progress.note(f"#{issue.number} {issue.title}: cancelled")


# --- Resuming tasks that waited for their approval (R7)


def release_approved(app: App, world: World, by: str = "irontree", channel: str | None = "reverted") -> tuple[int, ...]:
    """Resume every task that waited for an approval and has it now; returns their issue numbers (R7).

    No one has to approve again if text and configuration are back to what was approved.

    A task whose own text was approved anew begins a fresh stream instead or, if that was cut short, asks again.
    """
    states = [s for s in world.states.values() if not s.problem and s.task_key in world.plans.keys() - world.cancelled]
    adopted = [state for state in states if state.phase is Phase.ADOPTED and _has_approval(app, world, state)]
    for state in adopted:
        approval = world.plan(state).approval
        go_on(app, state, approval.by if approval else by, approval.channel if approval else channel)
    back = [state for state in states if state.phase is Phase.STALE and is_as_approved(app, world, state)]
    for state in back:
        go_on(app, state, by, channel)
    return tuple(state.issue_number for state in (*adopted, *back))


def _has_approval(app: App, world: World, state: TaskState) -> bool:
    plan = world.plan(state)
    return plan.approval is not None and not plan.imported and is_approved_for(app, state, plan)


def go_on(app: App, state: TaskState, by: str, channel: str | None = None) -> TaskState:
    """Record the approval that this task waited for; returns its state, which is what it was before."""
    restored = snapshot(state.before or state)
    return record(app, state, TaskApproved, **restored, by=by, channel=channel or app.origin.channel)
