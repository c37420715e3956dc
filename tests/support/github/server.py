"""The double of GitHub as a real server on loopback: what goes wrong on a network goes wrong here too."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import tests.support.github.pull_routes  # noqa: F401  (registers its routes)
from tests.support.github.description import official
from tests.support.github.routes import Routes
from tests.support.github.state import LOG_HOST, Hub, Reply, Request

_PREFIX: Final = "/api/v3"


class GithubServer(ThreadingHTTPServer):
    """Serves a hub; whatever is not as the official description says is kept in `complaints`."""

    daemon_threads = True

    def __init__(self, hub: Hub) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub = hub
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.routes = Routes(hub, self.url)
        self.complaints: list[str] = []
        self.closing = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no error; anything else fails the test that sees `complaints`."""
        import sys

        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self.complaints.append(f"the double broke: {error!r}")

    def asked(self) -> list[str]:
        """What `tests.support.calls` counts."""
        with self.hub.lock:
            return [f"{one.verb} {one.path}{' 304' if one.unchanged else ''}" for one in self.hub.requests]

    def check(self, request: Request, reply: Reply) -> None:
        """Hold an exchange to the description, if it is there."""
        description, template = official(), self.routes.template(request)
        if description and template:
            found = description.complaints(template, request, reply)
            self.complaints.extend(f"{request.verb} {request.path}: {what}" for what in found)


@contextmanager
def serve(hub: Hub) -> Iterator[GithubServer]:
    """A running double; ends with an error if any exchange was not as GitHub describes it."""
    official()  # takes a moment, once: not in the middle of an exchange
    server = GithubServer(hub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
    assert not server.complaints, "\n".join(server.complaints)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: GithubServer

    def log_message(self, *_: Any) -> None:
        """Say nothing on the terminal."""

    def do_GET(self) -> None:
        """Answer one request."""
        hub, request = self.server.hub, self._request()
        if request.headers["host"].startswith(f"{LOG_HOST}:"):
            self._send(self._log(request))
            return
        with hub.lock:
            hub.requests.append(request)
            fault = hub.take_fault(request)
            if fault is None or fault.reply == "reset-after":
                reply = self.server.routes.answer(request)
                self.server.check(request, reply)
        if fault is None:
            self._send(reply, request)
        elif isinstance(fault.reply, Reply):
            self._send(fault.reply)
        elif fault.reply == "silence":
            self.server.closing.wait()
            self.close_connection = True
        else:
            self._reset()

    def __getattr__(self, name: str) -> Any:
        """Serve every other verb by the same way."""
        if name.startswith("do_"):
            return self.do_GET
        raise AttributeError(name)

    def _log(self, request: Request) -> Reply:
        """As the storage of logs answers, which is another company's: to a signed address, and never to a token."""
        if "authorization" in request.headers:
            self.server.complaints.append("a token was sent to where logs are kept")
        if "authorization" in request.headers or not request.query.get("sig"):
            return Reply(403, "<Error><Code>AuthenticationFailed</Code></Error>")
        return Reply(200, f"\ufeff{self.server.hub.logs[int(request.path.rpartition('/')[2])]}")

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(length) if length else b""
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = "/graphql" if parts.path == "/api/graphql" else parts.path.removeprefix(_PREFIX)
        body = json.loads(data) if data else None
        request = Request(self.command, path, dict(parse_qsl(parts.query)), headers, body)
        request.account = self._account(headers.get("authorization", ""))
        return request

    def _account(self, authorization: str) -> str:
        kind, _, token = authorization.partition(" ")
        if kind == "Bearer":  # a GitHub App's own word: who it is stands in the middle part
            claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
            return f"app {claims['iss']}"
        return self.server.hub.tokens.get(token, "")

    def _send(self, reply: Reply, request: Request | None = None) -> None:
        is_text = isinstance(reply.body, str)
        data = (reply.body if is_text else json.dumps(reply.body)).encode() if reply.body is not None else b""
        tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        if reply.status == 200 and self.headers.get("If-None-Match") == tag:
            reply, data = Reply(304), b""
        if request:
            request.unchanged = reply.status == 304
        self.send_response(reply.status)
        scopes = self.server.hub.scopes.get(request.account) if request else None
        told = {} if scopes is None else {"X-OAuth-Scopes": scopes}
        headers = {"Content-Type": "text/plain" if is_text else "application/json; charset=utf-8", "ETag": tag}
        for name, value in {**headers, **told, "Content-Length": str(len(data)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _reset(self) -> None:
        """Break the connection so that the client's read fails at once."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
