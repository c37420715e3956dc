"""What who serves repositories does beside serving: small things, each for each repository, from time to time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from irontree.app import App
from irontree.errors import IrontreeError, in_words
from irontree.flows.lifecycle.noticing import remind, tell_labelled
from irontree.flows.lifecycle.taking_up import go_on_approving, mark_dead_runs, start_what_waits, wake_overtaken
from irontree.tasks.mirror import tell_events

Say = Callable[[App, str], None]


def _nothing(_: str) -> None:
    """Where nothing is remembered."""


@dataclass(frozen=True, slots=True)
class Duty:
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


DUTIES: Final = (
    Duty("take up what died", 60.0, take_up_what_died),
    Duty("tell what happened", 60.0, tell_what_happened),
    Duty("tell what waits", 60.0, tell_what_waits),
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
    duties: Sequence[Duty] = DUTIES
    _due: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._failures = Failures(self.say)

    def look(self, apps: Sequence[App], now: float) -> None:
        """Do what is due at *now* (monotonic seconds); where a repository is new, after one interval unless at once."""
        for app in apps:
            for duty in self.duties:
                key = (app.repository.id, duty.name)
                if now >= self._due.setdefault(key, now if duty.at_once else now + duty.every):
                    self._due[key] = now + duty.every
                    self._do(app, duty)

    def forget(self, app: App) -> None:
        """Have the server told anew: the repository is served anew."""
        for duty in self.duties:
            duty.forget(app.repository.id)

    def _do(self, app: App, duty: Duty) -> None:
        with self._failures.said(app, duty.name):
            for line in duty.do(app):
                self.say(app, line)
