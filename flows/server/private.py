"""Starts, finds and keeps the private Prefect server, and the other processes of ours that outlive a function call.

This module does not import Prefect: the server starts while the command line shows the plan.
"""

from __future__ import annotations

import errno
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import requires, version
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from irontree.errors import EnvironmentRefused, ServerUnavailable
from irontree.flows.server.connection import LOOPBACK, Address, ListenAddress, ServerState, password, strip

LOG_LIMIT = 1_000_000
"""Bytes."""
TURN_OVER_EVERY = 60.0
"""Seconds."""
TAIL = 20


def start(
    module: str,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    home: Path,
    log: Path,
    talk: bool = False,
) -> subprocess.Popen[bytes]:
    """Run `python -m module` in a session of its own, with *home* as its working folder and its output in *log*.

    A Ctrl-C in our terminal does not reach it, and its process group is its pid. With *talk* its stdin and stdout
    are pipes to us; stdin then also tells it, by its end, that we are gone.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    turn_over_if_long(log)
    pipe = subprocess.PIPE if talk else None
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],  # -P: nothing is imported from the working folder
            env=environment,
            cwd=home,
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe or output,
            stderr=output,
            start_new_session=True,
        )


def reap(program: subprocess.Popen[bytes]) -> None:
    """Let *program* outlive this process, and take note of its end if it comes earlier."""
    threading.Thread(target=program.wait, daemon=True).start()


def tail(log: Path, *, start: int = 0) -> str:
    """The last lines of *log* behind byte *start*, wherever where it was begun anew; empty if there is none."""
    if not log.exists():
        return ""
    written = log.read_bytes()
    lines = written[start if start <= len(written) else 0 :].decode(errors="replace").splitlines()
    return "\n".join(lines[-TAIL:])


def size(log: Path) -> int:
    """The length of *log* in bytes; 0 if there is none."""
    return log.stat().st_size if log.exists() else 0


def keep_short(log: Path) -> None:
    """Turn *log* over whenever it has become long, from a thread of its own; for the process that writes it."""

    def watch() -> None:
        while True:
            time.sleep(TURN_OVER_EVERY)
            turn_over_if_long(log)

    threading.Thread(target=watch, name="log", daemon=True).start()


def turn_over_if_long(log: Path) -> None:
    """Begin *log* anew if it is long; what it had is `.old.log` then.

    It stays the same file: whoever has it open to append to it, as our programs do, goes on at its new beginning.
    """
    if size(log) > LOG_LIMIT:
        with suppress(OSError):  # a full disk has no room for the copy
            shutil.copyfile(log, log.with_suffix(".old.log"))
        with suppress(OSError):
            os.truncate(log, 0)


# --- Ends processes whose parent is gone


RUNNER = "IRONTREE__RUNNER"
"""The pid of our own process that serves the deployment; unset under another worker: its runs may outlive it."""
FINISH = "IRONTREE__FINISH"
"""A path that exists once the person asked to stop after the present step."""
LOOK_FOR_PARENT_EVERY = 0.2


def end_with_runner(environ: Mapping[str, str] = os.environ) -> None:
    """Kill this flow process when the runner that started it is gone; the first line of every flow.

    Otherwise it would go on beside the one that takes its work up again. The kernel's own way (PDEATHSIG) exists
    on Linux alone, and a check of the parent's pid has no thread whose end it could mistake for the parent's.
    """
    if runner := environ.get(RUNNER):
        end_with(int(runner), lambda: os.kill(os.getpid(), signal.SIGKILL))


def end_with(parent: int, end: Callable[[], None]) -> None:
    """Call *end* in a thread of its own once *parent* is no longer the parent of this process."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_FOR_PARENT_EVERY)
        end()

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def finish_asked(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to stop after the present step (first Ctrl-C); asked between steps."""
    return FINISH in environ and Path(environ[FINISH]).exists()


# --- The sockets of the private Prefect server, and who has a port that it should have


FIRST_PORT = 4280
PORTS = 200
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  (only where somebody asked for it)


def listen(place: ListenAddress, last_port: int | None) -> list[socket.socket]:
    """Sockets that listen at *place*, and on loopback in any case: that is where our own programs look.

    Where no port is given: that of the last server if it is free, so that its clients find this one; else the first
    free one. Raises ServerUnavailable.
    """
    if place.port is None:
        return [_first_free(last_port)]
    host = place.host or LOOPBACK
    hosts = [host] if host in (LOOPBACK, *EVERYWHERE) else [LOOPBACK, host]
    with ExitStack() as opened:
        listeners = [opened.enter_context(_bound(host, place.port)) for host in hosts]
        opened.pop_all()
        return listeners


def require_free(place: ListenAddress) -> None:
    """Raise ServerUnavailable, naming who has it, if the port of *place* cannot be had."""
    if place.port is not None:
        for listener in listen(place, None):
            listener.close()


def _bound(host: str, port: int) -> socket.socket:
    try:
        return _try(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise EnvironmentRefused(
                f"Prefect cannot listen at port {port} of {host}: {error.strerror or error}.",
                remedy="give an address of this machine (--host), and a port above 1023 (--port)",
            ) from error
        raise ServerUnavailable(
            f"Port {port} of {host} is taken, by {who_has(port)}.", remedy=_how_to_share(port)
        ) from error


def _how_to_share(port: int) -> str:
    if is_prefect(port):
        return f"Use that server: PREFECT_API_URL=http://{LOOPBACK}:{port}/api irontree serve --attach"
    return "End it, or choose another port with --port."


def _first_free(last_port: int | None) -> socket.socket:
    for port in [*([last_port] if last_port else []), *range(FIRST_PORT, FIRST_PORT + PORTS)]:
        with suppress(OSError):
            return _try(LOOPBACK, port)
    raise ServerUnavailable(
        f"Ports {FIRST_PORT} to {FIRST_PORT + PORTS - 1} of 127.0.0.1 are all taken by other programs.",
        remedy="End one of them, or use a server of your own: set PREFECT_API_URL.",
    )


def _try(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def who_has(port: int) -> str:
    """The program that listens at that port, as far as the system tells us."""
    what = "a Prefect server" if is_prefect(port) else "another program"
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
                return f"{what}: {psutil.Process(connection.pid).name()} (process {connection.pid})"
    return what


def is_prefect(port: int) -> bool:
    """Whether Prefect's health check on that port of 127.0.0.1 says yes; proxies play no part."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


# --- Starts, finds and keeps the private Prefect server: one per user and version, on loopback (rulings, Local mode


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
