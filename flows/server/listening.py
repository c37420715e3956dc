"""The sockets of the private server, and which program occupies its port."""

from __future__ import annotations

import errno
import http.client
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

from irontree.errors import EnvironmentRefused, ServerUnavailable
from irontree.flows.server.connection import LOOPBACK, ListenAddress, published

FIRST_PORT = 4280
PORTS = 200
LOOPBACK_6 = "::1"
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  (only if the operator asked for it)


def listen(place: ListenAddress, last_port: int | None) -> list[socket.socket]:
    """Sockets that listen at *place*, and always on loopback, where our own programs connect.

    Without a given port: that of the last server if free, so that its clients find this one, else the first free
    one. Raises ServerUnavailable.
    """
    if place.port is None:
        return _first_free(last_port)
    host = place.host or LOOPBACK
    hosts = [host] if host in EVERYWHERE else list(dict.fromkeys([LOOPBACK, host]))
    return _all_of([*hosts, *([] if EVERYWHERE[1] in hosts else [LOOPBACK_6])], place.port, _bound)


def _all_of(hosts: Sequence[str], port: int, open_one: Callable[[str, int], socket.socket]) -> list[socket.socket]:
    """A socket at each of *hosts*.

    IPv6 loopback is one of them: browsers try it first, so another program there would be sent our cookies.
    """
    with ExitStack() as opened:
        usable = [host for host in hosts if host != LOOPBACK_6 or _has_ipv6()]
        listeners = [opened.enter_context(open_one(host, port)) for host in usable]
        opened.pop_all()
        return listeners


def _has_ipv6() -> bool:
    try:
        _try(LOOPBACK_6, 0).close()
    except OSError:
        return False
    return True


def require_free(place: ListenAddress) -> None:
    """Raise ServerUnavailable, naming the program that has it, if the port of *place* is taken."""
    if place.port is not None:
        for listener in listen(place, None):
            listener.close()


def _bound(host: str, port: int) -> socket.socket:
    try:
        return _try(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            why = str(error.strerror or error).partition(" (while")[0]
            raise EnvironmentRefused(
                f"Prefect cannot listen at port {port} of {host}: {why}.",
                remedy="give an address of this machine (--host), and a port above 1023 (--port)",
            ) from error
        remedy = "End it, or choose another port with --port."
        if is_prefect(port):
            remedy = f"Use that server: PREFECT_API_URL=http://{LOOPBACK}:{port}/api irontree serve --attach"
        raise ServerUnavailable(f"Port {port} of {host} is taken, by {who_has(port)}.", remedy=remedy) from error


def _first_free(last_port: int | None) -> list[socket.socket]:
    for port in [*([last_port] if last_port else []), *range(FIRST_PORT, FIRST_PORT + PORTS)]:
        with suppress(OSError):
            return _all_of([LOOPBACK, LOOPBACK_6], port, _try)
    raise ServerUnavailable(
        f"Ports {FIRST_PORT} to {FIRST_PORT + PORTS - 1} of 127.0.0.1 are all taken by other programs.",
        remedy="End one of them, or use a server of your own: set PREFECT_API_URL.",
    )


def serves_one_user(environ: Mapping[str, str]) -> bool:
    """Whether the server of *environ* is a private one that nobody but its user can reach."""
    found = published(Path(environ["PREFECT_HOME"])) if "PREFECT_HOME" in environ else None
    if found is None or found.api_url != environ.get("PREFECT_API_URL"):
        return False
    return found.host == LOOPBACK and not found.names and not found.open


def _try(host: str, port: int) -> socket.socket:
    family, dual = (socket.AF_INET6, socket.has_dualstack_ipv6()) if ":" in host else (socket.AF_INET, False)
    return socket.create_server((host, port), family=family, dualstack_ipv6=dual)


def who_has(port: int) -> str:
    """The program that listens on that port, as far as the system reveals it."""
    what = "a Prefect server" if is_prefect(port) else "another program"
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
                return f"{what}: {psutil.Process(connection.pid).name()} (process {connection.pid})"
    return what


def is_prefect(port: int) -> bool:
    """Whether Prefect's health check succeeds on that port of 127.0.0.1, bypassing proxies."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
