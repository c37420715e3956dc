"""A run of a workflow: what `.hotl/state` keeps of it, and what each command makes of it (docs/hotl.md).

Nothing here has an effect. Whoever drives a run, the agent by `hotl-rt` or Iron Tree from its log, has it from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import Any, Final, Literal, NamedTuple, get_args

from irontree.domain.text import counted, few, inert, one_line
from irontree.domain.workflow.verify import (
    NOTHING,
    REVIEW_REQUIRED,
    Outcome,
    Verify,
    as_json,
    checks_of,
    cut_output,
    from_json,
    kept_output,
    shown,
)
from irontree.domain.workflow.workflow import Workflow, approves_itself, condition_of, slug_of
from irontree.errors import Refused

StepStatus = Literal["pending", "in_progress", "done", "failed", "blocked"]
RunStatus = Literal["running", "paused", "blocked", "completed", "abandoned"]
REJECTED: Final = "human review rejected"
APPROVED: Final = "human review approved"
DRIVER: Final = "driver"
"""The key that says that Iron Tree drives a run."""
DRIVEN: Final = "irontree"
"""Its value then, and that of the executor."""
LOOP: Final = "loop"
"""The executor mode of a run for which none is named."""

_NONE = type(None)
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "str | None": (str, _NONE),
    "StepStatus": (str,),
    "RunStatus": (str,),
    "Mapping[str, Any]": (dict,),
}
"""The types of JSON that a key may have."""
_VALUES: Final = {"StepStatus": get_args(StepStatus), "RunStatus": get_args(RunStatus)}
_OWN: Final = ("more", "steps")


class Damaged(ValueError):
    """The JSON is no state of a run; says why."""


@dataclass(frozen=True, slots=True)
class RunStep:
    """A step of a run, its keys in the order of the file; *more* are keys that we do not know.

    A step in progress that has no `started_at` is to be tried again, and has not been begun.
    """

    number: int
    name: str
    action: str
    status: StepStatus
    attempts: int
    max_iterations: int
    loop: str
    started_at: str | None
    completed_at: str | None
    verify: Mapping[str, Any]
    gate: str | None
    gate_result: str | None
    gate_mode: str | None
    block_reason: str | None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def checks(self) -> Verify:
        """How it is checked."""
        return from_json(self.verify)

    @property
    def waits_for_review(self) -> bool:
        """Whether a person has to look at it, or has sent it back and may think otherwise."""
        reason = self.block_reason or ""
        return self.status == "blocked" and reason.startswith((REVIEW_REQUIRED, REJECTED))

    @property
    def is_unbegun(self) -> bool:
        """Whether its next attempt is still to begin."""
        return self.status == "in_progress" and self.started_at is None


@dataclass(frozen=True, slots=True)
class Run:
    """A run, its keys in the order of the file; *more* are keys that we do not know."""

    run_id: str
    workflow_path: str
    source_workflow_path: str
    workflow_slug: str
    intent: str
    success_criteria: str
    risk_level: str
    auto_approve: bool
    branch: str
    repo_root: str
    execution_root: str
    worktree_path: str | None
    executor_mode: str
    started_at: str
    last_update: str
    completed_at: str | None
    status: RunStatus
    current_step: int
    total_steps: int
    report_path: str
    steps: tuple[RunStep, ...]
    more: Mapping[str, Any] = field(default_factory=dict)

    def step(self, number: int) -> RunStep:
        """The step of that number; raises Refused if there is none."""
        found = next((step for step in self.steps if step.number == number), None)
        if found is None:
            numbers = few([str(step.number) for step in self.steps], 20)
            raise Refused(f"There is no step {number} in this run (there is: {numbers})")
        return found

    @property
    def approves_itself(self) -> bool:
        """Whether its gates need no person."""
        return approves_itself(auto_approve=self.auto_approve, risk_level=self.risk_level)

    def with_step(self, step: RunStep, at: datetime, **changes: Any) -> Run:
        """The same with that step in place of the one of its number, and with other values of its own."""
        steps = tuple(step if each.number == step.number else each for each in self.steps)
        return replace(self, steps=steps, last_update=iso(at), **changes)


class Change(NamedTuple):
    """What a command makes of a run: the run, the lines for its event log, what to print, whether it went well."""

    run: Run
    log: tuple[str, ...]
    said: str
    well: bool = True


class Place(NamedTuple):
    """Where a run takes place; *branch* and *worktree_path* are empty where they are not given.

    *source* are keys that say where it came from, if that is known.
    """

    workflow_path: str
    source_workflow_path: str
    repo_root: str
    execution_root: str
    report_folder: str
    worktree_path: str = ""
    branch: str = ""
    executor_mode: str = LOOP
    source: Mapping[str, Any] = {}


def iso(at: datetime) -> str:
    """A time as the state has it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")


def run_id_of(slug: str, at: datetime) -> str:
    """`SLUG-YYYYMMDDTHHMMSSZ`: readable, and in the order of time."""
    return f"{slug}-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def begin(workflow: Workflow, place: Place, at: datetime) -> Run:
    """A new run of a workflow that has steps, none of them begun."""
    slug = slug_of(place.workflow_path)
    run_id = run_id_of(slug, at)
    steps = tuple(
        RunStep(
            *(step.number, step.name, step.action, "pending", 0, step.max_iterations, step.loop, None, None),
            *(as_json(step.verify), step.gate, None, None, None),
        )
        for step in workflow.steps
    )
    return Run(
        run_id,
        place.workflow_path,
        place.source_workflow_path,
        slug,
        workflow.intent,
        workflow.success_criteria,
        workflow.risk_level,
        workflow.auto_approve,
        place.branch or workflow.branch or f"hotl/{slug}",
        place.repo_root,
        place.execution_root,
        place.worktree_path or None,
        place.executor_mode,
        iso(at),
        iso(at),
        None,
        "running",
        workflow.steps[0].number,
        len(steps),
        f"{place.report_folder}/{run_id}.md",
        steps,
        place.source,
    )


# --- Commands


def start(run: Run, number: int, at: datetime) -> Change:
    """Begin a step, or go on with one in progress: only an attempt that has not begun counts. Raises Refused."""
    step = run.step(number)
    if step.status not in ("pending", "in_progress"):
        raise Refused(f"Step {number} is '{step.status}', expected 'pending'")
    begun = _begun(step, at) if step.status == "pending" or step.is_unbegun else step
    now = run.with_step(begun, at, status="running", current_step=number, completed_at=None)
    return _change(now, at, f"→ Step {number}: {shown_in_markdown(step.name)}", said=f"started step {number}")


def _begun(step: RunStep, at: datetime) -> RunStep:
    return replace(step, status="in_progress", started_at=iso(at), attempts=step.attempts + 1)


def to_verify(run: Run, number: int) -> RunStep:
    """The step that is to be verified; raises Refused if it is not in progress."""
    step = run.step(number)
    if step.status != "in_progress":
        remedy = f"start it: hotl-rt step {number} start" if step.status == "pending" else None
        raise Refused(f"Step {number} is '{step.status}', expected 'in_progress' for verify", remedy=remedy)
    return step


def verified(run: Run, looked_at: RunStep, outcome: Outcome, at: datetime, *, full: bool = False) -> Change:
    """Record what the checks of a step came to; with *full*, the event log has all output of all.

    Raises Refused if it is not the step any more that was *looked_at*: somebody moved it meanwhile.
    """
    number, step = looked_at.number, run.step(looked_at.number)
    if step != looked_at:
        raise Refused(f"Step {number} was changed while it was verified (it is '{step.status}'); nothing was recorded")
    step = _begun(step, at) if step.is_unbegun else step
    verify, tried = with_checks(step.verify, outcome.each), f"{step.attempts} attempt(s)"
    more = output_lines(outcome, full=full) if full or outcome.end == "fail" else ()
    if outcome.end == "block":
        status = "paused" if outcome.reason.startswith(REVIEW_REQUIRED) else "blocked"
        blocked = replace(step, status="blocked", block_reason=outcome.reason, verify=verify)
        log, now = f"✗ Step {number}: Blocked ({outcome.reason})", run.with_step(blocked, at, status=status)
        return _change(now, at, log, *more, said=f"blocked: {outcome.reason}", well=False)
    if outcome.end == "pass" and step.checks == NOTHING:
        done = replace(step, status="done", completed_at=iso(at), verify={**verify, "passed": True})
        log = f"✓ Step {number}: Done (no verify, {tried})"
        return _change(run.with_step(done, at), at, log, said="pass (no verify command)")
    verify |= {"stdout": kept_output(outcome.stdout), "stderr": kept_output(outcome.stderr)}
    if outcome.end == "pass":
        done = replace(step, status="done", completed_at=iso(at), verify={**verify, "passed": True})
        return _change(run.with_step(done, at), at, f"✓ Step {number}: Done ({tried})", *more, said="pass")
    failed = replace(step, status="failed", verify={**verify, "passed": False})
    return _change(run.with_step(failed, at), at, f"✗ Step {number}: Failed ({tried})", *more, said="fail", well=False)


def with_checks(
    verify: Mapping[str, Any], passed: Iterable[bool | None] | None, *, others: bool | None = None
) -> dict[str, Any]:
    """The same with what each check of its list came to (None: those that passed have), and what the *others* did."""
    checks = verify.get("checks")
    if not isinstance(checks, list) or not all(isinstance(check, dict) for check in checks):
        return dict(verify)
    marks = chain((check.get("passed") or None for check in checks) if passed is None else passed, repeat(None))
    known = zip(checks, marks, strict=False)
    return {**verify, "checks": [{**check, "passed": others if mark is None else mark} for check, mark in known]}


def output_lines(outcome: Outcome, *, full: bool) -> Iterable[str]:
    """What the event log has of the output of checks: its beginning, or with *full* all of it."""
    for name, text in (("stderr", outcome.stderr), ("stdout", outcome.stdout)):
        shown = text.rstrip("\n") if full else cut_output(text)
        if shown:
            yield f"  verify {name}: {shown}"


def retry(run: Run, number: int, at: datetime) -> Change:
    """Let a step be tried again that failed, is blocked, or was sent back at its gate. Raises Refused.

    One that waits for a review is not: a person has been asked about it.
    """
    step = run.step(number)
    sent_back = step.status == "done" and step.gate_result == "rejected"
    if step.status not in ("failed", "blocked") and not sent_back:
        raise Refused(f"Step {number} is '{step.status}', expected 'failed' for retry")
    if step.status == "blocked" and (step.block_reason or "").startswith(REVIEW_REQUIRED):
        what = f"Step {number} is 'blocked', expected 'failed' for retry: it waits for a human review"
        raise Refused(what, remedy=f"let a person look, then: hotl-rt gate {number} approved|rejected")
    if step.attempts >= step.max_iterations:
        condition = condition_of(step.loop)
        unmet = f" {condition} not met." if condition else ""
        raise Refused(f"Step {number} reached max iterations ({step.max_iterations}).{unmet}")
    again = replace(
        step,
        status="in_progress",
        started_at=None,
        completed_at=None,
        verify={**with_checks(step.verify, ()), "passed": None, "stdout": None, "stderr": None},
        block_reason=None,
        gate_result=None if step.gate_result == "rejected" else step.gate_result,
        gate_mode=None if step.gate_result == "rejected" else step.gate_mode,
    )
    tried = f"{step.attempts + 1}/{step.max_iterations}"
    now = run.with_step(again, at, status="running", completed_at=None)
    log = f"↻ Step {number}: Retrying ({tried})"
    return _change(now, at, log, said=f"retrying step {number} (attempt {tried})")


def block(run: Run, number: int, reason: str, at: datetime) -> Change:
    """Stop at a step, for a reason that the agent gives. Raises Refused for a step that is not there."""
    step = replace(run.step(number), status="blocked", block_reason=reason)
    now = run.with_step(step, at, status="blocked", completed_at=None)
    log = f"✗ Step {number}: Blocked — {reason}"
    return _change(now, at, log, said=f"blocked step {number}: {reason}")


def decide(run: Run, number: int, decision: str, mode: str, at: datetime) -> Change:
    """Record the decision of a gate; that of a review ends the step or sends it back. Raises Refused.

    `auto` stands for the rule that a gate approves itself: it decides no review, and nothing where the rule is not met.
    """
    step = run.step(number)
    if decision not in ("approved", "rejected"):
        raise Refused(f"Gate decision must be 'approved' or 'rejected', got: {decision}")
    if mode not in ("auto", "human"):
        raise Refused(f"Gate mode must be 'auto' or 'human', got: {mode}")
    if step.gate and (step.status == "pending" or step.is_unbegun):
        what = f"Step {number} is '{step.status}' and was not begun: its gate has nothing to decide on"
        raise Refused(what, remedy=f"do it first: hotl-rt step {number} start")
    if mode == "auto":
        _require_no_person(run, step)
    decided = replace(step, gate_result=decision, gate_mode=mode)
    if step.waits_for_review:
        now = _reviewed(run, decided, at)
        log, said = f"Human review for Step {number}: {decision} ({mode})", "human-review"
    else:
        now = _with_standing(run.with_step(decided, at))
        log, said = f"Gate Step {number}: {decision} ({mode})", "gate"
    return _change(now, at, log, said=f"{said} {number}: {decision} ({mode})")


def _require_no_person(run: Run, step: RunStep) -> None:
    if step.waits_for_review:
        raise Refused(f"Step {step.number} waits for a human review: --mode auto cannot decide it")
    if run.risk_level == "high":
        raise Refused("High-risk workflows require human gate decisions")
    if not run.approves_itself:
        raise Refused("auto_approve is not true: the gate requires a human decision")


def _reviewed(run: Run, step: RunStep, at: datetime) -> Run:
    judged = with_checks(step.verify, None, others=step.gate_result == "approved")
    if step.gate_result == "approved":
        verify = {**judged, "passed": True, "stdout": APPROVED, "stderr": None}
        step = replace(step, status="done", completed_at=iso(at), block_reason=None, verify=verify)
    else:
        verify = {**judged, "passed": False, "stdout": None, "stderr": REJECTED}
        step = replace(step, status="blocked", block_reason=REJECTED, verify=verify)
    return _with_standing(run.with_step(step, at))


def _with_standing(run: Run) -> Run:
    """The same with the status that its steps give it after a decision; a rejection alone opens a finished run."""
    reasons = [step.block_reason or "" for step in run.steps if step.status == "blocked"]
    if any(step.gate_result == "rejected" for step in run.steps):
        return replace(run, status="blocked", completed_at=None)
    if run.status in ("completed", "abandoned"):
        return run
    if not all(reason.startswith(REVIEW_REQUIRED) for reason in reasons):
        return replace(run, status="blocked")
    return replace(run, status="paused" if reasons else "running", completed_at=None)


def finalize(run: Run, at: datetime) -> Change:
    """End a run: `completed` only with every step done, and every human gate approved or approving itself."""
    reasons = unfinished(run)
    status: RunStatus = "blocked" if reasons else "completed"
    now = replace(run, status=status, completed_at=iso(at), last_update=iso(at))
    return _change(now, at, f"Run finalized: {status}", said="; ".join(reasons))


def unfinished(run: Run) -> tuple[str, ...]:
    """Why a run is not complete, in words."""
    open_steps: dict[str, list[str]] = {}
    for step in run.steps:
        if step.status != "done":
            open_steps.setdefault(step.status.replace("_", " "), []).append(str(step.number))
    told = [f"{counted(len(all_of), 'step')} {status}: {few(all_of)}" for status, all_of in open_steps.items()]
    for step in run.steps:
        needs_person = step.gate == "human" and not run.approves_itself
        if step.gate_result == "rejected" and step.status == "done":
            told.append(f"the gate of step {step.number} is rejected")
        elif step.status == "done" and needs_person and step.gate_result is None:
            told.append(f"the gate of step {step.number} is not decided")
    return tuple(told)


def failure(step: RunStep, outcome: Outcome, report_path: str) -> tuple[str, str]:
    """Which check of a step failed, and what to do about it: HOTL's skills stop at one that is tried once."""
    known = zip(checks_of(step.checks), outcome.each, strict=False)
    which = next((shown(check) for check, passed in known if passed is False), "")
    block = f'hotl-rt step {step.number} block --reason "verify failed"'
    again = (
        f"put it right, then: hotl-rt step {step.number} retry"
        if condition_of(step.loop) and step.attempts < step.max_iterations
        else block
    )
    return f"Step {step.number} failed: {which}", f"its output is in {report_path}; {again}"


def shown_in_markdown(words: str) -> str:
    """Words of the author in a report or a chat: no image, link, tag or control character among them does anything."""
    return inert(one_line(words))


def log_line(at: datetime, what: str) -> str:
    """A line of the event log."""
    return f"**[{at.astimezone(UTC):%H:%M:%S}]** {what}"


def _change(run: Run, at: datetime, *log: str, said: str, well: bool = True) -> Change:
    first, *more = log
    return Change(run, (log_line(at, first), *more), said, well)


# --- JSON


def run_as_json(run: Run) -> dict[str, Any]:
    """The content of the state file; keys that we do not know come last, as they were."""
    found = {name: getattr(run, name) for name in _names(Run)} | {"steps": [_step_as_json(step) for step in run.steps]}
    return found | dict(run.more)


def _step_as_json(step: RunStep) -> dict[str, Any]:
    return {name: getattr(step, name) for name in _names(RunStep)} | dict(step.more)


def run_from_json(kept: object) -> Run:
    """The run that a state file holds; people may have edited it. Raises Damaged for what no run can have."""
    found = _read(Run, kept, "the run")
    steps = kept.get("steps") if isinstance(kept, dict) else None
    if not isinstance(steps, list) or not steps:
        raise Damaged("it has no steps")
    read = tuple(RunStep(**_read(RunStep, step, f"step {at}")) for at, step in enumerate(steps, 1))
    if len({step.number for step in read}) < len(read):
        raise Damaged("two steps have the same number")
    return Run(**found, steps=read)


def _names(kind: type[Run | RunStep]) -> list[str]:
    return [each.name for each in fields(kind) if each.name != "more"]


def _read(kind: type[Run | RunStep], kept: object, where: str) -> dict[str, Any]:
    """The values of one object; a key that may be null may be missing."""
    if not isinstance(kept, dict):
        raise Damaged(f"{where} is no object")
    found: dict[str, Any] = {}
    for each in fields(kind):
        if each.name in _OWN:
            continue
        value = kept.get(each.name)
        wanted = str(each.type)
        if type(value) not in _TYPES[wanted] or value not in _VALUES.get(wanted, (value,)):
            raise Damaged(f"{where} has no valid '{each.name}'")
        found[each.name] = value
    return found | {"more": {key: value for key, value in kept.items() if key not in {*_names(kind), "more"}}}
