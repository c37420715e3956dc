"""Our own processes beside this one: how they are started, end with their parent, and get their sockets."""

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
from pathlib import Path

import psutil

from irontree.errors import EnvironmentRefused, ServerUnavailable
from irontree.flows.server.state import LOOPBACK, ListenAddress

# --- Starts our own Python programs beside this process


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
