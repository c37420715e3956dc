"""The ASGI layer before the private server's Prefect: what it refuses, and who is signed in (decision 0024).

It refuses names that are not the server's (DNS rebinding), writes by foreign pages, and those who do not know the
password. Prefect, behind it, checks the password again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import ipaddress
import json
import secrets
import socket
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, quote

from irontree.flows.server.connection import LOOPBACK_NAMES
from irontree.flows.server.links import SIGN_IN, SIGN_OUT, Links, local_path

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE: Final = "irontree"
OPEN_PATHS: Final = frozenset({"/api/health", "/api/ready"})
"""They say that the server answers, and nothing else."""
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_POLICY_VIOLATION: Final = 1008
_KEPT_IN: Final = ((b"x-frame-options", b"DENY"), (b"referrer-policy", b"same-origin"))
"""No page shows ours in a frame, and no other site learns the server's name."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request goes no further."""

    status: HTTPStatus
    why: str


@dataclass(frozen=True, slots=True)
class Names:
    """The host names that the server answers to; *own* is the one at which browsers are signed in."""

    own: str
    others: frozenset[str] = frozenset(LOOPBACK_NAMES)
    any_address: bool = False
    """Also every IP address: no foreign page can have one of this machine's for a name."""

    def hold(self, host: str) -> bool:
        """Whether *host* is one of them."""
        return host in {self.own, *self.others} or (self.any_address and _is_ip_address(host))


def names_of(own: str, host: str, others: Collection[str], everywhere: Collection[str]) -> Names:
    """The names of a server that listens at *host*; *everywhere* lists the hosts that mean all addresses."""
    wide = host in everywhere
    known = {*LOOPBACK_NAMES, *map(str.lower, others), *({socket.gethostname().lower()} if wide else {host.lower()})}
    return Names(own, frozenset(known), any_address=wide)


@dataclass
class Guard:
    """The application *app* behind the guard.

    *password* is `user:password`, or `None` for a server that is open to everyone. *asks* has Prefect's pages ask for
    it, where it is the user's own and people elsewhere know it.
    """

    app: Application
    names: Names
    password: str | None
    links: Links
    asks: bool = False
    _sessions: set[bytes] = field(default_factory=set)
    """The cookies in force, hashed; they end with this process."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, websocket or the server's lifespan."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        request = _Request(scope)
        if refusal := self._refusal(request):
            await _refuse(scope, send, refusal)
        elif scope["type"] == "websocket":  # Prefect asks for the password itself there; its pages open none
            await self.app(scope, receive, send)
        elif request.path == SIGN_IN:
            await self._sign_in(request, send)
        elif request.path == SIGN_OUT:
            await self._sign_out(request, send)
        else:
            await self._pass_on(request, receive, _kept_in(send))

    def _refusal(self, request: _Request) -> Refusal | None:
        if not self.names.hold(request.host_name):
            return Refusal(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"{request.host_name!r} is no name of this server. To add one: irontree serve --name",
            )
        writes = request.scope["type"] == "websocket" or request.method not in _READING
        if writes and not request.is_from_own_page():
            return Refusal(HTTPStatus.FORBIDDEN, "A page of another site may not do that.")
        if request.has_body() and not request.is_json():
            return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "What is sent has to be of the type application/json.")
        return None

    # --- who it is ---

    async def _pass_on(self, request: _Request, receive: Receive, send: Send) -> None:
        signed_in = self._is_signed_in(request)
        if signed_in and self.password:
            request.authorize(self.password)
            if request.path == "/ui-settings":
                await _without_login(self.app, request, receive, send)
                return
        if self._may_pass(request, signed_in=signed_in):
            await self.app(request.scope, receive, send)
        else:
            to = local_path(f"{request.path}?{request.query}")
            await _answer(send, HTTPStatus.UNAUTHORIZED, _not_signed_in(self._is_own(request), to))

    def _may_pass(self, request: _Request, *, signed_in: bool) -> bool:
        """Whether Prefect may see it; what is below /api it refuses by itself."""
        known = self.password is None or signed_in or self.asks or request.path in OPEN_PATHS
        return known or request.path.startswith("/api/") or request.knows(self.password or "")

    def _is_own(self, request: _Request) -> bool:
        return request.host_name == self.names.own

    def _is_signed_in(self, request: _Request) -> bool:
        """By cookie, which counts at the server's own name alone: at the others, other servers would be sent it."""
        return self._is_own(request) and any(_hashed(given) in self._sessions for given in request.cookies(COOKIE))

    async def _sign_in(self, request: _Request, send: Send) -> None:
        """Exchange a link for a cookie; at another name than the server's own, first go there."""
        token, to = request.argument("token"), quote(local_path(request.argument("to")), safe="/?&=%+:,;@!$'()*~")
        own = f"{self.names.own}{request.port}"
        if self._is_signed_in(request):
            await _answer(send, HTTPStatus.SEE_OTHER, "", location=to)
        elif not self._is_own(request) and self.links.is_good(token):
            await _answer(send, HTTPStatus.OK, _way_to(own, f"{SIGN_IN}?{request.query}"))
        elif self._is_own(request) and self.links.redeem(token):
            made = secrets.token_urlsafe(32)
            self._sessions.add(_hashed(made))
            cookie = f"{COOKIE}={made}; Path=/; HttpOnly; SameSite=Lax"
            await _answer(send, HTTPStatus.SEE_OTHER, "", location=to, set_cookie=cookie)
        else:
            await _answer(send, HTTPStatus.UNAUTHORIZED, _not_signed_in(self._is_own(request), to))

    async def _sign_out(self, request: _Request, send: Send) -> None:
        """Sign every browser out."""
        if request.method != "POST" or not self.password or not request.knows(self.password):
            await _answer(send, HTTPStatus.UNAUTHORIZED, "")
            return
        self._sessions.clear()
        await _answer(send, HTTPStatus.NO_CONTENT, "")


class _Request:
    """What the guard asks of a request."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method = str(scope.get("method", "GET"))
        self.path = str(scope["path"])
        self.query: str = scope.get("query_string", b"").decode("latin-1")
        host = self._header("host").lower()
        self.host_name, self.port = _split(host)
        self._host = host

    def _header(self, name: str) -> str:
        """All values of that header, as one."""
        wanted = name.encode()
        return ",".join(value.decode("latin-1") for key, value in self.scope["headers"] if key.lower() == wanted)

    def argument(self, name: str) -> str:
        """The value in the address, empty without it."""
        found: list[str] = parse_qs(self.query).get(name, [""])
        return found[0]

    def cookies(self, name: str) -> list[str]:
        """The values of that cookie: another server of this machine can add one."""
        given = (cookie.strip().partition("=") for cookie in self._header("cookie").split(";"))
        return [value for key, _, value in given if key == name]

    def is_from_own_page(self) -> bool:
        """Whether a page of this server sent it, or no page at all: browsers send at least one of the two headers."""
        origin, site = self._header("origin").lower(), self._header("sec-fetch-site")
        own = origin in ("", f"http://{self._host}", f"https://{self._host}")
        return own and site in ("", "same-origin", "none")

    def has_body(self) -> bool:
        """Whether anything follows the headers."""
        return self._header("content-length") not in ("", "0") or bool(self._header("transfer-encoding"))

    def is_json(self) -> bool:
        """Whether that is said to be JSON: no page can send such to another site unasked."""
        return self._header("content-type").partition(";")[0].strip().lower() == "application/json"

    def knows(self, password: str) -> bool:
        """Whether it carries the password."""
        return hmac.compare_digest(self._header("authorization").encode(), _basic(password))

    def authorize(self, password: str) -> None:
        """Give it the password, in place of whatever it carries."""
        others = [(key, value) for key, value in self.scope["headers"] if key.lower() != b"authorization"]
        self.scope["headers"] = [*others, (b"authorization", _basic(password))]


def _split(host: str) -> tuple[str, str]:
    """`[::1]:4280` -> `::1`, `:4280`."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdecimal():
        name, colon, port = host, "", ""
    return name.removeprefix("[").removesuffix("]"), f"{colon}{port}"


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _basic(password: str) -> bytes:
    return b"Basic " + base64.b64encode(password.encode())


def _hashed(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode()).digest()


# --- answers


def _kept_in(send: Send) -> Send:
    """*send*, with headers that keep what the pages show to themselves."""

    async def keep_in(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *_KEPT_IN]
        await send(message)

    return keep_in


async def _refuse(scope: Scope, send: Send, refusal: Refusal) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": refusal.why})
        return
    body = json.dumps({"exception_message": refusal.why})
    await _answer(send, refusal.status, body, content_type="application/json")


async def _answer(send: Send, status: HTTPStatus, body: str, **headers: str) -> None:
    told = {"content_type": "text/html; charset=utf-8", "cache_control": "no-store", **headers}
    sent = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in told.items()]
    length = (b"content-length", str(len(body.encode())).encode())
    await send({"type": "http.response.start", "status": status.value, "headers": [*sent, length, *_KEPT_IN]})
    await send({"type": "http.response.body", "body": body.encode()})


async def _without_login(app: Application, request: _Request, receive: Receive, send: Send) -> None:
    """Answer with the settings of Prefect's pages as for a server without a password: the cookie stands for it."""
    parts: list[bytes] = []

    async def collect(message: Message) -> None:
        parts.append(message.get("body", b""))

    request.scope["headers"] = [(key, value) for key, value in request.scope["headers"] if key != b"accept-encoding"]
    await app(request.scope, receive, collect)
    settings = json.loads(b"".join(parts)) | {"auth": None}
    await _answer(send, HTTPStatus.OK, json.dumps(settings), content_type="application/json")


_PAGE: Final = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Iron Tree</title>
<body style="font: 1rem/1.5 sans-serif; max-width: 36rem; margin: 4rem auto; padding: 0 1rem">
{}
</body></html>
"""
_REMEMBERED: Final = "irontree-name"
"""Under this key a browser keeps the server's own name, for links that lead to another of its names. Storage is of one
port and one name: a server elsewhere cannot read it."""


def _not_signed_in(own: bool, to: str) -> str:  # noqa: FBT001
    """The page that says what to do; at another name than the *own* it first looks for *to* there."""
    go_there = (
        ""
        if own
        else (
            f'<script>try {{ const name = localStorage.getItem("{_REMEMBERED}"); '
            f'if (name) location.replace("http://" + name + {_in_script(to)}) }} catch {{}}</script>'
        )
    )
    return _PAGE.format(
        "<h1>Not signed in</h1><p>This browser is not signed in to the Prefect server of Iron Tree, or its link was "
        "used or is older than five minutes.</p><p>Type <code>irontree ui</code> in a terminal, and open the link "
        f"that it prints.</p>{go_there}"
    )


def _way_to(own: str, path: str) -> str:
    """The page that remembers the server's own name and leads to *path* there."""
    link = f"http://{own}{path}"
    return _PAGE.format(
        f'<p><a href="{html.escape(link)}">Sign in</a></p><script>try {{ localStorage.setItem("{_REMEMBERED}", '
        f'"{own}") }} catch {{}} location.replace({_in_script(link)})</script>'
    )


def _in_script(text: str) -> str:
    return json.dumps(text).replace("<", "\\u003c")
