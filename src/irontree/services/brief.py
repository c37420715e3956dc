"""The brief of an issue: everything about it on one page, rendered from plan and log, never read back (contract)."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.plan import Plan
from irontree.domain.state import Phase, TaskState
from irontree.domain.values import NOT_APPLICABLE
from irontree.domain.verdict import commands_for, coverage
from irontree.errors import ConfigRefused
from irontree.ports import Stream
from irontree.services.deliver import close_on_done
from irontree.services.history import failure_of, last_of, time_of
from irontree.services.overview import title_of
from irontree.services.views import (
    BriefView,
    ChildView,
    EvidenceView,
    ExecutionView,
    ExternalEventView,
    ManualAcceptanceView,
    StatusView,
)
from irontree.services.world import World

_EVIDENCE = ("verify_passed", "checkup_accept_recorded", "checkup_aggregate_recorded")


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
        coverage=coverage(node, plan.policy),
        children=tuple(_child(world, key) for key in world.children.get(state.task_key, ()) if key in world.states),
        halt_reason=rule.reason if rule else None,
        manual_close=_manual_close(app, world, state),
        acceptance=_acceptance(stream, state),
        failure=failure_of(app, stream, state),
        external=_external(stream, state),
        execution=_execution(app, stream, state),
        report_path=state.report_path,
        evidence=_evidence(app, stream, state),
        outcome=state.pass_fail_outcome,
    )


def _locator(world: World, task_key: str | None) -> str | None:
    state = world.states.get(task_key) if task_key else None
    return f"#{state.issue_number}" if state else task_key


def _child(world: World, key: str) -> ChildView:
    state = world.states[key]
    return ChildView(key, state.issue_number, title_of(world, key), state.completion_basis, state.code_ref)


def _manual_close(app: App, world: World, state: TaskState) -> str | None:
    try:
        if not state.done or close_on_done(app, world.nodes.get(state.task_key)) == "auto":
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


def _external(stream: Stream, state: TaskState) -> ExternalEventView | None:
    record = last_of(stream, "checkup_reconcile_external_close_detected")
    if record is None or state.phase is not Phase.BLOCKED:
        return None
    return ExternalEventView("issue_closed", time_of(record), "forge", "say whether the work goes on")


def _execution(app: App, stream: Stream, state: TaskState) -> ExecutionView | None:
    started, completed = last_of(stream, "run_started"), last_of(stream, "run_completed")
    if started is None or completed is None:
        return None
    commit = state.commit if state.has_code else None
    files = app.repository.changed_files(state.base_sha, commit) if commit and state.base_sha else ()
    return ExecutionView(
        attempt=completed.event.attempt_count,
        attempts=state.total_attempts,
        started_at=time_of(started),
        completed_at=time_of(completed),
        commit=commit,
        files_changed=files,
    )


def _evidence(app: App, stream: Stream, state: TaskState) -> EvidenceView | None:
    record = last_of(stream, *_EVIDENCE)
    if record is None or state.completion_basis is None:
        return None
    report = app.results.load(state.issue_number, state.anchor) if state.anchor else None
    return EvidenceView(
        basis=state.completion_basis,
        recorded_at=time_of(record),
        code_ref=state.code_ref or NOT_APPLICABLE,
        anchor=state.anchor,
        results=report.results if report else (),
        reviewer=record.meta.get("by"),
        notes=str(record.meta.get("note", "")),
    )
