"""Compare the log with itself and with the forge; say what is wrong, never silently believe it (phase 6)."""

from __future__ import annotations

from dataclasses import dataclass

from irontree.app import App
from irontree.domain.events import ExternalCloseDetected, SequenceGapDetected
from irontree.domain.evolve import Replay
from irontree.domain.state import Phase, TaskState
from irontree.errors import RemoteFailed
from irontree.services.approve import approve_reverted
from irontree.services.brief import write_brief
from irontree.services.deliver import deliver
from irontree.services.record import record
from irontree.services.steps import Question, question_about
from irontree.services.world import World, read_world

CLOSED_OUTSIDE = "closed-outside"


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What was found and recorded. `open_questions` is everything that waits for a person."""

    gaps: tuple[int, ...]
    closed_outside: tuple[int, ...]
    approved_again: tuple[int, ...]
    undelivered: tuple[str, ...]
    open_questions: tuple[Question, ...]
    problems: tuple[str, ...]


def reconcile(app: App) -> Reconciliation:
    """Record gaps and closings from outside, deliver what is due, make the briefs again.

    The caller holds the driver lock. Never marks anything done.
    """
    world = read_world(app)
    gaps = tuple(number for number, replay in world.replays.items() if _record_gap(app, number, replay))
    wanted = [state for state in world.states.values() if state.task_key not in world.cancelled]
    closed = tuple(state.issue_number for state in wanted if _record_external_close(app, state))
    approved = approve_reverted(app)
    world = read_world(app)
    failures = tuple(failure for number in world.replays for failure in deliver(app, number).failures)
    for state in world.states.values():
        write_brief(app, world, state)
    app.repository.back_up()
    return Reconciliation(gaps, closed, approved, failures, open_questions(world), _problems(world))


def open_questions(world: World) -> tuple[Question, ...]:
    """Every issue that waits for a person, lowest number first."""
    states = sorted(world.states.values(), key=lambda state: state.issue_number)
    return tuple(question_about(state, rule) for state in states if (rule := world.halt_of(state)))


def _record_gap(app: App, number: int, replay: Replay) -> bool:
    """One gap event per set of missing sequences (ruling R13)."""
    if not replay.missing or replay.state is None:
        return False
    stream, state = app.log.read(number), replay.state
    event = SequenceGapDetected(
        **{name: getattr(state, name) for name in _COPIED},
        sequence=stream.highest_sequence + 1,
        found_sequences=tuple(record.event.sequence for record in stream.records),
        missing_sequences=replay.missing,
        highest_replayable_sequence=state.sequence,
    )
    app.log.append(event, expected_sequence=stream.highest_sequence, meta=app.origin.meta())
    return True


_COPIED = (
    "task_key",
    "issue_number",
    "spec_revision",
    "approved_revision",
    "current_stage",
    "next_stage",
    "workflow_entry_state",
    "attempt_count",
    "max_retry_count",
    "code_publication_state",
)


def _record_external_close(app: App, state: TaskState) -> bool:
    """Whether the issue was closed without our evidence; recorded once."""
    if state.done or state.problem or state.blocking_check == CLOSED_OUTSIDE or state.phase is Phase.RUNNING:
        return False
    try:
        issue = app.forge().read_issue(state.issue_number)
    except RemoteFailed as error:
        app.progress.note(f"#{state.issue_number} could not be read: {error.message}")
        return False
    if issue is None or issue.state != "closed":
        return False
    record(app, state, ExternalCloseDetected, meta={"reason": "closed on the forge without completion evidence"})
    return True


def _problems(world: World) -> tuple[str, ...]:
    found = [f"{problem.path}: {problem.what}" for problem in world.problems]
    return (*found, *(f"issue-{n}: {replay.problem}" for n, replay in world.replays.items() if replay.problem))
