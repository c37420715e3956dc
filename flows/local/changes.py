"""Tells the server's automations when others changed issues on the forge: `irontree.forge_changed`.

Who serves looks once a minute, and at once where a webhook says that there is something to see; nothing that a
webhook says is believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from irontree.app import App
from irontree.errors import RemoteUnavailable
from irontree.flows.lifecycle.automations import CHANGED
from irontree.services.consistency.disagreement import disagreeing
from irontree.tasks.mirror import emit

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
            self._known[app.repository.id] = disagreeing(app)
        except RemoteUnavailable:
            return []
        return sorted(self._known[app.repository.id] - before)


def tell_changed(app: App, numbers: Sequence[int]) -> None:
    """Emit the event about these issues."""
    payload = {"issues": list(numbers), "repository": app.repository.root.name}
    emit(CHANGED.removeprefix("irontree."), workspace_id=app.repository.id, payload=payload)


def _same(address: str) -> str:
    return address.rstrip("/").casefold()
