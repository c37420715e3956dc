"""A run that Iron Tree drives, as `.hotl` shows it: made from the log alone, and never read back (docs/hotl.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from irontree.domain.checks import CheckReport
from irontree.domain.events import IssueEvent, Record, verified_at
from irontree.domain.plan import PlanNode
from irontree.domain.state import Phase, TaskState
from irontree.domain.text import one_line
from irontree.domain.timestamps import moment
from irontree.domain.workflow.run import (
    DRIVEN,
    DRIVER,
    Place,
    Run,
    RunStatus,
    RunStep,
    StepStatus,
    begin,
    iso,
    log_line,
    output_lines,
    shown_in_markdown,
    with_checks,
)
from irontree.domain.workflow.step import NO_VERIFY, Review, StepSpec
from irontree.domain.workflow.verify import REVIEW_REQUIRED, Outcome, kept_output
from irontree.domain.workflow.workflow import Workflow

_STATUS: Final[dict[Phase, StepStatus]] = {
    Phase.RUNNING: "in_progress",
    Phase.COMMITTED: "in_progress",
    Phase.TERMINAL: "failed",
    Phase.VERIFIED: "done",
    Phase.DONE: "done",
}
"""What is not here is blocked, but READY."""


@dataclass(frozen=True, slots=True)
class Worked:
    """One step in the log: its node, its issue, what happened to it, its newest results, and all by their commits."""

    node: PlanNode
    step: StepSpec
    state: TaskState
    records: Sequence[Record[IssueEvent]]
    results: CheckReport | None = None
    checked: Mapping[str, CheckReport] = field(default_factory=dict)
    skipped: bool = False


class Mirrored(NamedTuple):
    """The run, and the lines of its report's event log."""

    run: Run
    log: tuple[str, ...]


def mirror(
    workflow: Workflow, place: Place, begun: datetime, steps: Sequence[Worked], loop: tuple[str, str]
) -> Mirrored:
    """The run of *workflow* that began then; *loop* is the id of its loop, and where that stands."""
    run, loop_id, full = begin(workflow, place, begun), loop[0], workflow.full_report
    by_number = {worked.step.number: worked for worked in steps}
    shown = tuple(_step(step, by_number[step.number]) if step.number in by_number else step for step in run.steps)
    happened = sorted(
        ((at, worked, record) for worked in steps for record in worked.records if (at := moment(record.told.time))),
        key=lambda each: each[0],
    )
    ended = all(step.status == "done" for step in shown)
    last = max((at for at, _, _ in happened), default=begun)
    lines = ((at, line) for at, worked, record in happened for line in _lines(worked, record, full=full))
    log = [line if line.startswith(" ") else log_line(at, line) for at, line in lines]
    run = replace(
        run,
        steps=shown,
        status=_standing(shown, steps, loop[1]),
        current_step=next((step.number for step in shown if step.status != "done"), shown[-1].number),
        last_update=iso(last),
        completed_at=iso(last) if ended else None,
        more={DRIVER: DRIVEN, "loop_id": loop_id},
    )
    return Mirrored(run, (*log, *((log_line(last, "Run finalized: completed"),) if ended else ())))


def _standing(shown: Sequence[RunStep], steps: Sequence[Worked], loop: str) -> RunStatus:
    if all(step.status == "done" for step in shown):
        return "completed"
    if loop == "cancelled":
        return "abandoned"
    if any(worked.state.phase in (Phase.PENDING, Phase.TERMINAL) and not worked.skipped for worked in steps):
        return "paused"
    return "blocked" if any(step.status == "blocked" for step in shown) else "running"


def _step(step: RunStep, worked: Worked) -> RunStep:
    state, reason = worked.state, _reason(worked)
    gate = _gate(worked)
    return replace(
        step,
        status=_status(worked),
        attempts=state.attempt_count,
        max_iterations=state.total_attempts,
        started_at=_last(worked, "run_started"),
        completed_at=_last(worked, "verify_passed", "checkup_accept_recorded") if state.phase in _ENDED else None,
        verify={**_each(step, worked), **_outcome(worked)},
        gate_result=gate[0] if gate else None,
        gate_mode=gate[1] if gate else None,
        block_reason=reason or None,
        more={"issue_number": state.issue_number},
    )


_ENDED: Final = (Phase.VERIFIED, Phase.DONE)


def _status(worked: Worked) -> StepStatus:
    if worked.skipped and worked.state.phase not in _ENDED:
        return "blocked"
    if worked.state.phase is Phase.READY:
        return "failed" if worked.state.attempt_count else "pending"
    return _STATUS.get(worked.state.phase, "blocked")


def _reason(worked: Worked) -> str:
    """Why a blocked step is; empty for any other."""
    if _status(worked) != "blocked":
        return ""
    told = worked.records[-1].told
    why = "; ".join(filter(None, told.why))
    if worked.skipped:
        return "skipped"
    if worked.state.phase is Phase.PENDING:
        return f"{REVIEW_REQUIRED}: {why}"
    return why or worked.state.blocking_check or worked.state.problem or str(worked.state.phase)


def _outcome(worked: Worked) -> dict[str, Any]:
    """Whether its checks passed at its newest commit, and what they printed: it is one stream."""
    phase, found = worked.state.phase, worked.results
    if phase in (Phase.RUNNING, Phase.COMMITTED) or not worked.state.attempt_count:
        return {}
    passed = True if phase in _ENDED else None if phase is Phase.PENDING else not (found and found.failed)
    return {"passed": passed, "stdout": kept_output(_printed(found)) if found and found.results else None}


def _each(step: RunStep, worked: Worked) -> dict[str, Any]:
    """Its checks with what each of a list came to; what people judge has passed once the step is done."""
    if not worked.state.attempt_count:
        return dict(step.verify)
    found = {result.name: result for result in worked.results.results} if worked.results else {}
    named = (found.get(check.name) if not isinstance(check, Review) else None for check in worked.step.checks)
    passed = [None if result is None or result.is_open else result.passed for result in named]
    return with_checks(step.verify, passed, others=True if worked.state.phase in _ENDED else None)


def _printed(report: CheckReport) -> str:
    return "\n".join(filter(None, (result.output.rstrip("\n") for result in report.results)))


def _gate(worked: Worked) -> tuple[Literal["approved", "rejected"], Literal["human", "auto"]] | None:
    """The decision of its gate that stands: an attempt that was made since takes it back."""
    if worked.step.gate != "human":
        return None
    for record in reversed(worked.records):
        event, told = record.event.event, record.told
        if event == "run_started":
            return None
        if event == "checkup_accept_recorded":
            return "approved", "human"
        if event == "verify_passed" and told.gate:
            return "approved", "auto"
        if event.startswith("verify_failed") and told.note:
            return "rejected", "human"
    return None


def _last(worked: Worked, *events: str) -> str | None:
    found = next((record for record in reversed(worked.records) if record.event.event in events), None)
    at = moment(found.told.time) if found else None
    return iso(at) if at else None


def _lines(worked: Worked, record: Record[IssueEvent], *, full: bool) -> Iterator[str]:
    """What upstream's event log says of it, indented what belongs to the line before.

    With *full*, it has the output of checks that did not fail too.
    """
    event, told = record.event, record.told
    step = f"Step {worked.step.number}"
    tried = f"{event.attempt_count} attempt(s)"
    match event.event:
        case "run_started" if event.attempt_count == 1:
            yield f"→ {step}: {shown_in_markdown(worked.node.title)}"
        case "run_started":
            yield f"↻ {step}: Retrying ({event.attempt_count}/{1 + event.max_retry_count})"
        case "verify_passed":
            yield f"✓ {step}: Done ({'no verify, ' if NO_VERIFY in told.reasons else ''}{tried})"
            yield from _output(worked, event, full=full, failed=False)
            if told.gate:
                yield f"Gate {step}: approved (auto)"
        case "verify_failed_retryable" | "verify_failed_terminal" if told.note:
            yield f"Human review for {step}: rejected (human)"
            yield from _note(told.note)
        case "verify_failed_retryable" | "verify_failed_terminal":
            yield f"✗ {step}: Failed ({tried})"
            yield from _output(worked, event, full=full, failed=True)
        case "verify_pending_acceptance":
            yield f"✗ {step}: Blocked ({REVIEW_REQUIRED}: {'; '.join(told.reasons)})"
            yield from _output(worked, event, full=full, failed=False)
        case "checkup_accept_recorded":
            yield f"Human review for {step}: approved (human)"
            yield from _note(told.note)
            yield f"✓ {step}: Done ({tried})"
        case "checkup_preflight_blocked":
            yield f"✗ {step}: Blocked — {'; '.join(told.why)}"
        case _:
            pass


def _note(text: str) -> Iterable[str]:
    return (f"  note: {one_line(text)}",) if text else ()


def _output(worked: Worked, event: IssueEvent, *, full: bool, failed: bool) -> Iterable[str]:
    """What the checks of that event printed: always of a failure, else with `report_detail: full`.

    Results at a commit that was checked again are of the last time: those that ended otherwise are not of this event.
    """
    report = worked.checked.get(verified_at(event) or "")
    if report is None or not (failed or full) or bool(report.failed) is not failed:
        return ()
    return output_lines(Outcome("fail" if failed else "pass", _printed(report)), full=full)
