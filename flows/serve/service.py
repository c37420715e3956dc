"""The service behind `irontree serve`: workers that run the flows of many repositories.

Importing this module imports Prefect: adopt the settings first (`irontree.flows.server.connection.adopt`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from irontree.app import App
from irontree.blocks.repository import keep_block
from irontree.errors import Busy, IrontreeError, ServerUnavailable, in_words
from irontree.flows.runs.runs import connect
from irontree.flows.serve.automations import Configured
from irontree.flows.serve.chores import CHORES, Chore, ChoreRunner, Failures, Say, Watches, go_on
from irontree.flows.serve.holding import at_rest, held, mark_dead
from irontree.flows.serve.serving import LIMIT, Served, Serving, close_queue, deployments_of, drop_schedules, open_queue
from irontree.flows.serve.session import is_private, settle

# --- The service behind `irontree serve`


JOIN_EVERY: Final = 5.0
REVIVE_EVERY: Final = 5.0
CONFIGURE_EVERY: Final = 5.0


class Service:
    """Serves those of *apps* that no terminal serves, and takes over the others when their terminal ends.

    A worker that dies is replaced, and its runs are resumed. A repository that cannot be served, such as one whose
    folder is gone, does not affect the others. Use it in a `with`: its end kills the flows.
    """

    def __init__(
        self,
        apps: Sequence[App],
        *,
        environment: Mapping[str, str],
        folder: Path,
        say: Say,
        chores: Sequence[Chore] = CHORES,
        start_worker: Callable[..., Serving] = Serving,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._elsewhere = list(apps)
        self._without: list[App] = []
        self._working: list[tuple[App, Serving]] = []
        """Each repository that is served, with the worker that takes its runs."""
        self._environment = environment
        self._folder = folder
        self._private = is_private(environment, folder)
        self._say = say
        self._start_worker = start_worker
        self._now = now
        self._failures = Failures(say)
        configured = Configured()
        follow = Chore("configuration", CONFIGURE_EVERY, configured, at_once=True, forget=configured.forget)
        self._chores = ChoreRunner(say, (follow, *chores))
        self._held = ExitStack()
        self._holds: dict[str, ExitStack] = {}
        self._leaving: set[str] = set()
        self._closed: set[str] = set()
        self._watches = Watches(say)
        self._join_at = self._revive_at = 0.0

    def start(self) -> None:
        """Serve the repositories that no other process serves; raises ServerUnavailable."""
        for app in tuple(self._elsewhere):
            self._join(app, passing=(ServerUnavailable,))
        self._start_workers()

    def add(self, app: App) -> None:
        """Serve *app* too, from one of the next calls of `look`; cancels a pending `let_go`."""
        self._leaving.discard(app.repository.id)
        if app.repository.id not in {mine.repository.id for mine in (*self._elsewhere, *self._without, *self.served)}:
            self._elsewhere.append(app)

    def let_go(self, repository_id: str) -> None:
        """Stop serving it at the first call of `look` at which nothing is running there."""
        self._leaving.add(repository_id)
        self._elsewhere = [app for app in self._elsewhere if app.repository.id != repository_id]

    def look(self) -> tuple[str, ...]:
        """Do all periodic work once; to be called often. Returns the ids of repositories no longer served."""
        now = self._now()
        self._mark_crashed()
        gone = tuple(self._let_go())
        if now >= self._join_at:
            for app in tuple(self._elsewhere):
                self._join(app)
            self._watches.look()
            self._join_at = now + JOIN_EVERY
        if self._without and now >= self._revive_at:
            self._restart()
            self._revive_at = now + REVIVE_EVERY
        self._chores.look(self.served, now)
        return gone

    @property
    def served(self) -> tuple[App, ...]:
        """The repositories whose flows this process serves now."""
        return tuple(app for app, _ in self._working)

    @property
    def elsewhere(self) -> tuple[App, ...]:
        """The repositories that another process serves at present."""
        return tuple(self._elsewhere)

    def finish(self) -> None:
        """Ask the flows to stop after their current step."""
        self._watches.stop()
        for _, worker in self._working:
            worker.finish()

    def poll_now(self) -> None:
        """Poll the comments of all repositories now."""
        self._watches.poll_now()

    def at_rest(self) -> bool:
        """Whether no process works on a run of what we serve."""
        return all(at_rest(app) for app in self.served)

    def stop(self) -> None:
        """End all flow processes now and settle by evidence what they left; failures are left to the next start."""
        for _, worker in self._working:
            worker.stop()
        for app in self.served:
            try:
                settle(app)
            except IrontreeError as error:
                self._say(app, in_words(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._held, self._watches:
            pass  # comment watches end first, then workers, then the locks are released

    def _join(self, app: App, *, passing: tuple[type[IrontreeError], ...] = ()) -> None:
        """Start serving it if its terminal has ended; reraises errors in *passing*."""
        hold = ExitStack()
        with self._failures.said(app, "join", passing=passing), suppress(Busy):
            hold.enter_context(held(app, "irontree serve", private=self._private))
            self._holds[app.repository.id] = self._held.enter_context(hold)
            self._watches.add(app)
            self._elsewhere.remove(app)
            self._without.append(app)

    def _start_workers(self) -> None:
        """Start a worker for our repositories that lack one and can be served; raises ServerUnavailable."""
        found = [(app, self._deployments(app)) for app in self._without]
        apps = tuple(app for app, deployments in found if deployments)
        if not apps:
            return
        deployments = [served for _, those in found for served in those]
        worker = self._start_worker(deployments, environment=self._environment, folder=self._folder, by="worker")
        self._held.callback(worker.stop)
        worker.wait_ready()
        self._working += [(app, worker) for app in apps]
        self._closed -= {app.repository.id for app in apps}  # the worker opened them
        self._without = [app for app in self._without if app not in apps]
        for app in apps:
            self._say(app, f"served: {app.repository.root}, queue {app.repository.id}")
            self._on_join(app)

    def _deployments(self, app: App) -> tuple[Served, ...]:
        """The deployments of *app*; none if it is to be let go, or cannot be served, which is reported."""
        if app.repository.id not in self._leaving:
            with self._failures.said(app, "deployments"):
                return deployments_of(app)
        return ()

    def _let_go(self) -> Iterator[str]:
        """Let go of repositories as requested, once nothing runs there; failures are retried at the next look."""
        ours = (*self.served, *self._without)
        for app in [app for app in ours if app.repository.id in self._leaving | self._closed]:
            with self._failures.said(app, "let go"):
                if self._may_leave(app):
                    self._on_leave(app)
            if app.repository.id not in self._holds:
                yield app.repository.id

    def _may_leave(self, app: App) -> bool:
        """Whether nothing ran there at two looks, the queue being closed since the first; raises ServerUnavailable.

        A run that the worker was just taking shows at the second look; its queue is reopened then.
        """
        mine = app.repository.id
        goes = mine in self._leaving and at_rest(app)
        if goes and mine in self._closed:
            return True
        with connect() as client:
            if goes:
                close_queue(client, mine, str(app.repository.root))
                self._closed.add(mine)
            elif mine in self._closed:
                open_queue(client, mine, str(app.repository.root), LIMIT)
                self._closed.remove(mine)
        return False

    def _on_leave(self, app: App) -> None:
        """Release its lock and prevent runs from starting there; after ServerUnavailable it is still served."""
        with connect() as client:
            drop_schedules(client, app.repository.id)
        self._dismiss(app)
        self._watches.remove(app)
        self._leaving.remove(app.repository.id)
        self._closed.remove(app.repository.id)
        self._holds.pop(app.repository.id).close()
        self._say(app, f"not served any more: {app.repository.root}")

    def _dismiss(self, app: App) -> None:
        """Take it from its worker, which ends unless it has other repositories."""
        self._without = [other for other in self._without if other is not app]
        mine = [worker for other, worker in self._working if other is app]
        self._working = [(other, worker) for other, worker in self._working if other is not app]
        for worker in mine:
            if all(worker is not other for _, other in self._working):
                worker.stop()

    def _mark_crashed(self) -> None:
        """Mark the runs of a dead worker as crashed; the worker is replaced at the next look."""
        dead = [(app, worker) for app, worker in self._working if not worker.alive()]
        for app, worker in dead:
            self._working.remove((app, worker))
            worker.stop()
            self._without.append(app)
            self._say(app, f"the worker died; starting another. It {worker.how_it_ended()}.")

    def _restart(self) -> None:
        """Start workers for repositories that lack one; failures are retried after a while."""
        for app in self._without:
            with self._failures.said(app, "dead runs"):
                mark_dead(app, private=self._private)
        try:
            self._start_workers()
        except ServerUnavailable as error:
            for app in self._without:
                self._failures.say_once(app, "worker", error)

    def _on_join(self, app: App) -> None:
        """Show it in the UI and resume its work; a failure in one part does not prevent the rest."""
        self._chores.forget(app)
        for do in (_show, go_on):
            try:
                for line in do(app):
                    self._say(app, line)
            except IrontreeError as error:
                self._say(app, in_words(error))


def _show(app: App) -> tuple[str, ...]:
    """Register its block on the server."""
    with connect():
        keep_block(app.repository.id, app.repository.root)
    return ()
