"""The brief of an issue: everything about it on one page, rendered from plan and log, never read back (contract)."""

from __future__ import annotations

from collections.abc import Iterator

from irontree.app import App
from irontree.domain.checks import commands_for
from irontree.domain.events import IssueEvent, Record
from irontree.domain.external import BY_CHECK
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.state import Phase, TaskState
from irontree.domain.values import NOT_APPLICABLE
from irontree.errors import ConfigRefused
from irontree.ports import Stream
from irontree.services.record.record import closing_policy
from irontree.services.record.world import World
from irontree.services.views.failures import failure_of, publication_failure_of
from irontree.services.views.history import last_of, newest_document, results_at, time_of
from irontree.services.views.overview import title_of
from irontree.services.views.report import changed_files, check_defining, criteria_of, warnings_of, write_report
from irontree.services.views.values import (
    BriefView,
    ChildView,
    EvidenceView,
    ExecutionView,
    ExternalEventView,
    ManualAcceptanceView,
    StatusView,
)

_EVIDENCE = ("verify_passed", "checkup_accept_recorded", "checkup_aggregate_recorded")


def write_projections(app: App, world: World, state: TaskState) -> None:
    """Make anew what people read of this issue under `.mino/`: the report first, then the brief that names it."""
    plan = world.plans.get(state.task_key)
    if plan is not None:
        write_report(app, state, plan, world.nodes[state.task_key])
    write_brief(app, world, state)


def write_brief(app: App, world: World, state: TaskState) -> None:
    """Render and write `.mino/briefs/issue-{N}.md`; an issue that no plan lists has none."""
    plan = world.plans.get(state.task_key)
    if plan is not None:
        view = brief_view(app, world, state, plan)
        app.projections.write_brief(state.issue_number, app.renderer.render("briefs/brief.md", brief=view))


def brief_view(app: App, world: World, state: TaskState, plan: Plan) -> BriefView:
    """Everything the brief shows."""
    node, stream = world.nodes[state.task_key], app.log.read(state.issue_number)
    rule = world.halt_of(state)
    return BriefView(
        number=state.issue_number,
        url=f"#{state.issue_number}",
        node=node,
        status=StatusView.of(state),
        spec_path=plan.spec_path,
        published_at=time_of(stream.records[0]),
        parent=_locator(world, node.parent),
        commands=tuple(check.run for check in commands_for(node, plan.policy, present=())),
        coverage=criteria_of(app, state, plan, node),
        children=tuple(_child(world, key) for key in world.children.get(state.task_key, ()) if key in world.states),
        halt_reason=rule.reason if rule else None,
        manual_close=_manual_close(app, world, state, stream),
        acceptance=_acceptance(stream, state),
        failure=publication_failure_of(stream) or failure_of(app, stream, state),
        external=_external(app, stream, state),
        execution=_execution(app, stream, state, plan),
        report_path=state.report_path,
        docs_path=newest_document(stream),
        evidence=_evidence(app, stream, state),
        outcome=state.pass_fail_outcome,
        warnings=tuple(_warnings(app, stream, state, node)),
    )


def _locator(world: World, task_key: str | None) -> str | None:
    state = world.states.get(task_key) if task_key else None
    return f"#{state.issue_number}" if state else task_key


def _child(world: World, key: str) -> ChildView:
    state = world.states[key]
    return ChildView(key, state.issue_number, title_of(world, key), state.completion_basis, state.code_ref)


def _manual_close(app: App, world: World, state: TaskState, stream: Stream) -> str | None:
    """The close instruction, unless a reply has told it (contract, Close On Done)."""
    done = last_of(stream, "checkup_done")
    if done and getattr(done.event, "reply_posted", None):
        return None
    try:
        if not state.done or closing_policy(app, world.nodes.get(state.task_key)) == "auto":
            return None
    except ConfigRefused:  # somebody is editing it; the next brief says it
        return None
    return f"close issue #{state.issue_number} once you have looked at it"


def _acceptance(stream: Stream, state: TaskState) -> ManualAcceptanceView | None:
    record = last_of(stream, "verify_pending_acceptance")
    if record is None or state.anchor is None:
        return None
    accepted = last_of(stream, "checkup_accept_recorded")
    reasons = tuple(str(reason) for reason in record.meta.get("reasons", ()))
    note = str(accepted.meta.get("note", "")) if accepted else ""
    return ManualAcceptanceView(reasons, state.anchor, time_of(record), checklist=reasons, accept_note=note)


def _external(app: App, stream: Stream, state: TaskState) -> ExternalEventView | None:
    """What was done outside and stops the work; else what was changed there and is not put right yet."""
    found = BY_CHECK.get(state.blocking_check or "")
    if found and state.phase is Phase.BLOCKED:
        return ExternalEventView(found.name, time_of(stream.records[-1]), "forge", found.remedy)
    noticed = app.deliveries.load(state.issue_number).noticed
    if not noticed:
        return None
    return ExternalEventView("; ".join(noticed), "the last reconciliation", "forge", "`irontree checkup repair`")


def _warnings(app: App, stream: Stream, state: TaskState, node: PlanNode) -> Iterator[str]:
    """What is open about the issue, and what did not go as it should: the newest event's, and what is not delivered."""
    yield from node.open_questions
    yield from (*warnings_of(app, stream), *app.deliveries.load(state.issue_number).failures)
    yield from check_defining(app, state)


def _execution(app: App, stream: Stream, state: TaskState, plan: Plan) -> ExecutionView | None:
    started, completed = last_of(stream, "run_started"), last_of(stream, "run_completed")
    if started is None or completed is None:
        return None
    return ExecutionView(
        attempt=completed.event.attempt_count,
        attempts=state.total_attempts,
        started_at=time_of(started),
        completed_at=time_of(completed),
        commit=state.commit if state.has_code else None,
        files_changed=changed_files(app, state),
        commands_run=(*plan.policy.workspace.setup, *_agent_command(plan)),
        notes=_said_by_agent(completed),
    )


def _agent_command(plan: Plan) -> tuple[str, ...]:
    """What was run to change the code; what the agent ran is in its transcript."""
    agent = plan.policy.agent
    return (agent.line,) if agent.program else ()


def _said_by_agent(completed: Record[IssueEvent]) -> str:
    """Its last words: a claim, not a fact."""
    summary = completed.meta.get("summary")
    return f"the agent says: {summary}" if summary else ""


def _evidence(app: App, stream: Stream, state: TaskState) -> EvidenceView | None:
    record = last_of(stream, *_EVIDENCE)
    if record is None or state.completion_basis is None:
        return None
    report = results_at(app, state.issue_number, state.anchor)
    return EvidenceView(
        basis=state.completion_basis,
        recorded_at=time_of(record),
        code_ref=state.code_ref or NOT_APPLICABLE,
        anchor=state.anchor,
        results=report.results if report else (),
        reviewer=record.meta.get("by"),
        notes=str(record.meta.get("note", "")),
    )
