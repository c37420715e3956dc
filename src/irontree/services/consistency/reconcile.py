"""Compare the log with itself and with the forge; say what is wrong, never silently believe it (phase 6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from irontree.app import App
from irontree.domain.evolve import Replay
from irontree.domain.gaps import gap_event
from irontree.domain.labels import ADOPTED, MANAGED
from irontree.domain.state import TaskState
from irontree.errors import RemoteFailed
from irontree.services.consistency.external import Change, look_outside
from irontree.services.consistency.restore import Restoration, restore
from irontree.services.delivery.deliver import deliver
from irontree.services.execution.landed import fetch_targets
from irontree.services.execution.merging import settle_requests
from irontree.services.planning.approve import approve_reverted
from irontree.services.projections.brief import write_projections
from irontree.services.projections.narrate import say_issue_event
from irontree.services.questions import Question, question_about
from irontree.services.world import World, read_world


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What was found and recorded. `open_questions` is everything that waits for a person."""

    restored: tuple[Restoration, ...]
    gaps: tuple[int, ...]
    settled: tuple[tuple[int, str], ...]
    """What became of requests to merge, by issue number, in words."""
    outside: tuple[Change, ...]
    approved_again: tuple[int, ...]
    undelivered: tuple[str, ...]
    open_questions: tuple[Question, ...]
    problems: tuple[str, ...]
    unseen: tuple[int, ...] = ()
    """Issues of which the forge shows none: a person has to say whether it is the right one, or that they are gone."""

    @property
    def pending_acceptance(self) -> tuple[Question, ...]:
        """Those of the open questions that wait for acceptance (contract, reconcile)."""
        return tuple(question for question in self.open_questions if question.rule.reason == "pending_acceptance")


def reconcile(app: App, issue_number: int | None = None) -> Reconciliation:
    """Restore lost logs, record gaps and what happened outside, deliver what is due, make the briefs again.

    With *issue_number*, that issue's log is restored from its comments too where it has none; else those of open
    issues that carry our labels are. The caller holds the driver lock. Never marks anything done.
    """
    restored = tuple(_restored(app, issue_number))
    world = read_world(app)
    gaps = tuple(number for number, replay in world.replays.items() if _record_gap(app, number, replay))
    _delivered(app)  # first: what is not done yet by us looks like something done by others
    fetch_targets(app, world, world.states.values())
    settled = settle_requests(app)  # their merge closes issues, which is no close from outside
    outside = look_outside(app, read_world(app), issue_number)
    approved = approve_reverted(app)
    failures = _delivered(app)
    world = read_world(app)
    for state in world.states.values():
        write_projections(app, world, state)
    app.repository.back_up()
    return Reconciliation(
        restored,
        gaps,
        tuple((state.issue_number, _said(app, state)) for state in settled),
        outside.changes,
        approved,
        failures,
        questions_of_issues(world),
        tuple(_problems(world, restored, outside.unseen)),
        outside.unseen,
    )


def _said(app: App, state: TaskState) -> str:
    return say_issue_event(app.log.read(state.issue_number).records[-1])


def questions_of_issues(world: World) -> tuple[Question, ...]:
    """Every issue that waits for a person, lowest number first."""
    states = sorted(world.states.values(), key=lambda state: state.issue_number)
    return tuple(question_about(state, rule) for state in states if (rule := world.halt_of(state)))


def _delivered(app: App) -> tuple[str, ...]:
    """What could not be delivered of all that is due."""
    return tuple(failure for number in app.log.streams() for failure in deliver(app, number).failures)


def _restored(app: App, issue_number: int | None) -> Iterator[Restoration]:
    """What became of the issues that have no events here; of the one that was asked for, in any case."""
    try:
        wanted = [issue_number] if issue_number else sorted(_without_events(app))
        found = [restore(app, number) for number in wanted]
    except RemoteFailed as error:
        app.progress.note(f"the comments could not be read: {error.message}")
        return
    yield from (one for one in found if issue_number or one.events or one.problems)


def _without_events(app: App) -> set[int]:
    """Open issues that carry our labels and have no log here."""
    known = {*app.log.streams()}
    labelled = (app.forge().open_issues(label) for label in sorted(MANAGED | {ADOPTED}))
    return {issue.number for issues in labelled for issue in issues} - known


def _record_gap(app: App, number: int, replay: Replay) -> bool:
    """One gap event per set of missing sequences (ruling R13); none over what a newer version wrote."""
    if not replay.missing or replay.state is None:
        return False
    stream = app.log.read(number)
    found = (record.event.sequence for record in stream.records)
    event = gap_event(replay.state, stream.highest_sequence + 1, found, replay.missing)
    app.log.append(event, expected_sequence=stream.highest_sequence, meta=app.origin.meta())
    return True


def not_seen(numbers: tuple[int, ...]) -> tuple[str, str]:
    """What to say of issues of which the forge shows none, and what a person does about it."""
    first = f"irontree checkup reconcile issue-{numbers[0]}"
    remedy = (
        "if it is another forge or account, correct that; `irontree init --from-backup` brings back issues of the "
        f"local forge that were backed up; if they are gone for good, say so of each: `{first}` asks how it goes on"
    )
    return f"none of its {len(numbers)} issues can be seen", remedy


def _problems(world: World, restored: Iterable[Restoration], unseen: tuple[int, ...]) -> Iterator[str]:
    if unseen:
        what, remedy = not_seen(unseen)
        yield f"forge: {what} -> {remedy}"
    yield from (f"{problem.path}: {problem.what}" for problem in world.problems)
    yield from (f"issue-{n}: {replay.problem}" for n, replay in world.replays.items() if replay.problem)
    yield from (f"{problem.path}: {problem.what}" for one in restored for problem in one.problems)
