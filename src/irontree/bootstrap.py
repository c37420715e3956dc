"""The composition root: from a folder and its configuration to an `App`, the frozen set of ports."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from irontree.app import App, NoProgress, Origin, SystemClock
from irontree.domain.child import Child
from irontree.domain.text import few, secret_values, shell_path
from irontree.errors import EnvironmentRefused, LogDamaged, NotARepository
from irontree.files import close_folder
from irontree.ports import Cancellation, Progress, Renderer, WorkflowRuns
from irontree.processes.children import ChildProcesses
from irontree.processes.places import Places
from irontree.repository import GitRepository, open_repository
from irontree.repository.checkout import committed_state
from irontree.store.agent_requests import FileAgentRequests
from irontree.store.documents import FileDeliveries, FilePlanStore, FileProjections, FileResultStore, FileUpkeep
from irontree.store.event_log import FileEventLog, FileLoopLog
from irontree.store.layout import Layout, create, require_own_folder
from irontree.store.lockfiles import LoopLease, RunLockFile
from irontree.store.locks import DriverLock, FileLock
from irontree.store.replays import CachedReplays
from irontree.store.streams import ISSUE_FORM

if TYPE_CHECKING:
    from irontree.adapters import Adapters


def open_app(
    start: Path,
    *,
    origin: Origin,
    cancel: Cancellation | None = None,
    progress: Progress | None = None,
    environment: Mapping[str, str] = os.environ,
) -> App:
    """The ports of the repository that *start* is in.

    Raises NotARepository outside one or before `irontree init`, ConfigRefused for a wrong configuration,
    EnvironmentRefused away from the repository's home (R21), LogDamaged when its log was deleted.
    """
    clock, host, environment = SystemClock(), socket.gethostname(), dict(environment)  # os.environ decodes each time
    registry, progress = _ChildRegistry(), progress or NoProgress()
    children, places = ChildProcesses(registry, environment=environment), Places(environment)
    repository = open_repository(start, children, *_folders(), environment, progress.note)
    layout = Layout(repository.root)
    _close_folders(layout)
    _require_home(repository, layout, host)
    equipment = _Equipping(repository, layout, children, environment, places)
    run_lock = registry.file = RunLockFile(
        layout.run_lock, clock, host, lambda: timedelta(hours=equipment().config.run.lock_stale_hours)
    )
    log = FileEventLog(ISSUE_FORM, repository.root, clock)
    return App(
        repository=repository,
        log=log,
        replays=CachedReplays(log, layout.events, layout.cache, clock),
        loops=FileLoopLog(repository.root, clock),
        plans=FilePlanStore(repository.root),
        results=results_of(repository),
        agent_requests=agent_requests_of(repository),
        projections=FileProjections(repository.root),
        deliveries=FileDeliveries(repository.root),
        upkeep=FileUpkeep(repository.root),
        driver=DriverLock(FileLock(layout.driver_lock, clock, host), children, lambda: _driven(repository)),
        lease=LoopLease(layout, clock, host, lambda: timedelta(hours=equipment().config.loop.lease_stale_hours)),
        alive=lambda run_id: FileLock(layout.alive(run_id), clock, host),
        run_lock=run_lock,
        children=children,
        forge=lambda: equipment().forge,
        agent=lambda spec: equipment().agent(spec),
        checks=lambda: equipment().checks,
        clock=clock,
        renderer=_LazyRenderer(environment),
        policy=lambda approved: equipment().policy(approved),
        allow=lambda rules: equipment().allow(rules),
        preferences=lambda: equipment().preferences,
        origin=origin,
        places=places,
        workflow_runs=lambda: _workflow_runs(repository.root),
        progress=progress,
        cancel=cancel or threading.Event(),
    )


def _workflow_runs(root: Path) -> WorkflowRuns:
    from irontree.store.hotl_runs import HotlRuns  # noqa: PLC0415  (few commands show a run)

    return HotlRuns(root)


def _close_folders(layout: Layout) -> None:
    """Let no other user into what is ours; an earlier version made it by the umask."""
    for place in (layout.state, platformdirs.user_cache_path("irontree"), platformdirs.user_state_path("irontree")):
        close_folder(place)


def results_of(repository: GitRepository) -> FileResultStore:
    """The results of checks, sealed with a key in the user's state folder."""
    return FileResultStore(repository.root, _key_of(repository))


def agent_requests_of(repository: GitRepository) -> FileAgentRequests:
    """What members of the team are asked, sealed with the same key."""
    return FileAgentRequests(repository.root, _key_of(repository))


def _key_of(repository: GitRepository) -> Path:
    return repository.state_folder / "results.key"


@contextmanager
def _driven(repository: GitRepository) -> Iterator[None]:
    """What every driver needs before it starts a program of an agent."""
    _require_own_state(repository)
    results_of(repository).begin_sealing()
    with repository.driven():
        yield


def set_up(start: Path, environment: Mapping[str, str] = os.environ) -> GitRepository:
    """Give the repository that *start* is in its `.mino/` and its identity, and make this place its home (R21).

    Idempotent. Raises NotARepository, EnvironmentRefused.
    """
    repository = open_set_aside(start, environment)
    create(repository.root)
    repository.adopt_home(socket.gethostname())
    return repository


def open_set_aside(start: Path, environment: Mapping[str, str] = os.environ) -> GitRepository:
    """The repository that *start* is in, whether it has a home here or not. Raises NotARepository."""
    return open_repository(start, ChildProcesses(_ChildRegistry()), *_folders(), environment)


def _folders() -> tuple[Path, Path]:
    """The user's folders for what can be made again, and for what is believed."""
    return platformdirs.user_cache_path(), platformdirs.user_state_path()


def _require_home(repository: GitRepository, layout: Layout, host: str) -> None:
    """Refuse a repository without state, away from its home (R21), or whose log was deleted (R13)."""
    require_settled(repository)
    require_own_folder(layout)
    _require_own_state(repository)
    require_log(repository, layout)
    if not layout.state.is_dir() or repository.home is None:
        raise NotARepository(f"{repository.root} is not set up for irontree", remedy="irontree init")
    if repository.home != f"{host}:{repository.root}":
        raise EnvironmentRefused(
            f"the home of this repository is {repository.home}, but this is {host}:{repository.root}",
            remedy="work there; if it has moved here for good, `irontree init` makes this its home",
        )


def require_settled(repository: GitRepository) -> None:
    """Raise EnvironmentRefused if `export` gave the home up, or an import has not finished (R21)."""
    if repository.importing:
        raise EnvironmentRefused(
            f"the import of {repository.importing} into {repository.root} has not ended",
            remedy=f"type it again: irontree move import {shell_path(repository.importing)}",
        )
    if repository.moved_to:
        raise EnvironmentRefused(
            f"{repository.root} was given up as the home of its log: it was exported to {repository.moved_to}",
            remedy="work where that was imported; only if it never was and never will be, take it back: "
            f"irontree move import {shell_path(repository.moved_to)}",
        )


def _require_own_state(repository: GitRepository) -> None:
    """Raise EnvironmentRefused for a log, approvals or answers that came with a commit: nobody gave them here (R6)."""
    if found := committed_state(repository.git):
        raise EnvironmentRefused(
            f"{few(found)}: in a commit of this repository, so that whoever can push writes what happened here",
            remedy="find out who committed it, then remove it: `git rm -r PATH`, commit, push; restore your own with "
            "`irontree init --from-backup`. If you committed your own: `git rm -r --cached PATH`",
        )


def require_log(repository: GitRepository, layout: Layout) -> None:
    """Raise LogDamaged if there were events here and the folder is gone: this must not pass for a first run (R13)."""
    if repository.has_history() and not layout.events.is_dir():
        raise LogDamaged(
            f"{layout.events} was deleted; without it nothing is known of the issues here",
            remedy="restore it from the backup in git: irontree init --from-backup",
        )


class _Equipping:
    """Adapters by the configuration, remade when it changes, because a server may run for months."""

    def __init__(
        self,
        repository: GitRepository,
        layout: Layout,
        children: ChildProcesses,
        environment: Mapping[str, str],
        places: Places,
    ) -> None:
        self._given = repository, layout, children, environment, places
        self._config = layout.config
        self._made: Adapters | None = None

    def __call__(self) -> Adapters:
        """The adapters for the current configuration. Raises ConfigRefused."""
        from irontree.adapters import Adapters  # noqa: PLC0415  (with the configuration; read-only commands do without)
        from irontree.config_file import load_config  # noqa: PLC0415  (as above)

        config = load_config(self._config)
        made = self._made
        if made is None or made.config != config:
            self._made = made = Adapters(config, *self._given)
        return made


class _LazyRenderer:
    """Imports the template engine on first use: most commands render nothing."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def render(self, template: str, **values: object) -> str:
        """Render with the real engine."""
        return _renderer(secret_values(self._environment)).render(template, **values)


@cache
def _renderer(secrets: frozenset[str]) -> Renderer:
    from irontree.rendering import JinjaRenderer  # noqa: PLC0415  (see _LazyRenderer)

    return JinjaRenderer(secrets)


class _ChildRegistry:
    """Records children in the run lock, whose place is known only once the repository is."""

    file: RunLockFile | None = None

    def record(self, child: Child) -> None:
        """Note the child; when this returns, another process can read it."""
        if self.file:
            self.file.record(child)

    def forget(self, pid: int) -> None:
        """Drop the child."""
        if self.file:
            self.file.forget(pid)

    def recorded(self) -> tuple[Child, ...]:
        """The children noted and not dropped."""
        return self.file.recorded() if self.file else ()
