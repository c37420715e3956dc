"""A small webhook receiver: signed deliveries trigger an early poll of the forge; their content is not trusted."""

from __future__ import annotations

import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from irontree.domain.external import SIGNATURE, changed_repository, is_signed, request_repository
from irontree.errors import ServerUnavailable
from irontree.flows.server.connection import LOOPBACK

MOST_BYTES: Final = 4 * 1024 * 1024
"""Three texts of 65,536 characters, escaped, have 2.4 MB: an issue, a comment, what that was before an edit."""
MOST_CONNECTIONS: Final = 16
SECONDS: Final = 10.0
"""A whole delivery takes no longer."""
_LENGTH: Final = re.compile(r"[0-9]{1,12}")


@contextmanager
def receiving(
    port: int,
    secret: str,
    poll_now: Callable[[], None],
    changed: Callable[[str], None],
    requested: Callable[[str], None],
    *,
    most_connections: int = MOST_CONNECTIONS,
    seconds: float = SECONDS,
) -> Iterator[str]:
    """Listen on loopback, behind a proxy or tunnel, for the block; yields the URL that the forge's webhook must reach.

    Call *poll_now* for each delivery, and with the repository's page *changed* if an issue was changed, *requested* if
    a pull request, its reviews or its checks were. Strangers can connect: more than *most_connections* at once are
    closed unheard, and each after so many *seconds*; the forge is polled anyway. Port 0 means any free port. Raises
    ServerUnavailable if the port is taken.
    """
    calls = {
        "poll_now": staticmethod(poll_now),
        "changed": staticmethod(changed),
        "requested": staticmethod(requested),
    }
    try:
        handler = type("Handler", (_Handler,), {"secret": secret, **calls})
        server = _Server((LOOPBACK, port), handler, most_connections, seconds)
    except OSError as error:
        raise ServerUnavailable(
            f"webhooks cannot be received at port {port}: {error.strerror}", remedy="name another with --webhooks"
        ) from error
    with server:
        threading.Thread(target=server.serve_forever, name="webhooks", daemon=True).start()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}/"
        finally:
            server.shutdown()


class _Server(ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], handler: type[_Handler], most: int, seconds: float) -> None:
        super().__init__(address, handler)
        self._most, self._seconds = most, seconds
        self._ends = dict[socket.socket, float]()
        """When each open connection ends."""

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread, unless there are too many."""
        if len(self._ends) >= self._most:
            self.shutdown_request(request)
            return
        self._ends[request] = time.monotonic() + self._seconds
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close the connection, and let another have its place."""
        self._ends.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Twice a second, end those that took too long: a time limit of each read would let them go on for days."""
        now = time.monotonic()
        for request, end in tuple(self._ends.items()):
            if end <= now:
                with suppress(OSError):  # it has ended by itself
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect early: the operator need not know."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    secret: str
    poll_now: Callable[[], None]
    changed: Callable[[str], None]
    requested: Callable[[str], None]

    def do_POST(self) -> None:
        """Handle one delivery."""
        status = self._taken()
        self.send_response(status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class calls it so)
        """Log nothing: refused requests may come from anywhere."""

    def _taken(self) -> HTTPStatus:
        length = self.headers.get("Content-Length", "")
        if not _LENGTH.fullmatch(length):
            return HTTPStatus.LENGTH_REQUIRED
        if int(length) > MOST_BYTES:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        headers = {name.lower(): value for name, value in self.headers.items()}
        if SIGNATURE not in headers:
            return HTTPStatus.UNAUTHORIZED
        body = self.rfile.read(int(length))
        if not is_signed(self.secret, body, headers):
            return HTTPStatus.UNAUTHORIZED
        self.poll_now()
        if repository := changed_repository(body):
            self.changed(repository)
        if repository := request_repository(body):
            self.requested(repository)
        return HTTPStatus.NO_CONTENT
