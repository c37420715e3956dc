"""A stand-in for a Prefect server that answers as a test says, for the client of this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED, temporary_settings

Answers = Callable[[str, str], tuple[int, object]]
"""From method and path to status and JSON; None has no body."""


@contextmanager
def prefect_that(answers: Answers) -> Iterator[str]:
    """Have Prefect's client in this process talk to a server that answers so; its API's address."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, answer = answers(self.command, self.path)
            body = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PATCH(self) -> None:
            self._answer()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/api"
        with temporary_settings({PREFECT_API_URL: address, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False}):
            yield address
        server.shutdown()
