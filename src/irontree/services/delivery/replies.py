"""Replies: prose for who wrote the issue, when its work converges (protocol, Reply Dispatch; R10).

At most one for an attempt, tried once: a reply that could not be posted is a warning, and the log says null. What a
person noted decides whether there is one, and is never in it.
"""

from __future__ import annotations

from dataclasses import replace

from irontree.app import App
from irontree.domain.checks import left_to_people
from irontree.domain.comments import (
    CLOSE_COMMANDS,
    REPLYING,
    Opportunity,
    ReplyDecision,
    dispatch_reply,
    is_actionable,
    replied_in_window,
    reply_problems,
)
from irontree.domain.events import IssueEvent, Record
from irontree.domain.plan import PlanNode
from irontree.domain.state import TaskState
from irontree.errors import FORGE_FAILED, NotEligible
from irontree.ports import DeliveryCursor
from irontree.services.delivery.comments import comment_marker, post_once
from irontree.services.record import World, closing_policy, read_world
from irontree.services.views.history import document_of, last_of, newest_document
from irontree.services.views.report import criteria_of
from irontree.services.views.values import ReplyView


def reply_where_due(app: App, state: TaskState, cursor: DeliveryCursor, reached: int) -> DeliveryCursor:
    """Decide about a reply for each event behind the cursor, up to *reached*, and post it; the cursor after that."""
    after = max(cursor.replied, cursor.sequence)
    for record in app.log.read(state.issue_number).records:
        if after < record.event.sequence <= reached and record.event.event in REPLYING:
            warning = _reply(app, state, record)
            cursor = replace(cursor, warnings=(*cursor.warnings, warning)) if warning else cursor
    return replace(cursor, replied=max(after, reached))


def _reply(app: App, state: TaskState, record: Record[IssueEvent]) -> str | None:
    """Reply to one event if that is decided; what went wrong."""
    if record.event.event == "verify_pending_acceptance" and state.sequence > record.event.sequence:
        return None  # it was answered before anybody could be told of it
    try:
        decision = reply_decision(app, state, record)
        if decision.yes:
            _post(app, state, record)
    except (*FORGE_FAILED, NotEligible) as error:
        return f"reply_post_failed: {error.message}"
    return None


def reply_decision(app: App, state: TaskState, record: Record[IssueEvent]) -> ReplyDecision:
    """Whether this event is replied to, and why; Raises ConfigRefused where the configuration cannot be read."""
    events = [record.event for record in app.log.read(state.issue_number).records]
    opportunity = Opportunity(
        note=_note(app, state, record),
        promoted=document_of(record.event) is not None,
        written_by_a_person=state.adopted,
        replied=replied_in_window(events, record.event.sequence),
    )
    return dispatch_reply(app.preferences().reply, opportunity)


def _note(app: App, state: TaskState, record: Record[IssueEvent]) -> str:
    """The verifier's, or at finalization that of who accepted."""
    if record.event.event != "checkup_done":
        return record.told.verifier_note
    accepted = last_of(app.log.read(state.issue_number), "checkup_accept_recorded")
    return accepted.told.note if accepted and record.event.completion_basis == "accepted" else ""


def _post(app: App, state: TaskState, record: Record[IssueEvent]) -> None:
    number, marker = state.issue_number, comment_marker(state.issue_number, record, f"{state.renewed_from}/reply")
    text = app.renderer.render("comments/reply.md", reply=_view(app, read_world(app), state, record, marker))
    if problems := reply_problems(text):
        raise NotEligible(f"the text would hold {', '.join(problems)}")
    url = post_once(app, number, text, marker)
    app.log.record_reply(number, record.event.sequence, url)


def _view(app: App, world: World, state: TaskState, record: Record[IssueEvent], marker: str) -> ReplyView:
    node, plan, event = world.nodes.get(state.task_key), world.plans.get(state.task_key), record.event
    forge = app.forge()
    command = CLOSE_COMMANDS.get(forge.name)
    covered = criteria_of(app, state, plan, node) if node and plan else ()
    document = _document(app, state, event)
    return ReplyView(
        title=node.title if node else state.task_key,
        marker=marker,
        basis=event.completion_basis,
        to_check=tuple(human.criterion.text for human in left_to_people(covered)),
        remark=is_actionable(_note(app, state, record)),
        commit_url=forge.links.commit(event.code_ref) if event.code_publication_state == "published" else None,
        docs_url=forge.links.file(plan.policy.publish.target_branch, document) if plan and document else None,
        document=document,
        close_it=_is_left_open(app, event, node),
        close_command=command.format(number=state.issue_number) if command else None,
    )


def _document(app: App, state: TaskState, event: IssueEvent) -> str | None:
    """Where the notes of the verification are that this event rests on."""
    if event.completion_basis != "verified":
        return None
    return newest_document(app.log.read(state.issue_number))


def _is_left_open(app: App, event: IssueEvent, node: PlanNode | None) -> bool:
    """The close instruction belongs to finalization alone (contract, Close On Done)."""
    return event.event == "checkup_done" and closing_policy(app, node) == "manual"
