"""The sockets of the private Prefect server, and who has a port that it should have."""

from __future__ import annotations

import errno
import http.client
import socket
from contextlib import ExitStack, suppress

import psutil

from irontree.errors import EnvironmentRefused, ServerUnavailable
from irontree.flows.local.server_state import LOOPBACK, Place

FIRST_PORT = 4280
PORTS = 200
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  (only where somebody asked for it)


def listen(place: Place, last_port: int | None) -> list[socket.socket]:
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


def require_free(place: Place) -> None:
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
