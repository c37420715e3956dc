"""What is shown of a run: the report in `.hotl/reports`, the summary as JSON, the summary for a chat (docs/hotl.md).

The report is made from the state each time; only its event log is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from irontree.domain.workflow.run import Run, RunStep, shown_in_markdown
from irontree.errors import Refused

LOG_HEADING: Final = "## Event Log\n\n"
_SUMMARY: Final = (
    *("run_id", "workflow_path", "source_workflow_path", "workflow_slug", "intent", "branch", "repo_root"),
    *("execution_root", "worktree_path", "executor_mode", "status", "started_at", "last_update", "completed_at"),
    "total_steps",
)
_COUNTED: Final = {"completed_steps": "done", "failed_steps": "failed", "blocked_steps": "blocked"}
_WORDS: Final = {
    "pending": "Pending",
    "in_progress": "Running",
    "done": "Done",
    "failed": "Failed",
    "blocked": "Blocked",
}
_SIGNS: Final = {
    **dict.fromkeys(("Approved", "Done"), "✓"),
    **dict.fromkeys(("Rejected", "Failed", "Blocked"), "✗"),
    "Auto-approved": "⚡",
    "Running": "→",
    "Retrying": "↻",
}
_WITHOUT_COUNT: Final = ("pending", "blocked")
PLATFORMS: Final = ("codex", "claude", "cline")


def report(run: Run, before: str, log: Iterable[str] = ()) -> str:
    """The report; its event log is that of the report *before*, and then *log*."""
    _, heading, kept = before.partition(LOG_HEADING)
    events = (kept if heading else "") + "".join(f"{line}\n" for line in log)
    return "".join(f"{line}\n" for line in _head(run)) + LOG_HEADING + events


def _head(run: Run) -> Iterator[str]:
    yield from (f"# Execution Report: {run.run_id}", "")
    yield f"**Workflow:** {run.workflow_path.rpartition('/')[2]}"
    yield f"**Source Workflow:** {run.source_workflow_path}"
    yield f"**Intent:** {shown_in_markdown(run.intent)}"
    yield f"**Branch:** {run.branch}"
    yield f"**Executor:** {run.executor_mode}"
    yield f"**Execution Root:** {run.execution_root}"
    if run.worktree_path:
        yield f"**Worktree:** {run.worktree_path}"
    yield f"**Started:** {run.started_at}"
    yield f"**Updated:** {run.last_update}"
    yield f"**Status:** {run.status}"
    yield from ("", "| Step | Name | Status | Iterations |", "|------|------|--------|------------|")
    for step in run.steps:
        name = shown_in_markdown(step.name).replace("|", r"\|")
        yield f"| {step.number:>2}   | {name} | {' | '.join(_standing(step))} |"
    yield ""


def step_list(run: Run) -> str:
    """All steps and where each stands, for `progress: verbose`."""
    rows = ((step, *_standing(step)) for step in run.steps)
    return "".join(
        f"{status} Step {step.number}: {step.name}{'' if count == '-' else f' ({count})'}\n"
        for step, status, count in rows
    )


def _standing(step: RunStep) -> tuple[str, str]:
    """Status and iterations of a row: of a gate, unless work went on behind it."""
    if step.is_unbegun:
        return _signed("Retrying"), str(step.attempts + 1)
    if step.gate_result == "approved" and step.status in ("done", "pending"):
        return _signed("Auto-approved" if step.gate_mode == "auto" else "Approved"), "-"
    if step.gate_result == "rejected" and step.status != "in_progress":
        return _signed("Rejected"), "-"
    return _signed(_WORDS[step.status]), "-" if step.status in _WITHOUT_COUNT else str(step.attempts)


def _signed(word: str) -> str:
    return f"{_SIGNS.get(word, '·')} {word}"


def summary(run: Run) -> dict[str, Any]:
    """What `summary` and `finalize` print."""
    found: dict[str, Any] = {name: getattr(run, name) for name in _SUMMARY}
    for name, status in _COUNTED.items():
        found[name] = sum(step.status == status for step in run.steps)
    found["steps"] = [
        {
            "number": step.number,
            "name": step.name,
            "status": step.status,
            "attempts": step.attempts,
            "verify_passed": step.verify.get("passed"),
            "gate_result": step.gate_result,
            "gate_mode": step.gate_mode,
            "block_reason": step.block_reason,
        }
        for step in run.steps
    ]
    return found


# --- For a chat


def render(shown: object, platform: str) -> str:
    """A summary for people: lines for Codex, a table for Claude Code and Cline. Raises Refused."""
    if platform not in PLATFORMS:
        raise Refused(f"Unsupported platform: {platform}")
    steps = shown.get("steps") if isinstance(shown, dict) else None
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise Refused("The summary has no list of steps")
    lines = _lines(steps) if platform == "codex" else _table(steps)
    return "".join(f"{line}\n" for line in lines)


def _lines(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from ("Execution Summary", "")
    for step in steps:
        word, attempts = _word(step), step.get("attempts", 0)
        count = "-" if step.get("gate_result") else f"{attempts} attempt{'' if attempts == 1 else 's'}"
        yield f"{_SIGNS.get(word, '·')} Step {step.get('number')}: {_name(step)} - {word} ({count})"


def _table(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from ("| Step | Name | Status | Iterations |", "|------|------|--------|------------|")
    for step in steps:
        word = _word(step)
        count = "-" if step.get("gate_result") else step.get("attempts", 0)
        name = _name(step).replace("\\", r"\\").replace("|", r"\|")
        yield f"| {step.get('number')} | {name} | {_signed(word)} | {count} |"


def _name(step: Mapping[str, Any]) -> str:
    return shown_in_markdown(str(step.get("name")))


def _word(step: Mapping[str, Any]) -> str:
    """What became of a step: the decision of its gate, if there is one."""
    decision = step.get("gate_result")
    if decision == "approved":
        return "Auto-approved" if step.get("gate_mode") == "auto" else "Approved"
    if decision == "rejected":
        return "Rejected"
    status = str(step.get("status") or "pending")
    return _WORDS.get(status, status)
