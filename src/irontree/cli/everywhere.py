"""The repositories of this machine, for verbs that look beyond the one that is here."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from irontree.app import App
from irontree.cli.context import Context
from irontree.errors import EnvironmentRefused, IrontreeError, NotARepository, in_words
from irontree.store.registry import Registered, Registry, user_registry

AGAIN_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Found:
    """A registered repository: its ports, or why it cannot be opened."""

    known: Registered
    app: App | None = None
    problem: str = ""


def registered(context: Context, registry: Registry | None = None) -> tuple[Found, ...]:
    """Every registered repository, by path; one that is gone, or is another by now, says so."""
    return tuple(_open(context, known) for known in (registry or user_registry()).all())


@dataclass
class Newcomers:
    """Finds what was registered or removed since the repositories with the ids *known* were chosen; each once."""

    context: Context
    known: set[str]
    registry: Registry = field(default_factory=user_registry)
    now: Callable[[], float] = time.monotonic
    _problems: dict[str, str] = field(default_factory=dict)
    _again_at: dict[str, float] = field(default_factory=dict)

    def __call__(self) -> Iterator[App]:
        """Those that are new now; of one that cannot be opened it is said why, and it is tried again in a while."""
        for known in self._registered() or ():
            if known.id not in self.known and self.now() >= self._again_at.get(known.id, 0):
                found = _open(self.context, known)
                self._tell(found)
                if found.app:
                    self.known.add(known.id)
                    yield found.app

    def _tell(self, found: Found) -> None:
        """Say what keeps it from being opened, once as long as it stays the same."""
        mine = found.known.id
        if found.problem and found.problem != self._problems.get(mine):
            self.context.console.note(f"left out: {found.known.root}: {found.problem}")
        self._problems[mine], self._again_at[mine] = found.problem, self.now() + AGAIN_SECONDS

    def removed(self) -> frozenset[str]:
        """The ids of those that were known and are not registered any more; registered again, they are new."""
        found = self._registered()
        gone = frozenset() if found is None else frozenset(self.known - {known.id for known in found})
        self.known -= gone
        return gone

    def _registered(self) -> tuple[Registered, ...] | None:
        """None where the disk refuses or is away: what is served goes on, and the next look reads it."""
        try:
            return self.registry.listed()
        except EnvironmentRefused:
            return None


def here(context: Context) -> App | None:
    """The repository that we are in; None outside one, or before `init`."""
    try:
        app = context.look()
        app.repository.id  # noqa: B018  (raises before `init`)
    except NotARepository:
        return None
    return app


def everywhere(context: Context) -> tuple[tuple[App, ...], tuple[str, ...]]:
    """The repository here and every registered one; and what kept any of them from being opened, a line each."""
    found = registered(context)
    apps = [one.app for one in found if one.app]
    if (mine := here(context)) and mine.repository.id not in {app.repository.id for app in apps}:
        apps.insert(0, mine)
    return tuple(apps), tuple(f"{one.known.root}: {one.problem}" for one in found if one.problem)


def is_listed(app: App) -> bool:
    """Whether `irontree serve` serves it when it is started anywhere; False where the list cannot be read."""
    with suppress(EnvironmentRefused):
        return any(known.id == app.repository.id for known in user_registry().all())
    return False


def each(context: Context, folders: Iterable[str]) -> Iterator[App]:
    """The repositories in *folders*, opened on behalf of who types; raises what opening one raises."""
    for folder in folders:
        yield context.at(context.folder / Path(folder)).open()


def _open(context: Context, known: Registered) -> Found:
    try:
        app = context.at(known.root).open()
        app.preferences()  # a configuration that cannot be read keeps no other repository from being served
    except NotARepository as error:
        forget = f"irontree repos remove {shlex.quote(str(known.root))}"
        return Found(known, problem=f"{error.message}. If it is gone for good: {forget}")
    except IrontreeError as error:
        return Found(known, problem=in_words(error))
    if app.repository.id != known.id:
        return Found(known, problem=f"it is another repository now ({app.repository.id})")
    return Found(known, app)
