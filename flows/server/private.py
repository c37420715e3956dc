"""Starts, finds and keeps the private Prefect server: one per user and version, on loopback (rulings, Local mode).

This module does not import Prefect: the server starts while the command line shows the plan.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import requires, version
from pathlib import Path
from types import TracebackType
from typing import Self

from irontree.errors import ServerUnavailable
from irontree.flows.server.background import is_prefect, reap, size, start, tail
from irontree.flows.server.settings import password, strip
from irontree.flows.server.state import LOOPBACK, Address, ListenAddress, ServerState

LINGER = 60.0
LOOK_EVERY = 0.05
KEEP_EVERY = 0.2
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until one that could not start is started again; twice as long each time."""
LEAVING = 5.0
ANYWHERE = ListenAddress()


class LocalServer:
    """A client's hold on the private server in *home*: it lives until *linger* seconds after its last client.

    It is at any free port, or at *place*: one that is elsewhere and that nobody uses is ended for that.

    Everything in *home* is disposable. A server that is killed is started again, on the same port: processes that
    know its address go on, because Prefect's client tries again for a minute. One that cannot start is started again
    after a while, first *pause* seconds. Raises ServerUnavailable if *home* cannot be made.
    """

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        *,
        linger: float = LINGER,
        place: ListenAddress = ANYWHERE,
        pause: float = FIRST_PAUSE,
        start: Callable[..., subprocess.Popen[bytes]] = start,
    ) -> None:
        self._state = _state_in(home)
        self._environment = strip(environ) | password(environ)
        self._place = place
        self._linger = linger
        self._first_pause = self._pause = pause
        self._again_at = 0.0
        self._start_program = start
        self._log_start = size(self._state.log)
        self._program: subprocess.Popen[bytes] | None = None
        self._failure: str | None = None
        self._left = threading.Event()
        self._has_room = threading.Event()
        self._keeper: threading.Thread | None = None

    def start(self) -> Self:
        """Join the server's clients and start it if there is none, in the background; returns at once."""
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, name="local-server", daemon=True)
            self._keeper.start()
        return self

    def wait_ready(self, timeout: float = 60) -> str:
        """Wait until the server answers and return its API address.

        Raises ServerUnavailable after *timeout* seconds, or when the server dies at its start.
        """
        self.start()
        deadline = time.monotonic() + timeout
        while not (address := self._answering()):
            if trouble := self.trouble():
                raise trouble
            if time.monotonic() > deadline:
                raise self._unavailable(f"The private Prefect server did not answer within {timeout:.0f} s")
            time.sleep(LOOK_EVERY)
        if not self._place.is_at(address):
            raise ServerUnavailable(
                f"The private Prefect server is at port {address.port} of {address.host}, where other commands use it.",
                remedy=f"End them, or use it where it is: --host {address.host} --port {address.port}.",
            )
        return address.api_url

    def trouble(self) -> ServerUnavailable | None:
        """Why there is no server, with its last words, from the moment that one could not start until one answers."""
        return self._unavailable(f"The private Prefect server {self._failure}") if self._failure else None

    def close(self) -> None:
        """Leave the server to its other clients; the last one's leaving ends it after a while."""
        self._left.set()
        if self._keeper:
            self._keeper.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _keep(self) -> None:
        try:
            self._make_room()
            self._has_room.set()
            membership = self._state.join()
            try:
                self._see_to_it()
                while not self._left.wait(KEEP_EVERY):
                    self._see_to_it()
            finally:
                os.close(membership)
        except OSError as error:
            self._failure = f"cannot be started: {error}"

    def _make_room(self) -> None:
        """End a server that is elsewhere, once nobody uses it; its last client may be leaving just now."""
        deadline = time.monotonic() + LEAVING
        while (address := self._state.address()) and not self._place.is_at(address):
            if not self._state.in_use():
                self._end(address)
                return
            if time.monotonic() > deadline or self._left.wait(KEEP_EVERY):
                return

    def _end(self, server: Address) -> None:
        os.kill(server.pid, signal.SIGTERM)
        while self._state.lives() and not self._left.wait(KEEP_EVERY):
            pass

    def _see_to_it(self) -> None:
        """Have a server, or try again later: what fills the disk or hides a file may pass."""
        try:
            self._have_a_server()
        except OSError as error:
            self._fail(f"cannot be started: {error}")

    def _have_a_server(self) -> None:
        """Exit code 0 says that another process was the server, a negative one that ours was killed."""
        if self._state.lives():
            if self._state.address():
                self._failure, self._pause = None, self._first_pause
            return
        code = self._program.poll() if self._program else 0
        if code is not None and code > 0:
            self._program = None
            self._fail("died")
        elif code is not None and time.monotonic() >= self._again_at:
            self._launch()

    def _fail(self, why: str) -> None:
        self._failure = why
        self._again_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _launch(self) -> None:
        self._program = self._start_program(
            "irontree.flows.server.process",
            ["--serve", "--home", str(self._state.home), "--linger", str(self._linger), *self._where()],
            environment=self._environment,
            home=self._state.home,
            log=self._state.log,
        )
        reap(self._program)

    def _where(self) -> list[str]:
        host, port = self._place.host or LOOPBACK, self._place.port
        return ["--host", host, "--port", str(port)] if port else []

    def _answering(self) -> Address | None:
        address = self._state.address() if self._has_room.is_set() else None
        return address if address and is_prefect(address.port) else None

    def _unavailable(self, what: str) -> ServerUnavailable:
        output = tail(self._state.log, start=self._log_start)
        return ServerUnavailable(f"{what}:\n{output}", remedy=_remedy(output, self._state))


def _state_in(home: Path) -> ServerState:
    try:
        return ServerState(home)
    except OSError as error:
        raise ServerUnavailable(
            f"The private Prefect server has no state folder: {error}.",
            remedy="Let it be made, or choose another place with XDG_STATE_HOME.",
        ) from error


def _remedy(output: str, state: ServerState) -> str:
    if "TypeError" in output and "fastapi" in output:
        needed = next(line for line in requires("irontree") or () if line.startswith("fastapi"))
        return f"fastapi {version('fastapi')} does not fit Prefect {version('prefect')}: pip install '{needed}'."
    return f"The whole output is in {state.log}."
