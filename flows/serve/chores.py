"""What is done from time to time beside serving: small things, each for each repository.

The janitor tells it, and who serves; whichever sees it first.

Who serves looks once a minute, and at once where a webhook says that there is something to see; nothing that a
webhook says is believed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from irontree.app import App
from irontree.errors import IrontreeError, RemoteUnavailable, in_words
from irontree.flows.runs.recovery import go_on_approving, mark_dead_runs, start_what_waits, wake_overtaken
from irontree.flows.runs.runs import RunInfo, connect, of_flow, suspended_runs, url_for
from irontree.flows.serve.automations import CHANGED
from irontree.ports import Issue
from irontree.services.consistency.drift import drifted_issues
from irontree.services.record import read_world
from irontree.tasks.artifacts import emit, emit_question, read_told, tell_events, telling, write_told

HOUR: Final = 3600
REMINDED: Final = "reminded."
LABELLED: Final = "labelled."
TELLINGS: Final = "tellings."
DECIDED: Final = "decided."
AGAIN_SECONDS: Final = 600
"""What a server needs at most from the event to the run that asks."""
LONGEST_SECONDS: Final = 24 * HOUR
ENDED: Final = frozenset({"COMPLETED", "CANCELLED", "FAILED"})
"""States of runs that do not go on by themselves: one that crashed is started again."""


def tell_labelled(app: App) -> tuple[int, ...]:
    """Emit `irontree.issue_labelled` once for each open issue with the configured label that is not known here.

    Those numbers; none where no label is configured, or the forge does not answer now. Again, each time after a longer
    wait, where the server has no run that asks for its approval: the event was lost, or the server's database, or its
    automation is paused. Not where a person was seen to have decided: the server drops the runs that tell of it in
    time. Raises Busy, and ServerUnavailable.
    """
    label = app.preferences().automations.start_label
    if not label:
        return ()
    try:
        found = app.forge().open_issues(label)
    except IrontreeError as error:
        app.progress.note(f"the issues labelled {label} could not be read: {error.message}")
        return ()
    known = read_world(app).replays
    with telling(app):
        told, now = read_told(app), int(app.clock.now().timestamp())
        due = [issue for issue in found if issue.number not in known and is_due(told, issue.number, now)]
        asking = _asking_for(app, [issue.number for issue in due if f"{LABELLED}{issue.number}" in told])
        fresh = [issue for issue in due if issue.number not in asking]
        for issue in fresh:
            _tell_labelled(app, issue, label, told.get(f"{LABELLED}{issue.number}", 0))
        news = was_decided(asking) | was_told(told, [issue.number for issue in fresh], now)
        if news:
            write_told(app, told | news)
    return tuple(issue.number for issue in fresh)


def is_due(told: Mapping[str, int], number: int, now: int) -> bool:
    """Whether it was never told, or long ago for how often it was, and nobody is known to have decided about it."""
    wait = AGAIN_SECONDS << min(told.get(f"{TELLINGS}{number}", 1) - 1, 16)
    is_long_ago = now - told.get(f"{LABELLED}{number}", 0) >= min(LONGEST_SECONDS, wait)
    return is_long_ago and f"{DECIDED}{number}" not in told


def was_told(told: Mapping[str, int], numbers: Iterable[int], now: int) -> dict[str, int]:
    """What to remember of those that were told: when, and how often by now."""
    often = {f"{TELLINGS}{number}": told.get(f"{TELLINGS}{number}", 0) + 1 for number in numbers}
    return often | {f"{LABELLED}{number}": now for number in numbers}


def was_decided(asking: Mapping[int, Collection[RunInfo]]) -> dict[str, int]:
    """What to remember of those that a person was asked about, and no run asks about any more."""
    states = {number: {run.state for run in mine} for number, mine in asking.items()}
    return {f"{DECIDED}{number}": 1 for number, found in states.items() if found <= ENDED and found != {"FAILED"}}


def _asking_for(app: App, numbers: Collection[int]) -> Mapping[int, list[RunInfo]]:
    """The runs that ask or asked for their approval; those that have none are left out."""
    if not numbers:
        return {}
    asking: defaultdict[str, list[RunInfo]] = defaultdict(list)
    with connect() as client:
        for run in of_flow(client, app.repository.id, "intake"):
            asking[str(run.parameters.get("document"))].append(run)
    return {number: asking[f"#{number}"] for number in numbers if f"#{number}" in asking}


def _tell_labelled(app: App, issue: Issue, label: str, before: int) -> None:
    """*before* is when it was told last: telling once more is another event."""
    payload = {"issue_number": issue.number, "title": issue.title, "label": label}
    stream, key = f"issue.{issue.number}", f"labelled:{issue.number}:{before}"
    emit("issue_labelled", workspace_id=app.repository.id, stream=stream, name=issue.title, payload=payload, key=key)


def remind(app: App) -> tuple[str, ...]:
    """Emit `irontree.question_waits` for each question, every so many hours that it is open; the names of the runs."""
    hours = app.preferences().automations.remind_hours
    if not hours:
        return ()
    with connect() as client:
        asking = suspended_runs(client, app.repository.id)
    with telling(app):
        told, now = read_told(app), app.clock.now()
        spans = {_asking_of(run): _spans(run, now, hours) for run in asking}
        due = [run for run in asking if spans[_asking_of(run)] > told.get(_asking_of(run), 0)]
        for run in due:
            passed, url = spans[_asking_of(run)], url_for(run.id)
            title, key = f"This question has been open for {passed * hours} hours", f"{_asking_of(run)}:{passed}"
            emit_question(app, "question_waits", "", run.name, title=title, url=url, key=key)
        if due:
            others = {stream: n for stream, n in told.items() if not stream.startswith(REMINDED)}
            write_told(app, others | spans)
    return tuple(run.name for run in due)


def _asking_of(run: RunInfo) -> str:
    """This asking of the run: one that asks anew is another."""
    return f"{REMINDED}{run.id}.{run.since:%Y%m%d%H%M%S}" if run.since else f"{REMINDED}{run.id}"


def _spans(run: RunInfo, now: datetime, hours: int) -> int:
    """How often that many hours have passed since the run was suspended."""
    return int((now - run.since).total_seconds() // (hours * HOUR)) if run.since else 0


# --- Tells the server's automations when others changed issues on the forge: `irontree.forge_changed`


EVERY: Final = 60.0
"""Seconds between two looks at a repository, and at least between two events about it."""


@dataclass
class ForgeChanges:
    """Emits once for what is new of each repository. May be hinted at from other threads."""

    tell: Callable[[App, Sequence[int]], None] = field(default_factory=lambda: tell_changed)
    clock: Callable[[], float] = time.monotonic
    _looked: dict[str, float] = field(default_factory=dict)
    _emitted: dict[str, float] = field(default_factory=dict)
    _known: dict[str, frozenset[int]] = field(default_factory=dict)
    _hinted: set[str] = field(default_factory=set)

    def hint(self, address: str) -> None:
        """Look at the repository with this page with the next call."""
        self._hinted.add(_same(address))

    def __call__(self, app: App) -> Iterator[str]:
        """Look if it is time; what was told, a line."""
        preferences, now, own = app.preferences(), self.clock(), app.repository.id
        is_hinted = _same(preferences.tracker or "") in self._hinted
        is_due = is_hinted or now - self._looked.get(own, now - EVERY) >= EVERY
        if not (is_due and preferences.automations.reconcile and now - self._emitted.get(own, now - EVERY) >= EVERY):
            return
        self._hinted.discard(_same(preferences.tracker or ""))
        self._looked[own] = now
        if new := self._new(app):
            self._emitted[own] = now
            self.tell(app, new)
            yield f"changed on the forge: {', '.join(f'#{number}' for number in new)}"

    def _new(self, app: App) -> list[int]:
        """What the last look did not show; nothing while the forge is away, which other work says."""
        before = self._known.get(app.repository.id, frozenset())
        try:
            self._known[app.repository.id] = drifted_issues(app)
        except RemoteUnavailable:
            return []
        return sorted(self._known[app.repository.id] - before)


def tell_changed(app: App, numbers: Sequence[int]) -> None:
    """Emit the event about these issues."""
    payload = {"issues": list(numbers), "repository": app.repository.root.name}
    emit(CHANGED.removeprefix("irontree."), workspace_id=app.repository.id, payload=payload)


def _same(address: str) -> str:
    return address.rstrip("/").casefold()


# --- What who serves repositories does beside serving


Say = Callable[[App, str], None]


def _nothing(_: str) -> None:
    """Where nothing is remembered."""


@dataclass(frozen=True, slots=True)
class Chore:
    """Something to do *every* so many seconds for a repository; yields what there is to say about it."""

    name: str
    every: float
    do: Callable[[App], Iterable[str]]
    at_once: bool = False
    """Whether it is also done as soon as the repository is served."""
    forget: Callable[[str], None] = _nothing
    """Forgets what the server was told about the repository with this id: it may have another database by now."""


def take_up_what_died(app: App) -> Iterable[str]:
    """Find the runs whose process died, and have what the log says going on; the janitor comes by only every 5 min."""
    yield from mark_dead_runs(app)
    yield from go_on_approving(app)
    start_what_waits(app)
    wake_overtaken(app, asks_forge=False)  # whoever approves does so at once, the janitor later


def go_on(app: App) -> Iterable[str]:
    """Have going what the log says should be, and asked what is open (rulings, Crashes); a line a loop."""
    yield from go_on_approving(app)
    yield from start_what_waits(app)
    wake_overtaken(app)


def tell_what_happened(app: App) -> Iterable[str]:
    """Tell the server's automations what commands recorded."""
    tell_events(app)
    return ()


def tell_what_waits(app: App) -> Iterable[str]:
    """Tell the server's automations what was labelled, and which question waits for long."""
    yield from (f"#{number} was labelled: it is put up for approval" for number in tell_labelled(app))
    yield from (f"{run}: its question is still open" for run in remind(app))


CHORES: Final = (
    Chore("take up what died", 60.0, take_up_what_died),
    Chore("tell what happened", 60.0, tell_what_happened),
    Chore("tell what waits", 60.0, tell_what_waits),
)


@dataclass
class Failures:
    """Says what could not be done for a repository, once as long as it stays the same."""

    say: Say
    _said: dict[tuple[str, str], str] = field(default_factory=dict)

    @contextmanager
    def said(self, app: App, what: str, *, passing: tuple[type[IrontreeError], ...] = ()) -> Iterator[None]:
        """Say what ends the block, which does *what* for *app*; raises what is *passing*."""
        try:
            yield
            self._said.pop((app.repository.id, what), None)
        except passing:
            raise
        except IrontreeError as error:
            self.say_once(app, what, error)

    def say_once(self, app: App, what: str, error: IrontreeError) -> None:
        """Say the *error* that keeps somebody from doing *what*, unless it was said, of this or of something else."""
        mine, text = app.repository.id, in_words(error)
        if text not in (words for (repository, _), words in self._said.items() if repository == mine):
            self.say(app, text)
        self._said[mine, what] = text


@dataclass
class Duties:
    """Does what is due. What cannot be done is said, once as long as it stays the same, and tried again when due."""

    say: Say
    chores: Sequence[Chore] = CHORES
    _due: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._failures = Failures(self.say)

    def look(self, apps: Sequence[App], now: float) -> None:
        """Do what is due at *now* (monotonic seconds); where a repository is new, after one interval unless at once."""
        for app in apps:
            for chore in self.chores:
                key = (app.repository.id, chore.name)
                if now >= self._due.setdefault(key, now if chore.at_once else now + chore.every):
                    self._due[key] = now + chore.every
                    self._do(app, chore)

    def forget(self, app: App) -> None:
        """Have the server told anew: the repository is served anew."""
        for chore in self.chores:
            chore.forget(app.repository.id)

    def _do(self, app: App, chore: Chore) -> None:
        with self._failures.said(app, chore.name):
            for line in chore.do(app):
                self.say(app, line)
