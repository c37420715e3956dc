"""A small webhook receiver: signed deliveries trigger an early poll of the forge; their content is not trusted."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from irontree.domain.external import changed_repository, is_signed, request_repository
from irontree.errors import ServerUnavailable
from irontree.flows.server.connection import LOOPBACK

MOST_BYTES: Final = 25 * 1024 * 1024
"""The largest payload that GitHub sends."""
PATIENCE_SECONDS: Final = 10
_LENGTH: Final = re.compile(r"[0-9]{1,12}")


@contextmanager
def receiving(
    port: int,
    secret: str,
    poll_now: Callable[[], None],
    changed: Callable[[str], None],
    requested: Callable[[str], None],
) -> Iterator[str]:
    """Listen on loopback, behind a proxy or tunnel, for the block; yields the URL that the forge's webhook must reach.

    Call *poll_now* for each delivery, and with the repository's page *changed* if an issue was changed, *requested* if
    a pull request, its reviews or its checks were. Port 0 means any free port. Raises ServerUnavailable if the port is
    taken.
    """
    calls = {
        "poll_now": staticmethod(poll_now),
        "changed": staticmethod(changed),
        "requested": staticmethod(requested),
    }
    try:
        server = _Server((LOOPBACK, port), type("Handler", (_Handler,), {"secret": secret, **calls}))
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
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect early: the operator need not know."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    secret: str
    poll_now: Callable[[], None]
    changed: Callable[[str], None]
    requested: Callable[[str], None]
    timeout = PATIENCE_SECONDS

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
        body = self.rfile.read(int(length))
        if not is_signed(self.secret, body, headers):
            return HTTPStatus.UNAUTHORIZED
        self.poll_now()
        if repository := changed_repository(body):
            self.changed(repository)
        if repository := request_repository(body):
            self.requested(repository)
        return HTTPStatus.NO_CONTENT
