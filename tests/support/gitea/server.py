"""A Gitea server on loopback: real HTTP, contents in memory, faults on demand, every message judged.

What the description does not allow is kept in `violations`; `gitea_server` fails on it at the end.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import tests.support.gitea.pull_api  # noqa: F401  (registers its routes)
from tests.support.gitea.api import Api, Refused, Request, Response, team_members
from tests.support.gitea.contents import Contents
from tests.support.gitea.description import official

if TYPE_CHECKING:
    from tests.support.gitea.weather import Weather

API = "/api/v1"


@dataclass
class Fault:
    """What goes wrong with the next *times* requests of that method whose path ends as said; "" is any."""

    method: str = ""
    ending: str = ""
    status: int = 0
    """Answer this instead of doing anything; if *late*, after doing it."""
    late: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    drop: str = ""
    """`before` or `after` the effect, the connection ends without an answer."""
    shown: int | None = None
    """Lists with a count end after so many entries, though it says more."""
    until: threading.Event | None = None
    """Do not answer before this is set."""
    meanwhile: Callable[[], object] | None = None
    """What somebody else does just before."""
    times: int = 1

    def fits(self, method: str, path: str) -> bool:
        return self.times > 0 and self.method in {"", method} and path.endswith(self.ending)


@dataclass
class GiteaServer:
    """`url` may hold a sub-path, as behind a proxy."""

    url: str
    contents: Contents
    api: Api
    prefix: str
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """`METHOD path`, in the order of planned."""
    violations: list[str] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    weather: Weather | None = None

    def asked(self) -> list[str]:
        with self.lock:
            return [*self.requests]

    def writes(self) -> list[str]:
        return [request for request in self.requests if not request.startswith("GET")]

    def fault(self, method: str, path: str) -> Fault | None:
        found = next((fault for fault in self.faults if fault.fits(method, path)), None)
        if found:
            found.times -= 1
        return found or (self.weather.fault(self, method, path) if self.weather else None)

    def handle(self, method: str, path: str, query: dict[str, str], body: Any, token: str) -> Response:
        """One request, from the token to the answer."""
        try:
            user = self._user(token)
            response = self._answer(method, path.removeprefix(API), query, body, user)
        except Refused as refused:
            response = _error(refused.status, str(refused), self.url)
        return response

    def judge(self, method: str, path: str, query: dict[str, str], body: Any, response: Response) -> None:
        description = official()
        if description is None:
            return
        problems = description.request(method, path, query, body)
        problems += description.response(method, path, response.status, response.body)
        self.violations += [f"{method} {path} {response.status}: {problem}" for problem in problems]

    def _user(self, token: str) -> str:
        if token not in self.contents.tokens:
            raise Refused(401, "user does not exist [uid: 0, name: ]" if token else "token is required")
        return self.contents.tokens[token]

    def _answer(self, method: str, path: str, query: dict[str, str], body: Any, user: str) -> Response:
        if (method, path) == ("GET", "/version"):
            return Response(200, {"version": self.contents.version})
        if (method, path) == ("GET", "/user"):
            return self._me(user)
        if method == "GET" and (found := re.fullmatch(r"/teams/(\d+)/members(?:/([^/]+))?", path)):
            self._require_scope(user, "read:organization")
            return team_members(self.api, int(found[1]), found[2], user)
        home, former = (
            f"/repos/{self.contents.owner}/{name}" for name in (self.contents.name, self.contents.former_name)
        )
        if path == former or path.startswith(f"{former}/"):
            words = f"?{urlencode(query)}" if query else ""
            return Response(307, None, {"Location": self.prefix + API + home + path[len(former) :] + words})
        if path != home and not path.startswith(f"{home}/"):
            raise Refused(404, "not found")
        return self.api.answer(Request(method, path[len(home) :].strip("/"), query, body, user))

    def _me(self, user: str) -> Response:
        self._require_scope(user, "read:user")
        return Response(200, self.api.shapes.user(user))

    def _require_scope(self, user: str, scope: str) -> None:
        scopes = self.contents.accounts[user].scopes
        if scopes is not None and scope not in scopes:
            raise Refused(403, f"token does not have at least one of required scope(s), required=[{scope}]")


def _error(status: int, message: str, url: str) -> Response:
    return Response(status, {"message": message, "url": f"{url}/api/swagger"} if message or status >= 500 else None)


@contextmanager
def gitea_server(
    clock: Callable[[], datetime], *, prefix: str = "", tls: ssl.SSLContext | None = None
) -> Iterator[GiteaServer]:
    """Run a server until the block ends; raises AssertionError for messages that the description does not allow."""
    http = _Http(("127.0.0.1", 0), _Handler)
    if tls:
        http.socket = tls.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
    url = f"{'https' if tls else 'http'}://127.0.0.1:{http.server_address[1]}{prefix}"
    contents = Contents(clock)
    http.gitea = GiteaServer(url, contents, Api(contents, url), prefix)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield http.gitea
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
    assert not http.gitea.violations


class _Http(ThreadingHTTPServer):
    gitea: GiteaServer
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that goes away in the middle is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one piece: two wait for the other side in between
    server: _Http

    def do_GET(self) -> None:
        gitea, method = self.server.gitea, self.command
        address = urlsplit(self.path)
        path, query = address.path.removeprefix(gitea.prefix), dict(parse_qsl(address.query, keep_blank_values=True))
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        with gitea.lock:
            gitea.requests.append(f"{method} {path}")
            fault = gitea.fault(method, path)
        if fault and fault.until:
            fault.until.wait()
        if fault and fault.meanwhile:
            fault.meanwhile()
        if fault and fault.drop == "before":
            self.close_connection = True
            return
        with gitea.lock:
            response = self._respond(fault, path, query, body)
            if not (fault and fault.status):  # what a proxy says is not Gitea's
                gitea.judge(method, path, query, body, response)
        if fault and fault.drop == "after":
            self.close_connection = True
            return
        self._send(response)

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815

    def _respond(self, fault: Fault | None, path: str, query: dict[str, str], body: Any) -> Response:
        if fault and fault.status and not fault.late:
            return Response(fault.status, fault.body, fault.headers)
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        response = self.server.gitea.handle(self.command, path, query, body, token if scheme == "token" else "")
        if fault and fault.late:
            return Response(fault.status, fault.body, fault.headers)
        if fault and fault.shown is not None and "X-Total-Count" in response.headers:
            return Response(response.status, response.body[: fault.shown], response.headers)
        return response

    def _send(self, response: Response) -> None:
        text = isinstance(response.body, str)
        content = b"" if response.body is None else (response.body if text else json.dumps(response.body)).encode()
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        if content and "Content-Type" not in response.headers:
            self.send_header("Content-Type", "text/html" if text else "application/json;charset=utf-8")
        if response.status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing: `requests` has it."""
