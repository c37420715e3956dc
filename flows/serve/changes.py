"""What changed on the forge: issues are told to the server's automations, requests are taken up at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from irontree.app import App
from irontree.domain.decide import ISSUES_EVERY
from irontree.errors import Busy, RemoteUnavailable
from irontree.flows.runs.recovery import take_up_all
from irontree.flows.serve.automations import CHANGED
from irontree.services.consistency.drift import drifted_issues
from irontree.services.execution.steps import catch_up
from irontree.services.record import read_world
from irontree.tasks.artifacts import emit

EVERY: Final = ISSUES_EVERY.total_seconds()
"""Seconds between two polls of a repository, and the minimum between two events about it."""


@dataclass
class _Hints:
    """Pages of repositories that webhooks were about. Several clones of one repository each have to look.

    Each hint is an object of its own, since threads give them: none is taken for one that was followed.
    """

    _given: dict[str, object] = field(default_factory=dict)
    _followed: dict[str, object] = field(default_factory=dict)

    def give(self, address: str) -> None:
        """A webhook was about the repository with this page."""
        self._given[_same(address)] = object()

    def open(self, app: App) -> object | None:
        """The newest hint, unless this repository has followed it."""
        newest = self._given.get(_same(app.preferences().tracker or ""))
        return newest if newest is not self._followed.get(app.repository.id) else None

    def follow(self, app: App, hint: object) -> None:
        """That hint and all before it are done with; one that came meanwhile is not."""
        self._followed[app.repository.id] = hint


@dataclass
class ForgeChanges:
    """Emits one event for what has changed in each repository. Hints may come from other threads."""

    tell: Callable[[App, Sequence[int]], None] = field(default_factory=lambda: tell_changed)
    clock: Callable[[], float] = time.monotonic
    _looked: dict[str, float] = field(default_factory=dict)
    _emitted: dict[str, float] = field(default_factory=dict)
    _known: dict[str, frozenset[int]] = field(default_factory=dict)
    _hints: _Hints = field(default_factory=_Hints)

    def hint(self, address: str) -> None:
        """Poll the repository with this page at the next call."""
        self._hints.give(address)

    def __call__(self, app: App) -> Iterator[str]:
        """Poll if due; yield a line for an emitted event."""
        preferences, now, own = app.preferences(), self.clock(), app.repository.id
        hint = self._hints.open(app)
        is_due = hint or now - self._looked.get(own, now - EVERY) >= EVERY
        if not (is_due and preferences.automations.reconcile and now - self._emitted.get(own, now - EVERY) >= EVERY):
            return
        if hint:  # followed even if the forge is down: the next poll is a minute away
            self._hints.follow(app, hint)
        self._looked[own] = now
        if new := self._new(app):
            self._emitted[own] = now
            self.tell(app, new)
            yield f"changed on the forge: {', '.join(f'#{number}' for number in new)}"

    def _new(self, app: App) -> list[int]:
        """Changes since the last poll; none during an outage of the forge, which other work reports."""
        before = self._known.get(app.repository.id, frozenset())
        try:
            self._known[app.repository.id] = drifted_issues(app)
        except RemoteUnavailable:
            return []
        return sorted(self._known[app.repository.id] - before)


AT_ONCE: Final = 5.0
"""The minimum of seconds between two looks at the requests of a repository: CI sends many webhooks."""


@dataclass
class RequestChanges:
    """Takes up what happened to requests as soon as a webhook is about one; what it says is not believed (R15)."""

    go_on: Callable[[App], object] = field(default_factory=lambda: partial(take_up_all, asks_forge=False))
    clock: Callable[[], float] = time.monotonic
    _looked: dict[str, float] = field(default_factory=dict)
    _hints: _Hints = field(default_factory=_Hints)

    def hint(self, address: str) -> None:
        """Look at the requests of the repository with this page at the next call."""
        self._hints.give(address)

    def __call__(self, app: App) -> Iterator[str]:
        """Look if it is due; while another process works there, at the next call. After an error it is still due."""
        hint, now, own = self._hints.open(app), self.clock(), app.repository.id
        if not hint or now - self._looked.get(own, now - AT_ONCE) < AT_ONCE:
            return
        if not any(state.request for state in read_world(app).states.values()):
            self._hints.follow(app, hint)
            return
        try:
            with app.driver.hold("serve, look at requests"):
                self._looked[own] = now
                catch_up(app)
        except Busy:
            return
        self.go_on(app)
        self._hints.follow(app, hint)
        yield "looked at the requests, as a webhook was about one"


def tell_changed(app: App, numbers: Sequence[int]) -> None:
    """Emit the event about these issues."""
    payload = {"issues": list(numbers), "repository": app.repository.root.name}
    emit(CHANGED.removeprefix("irontree."), workspace_id=app.repository.id, payload=payload)


def _same(address: str) -> str:
    return address.rstrip("/").casefold()
