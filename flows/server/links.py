"""Links that sign a browser in to the private server: for one server process, five minutes, once (decision 0024)."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TextIO
from urllib.parse import quote, urlencode, urlsplit

from irontree.flows.server.connection import ServerState
from irontree.flows.server.credentials import read_password

SIGN_IN: Final = "/irontree/sign-in"
SIGN_OUT: Final = "/irontree/sign-out"
LINK_SECONDS: Final = 300
_DIGITS: Final = 12
"""Of a time in seconds."""


def signed_in(url: str, folder: Path) -> str:
    """*url* as a link that signs a browser in, for the user's own terminal alone.

    What is no page of the private server in *folder* stays as it is.
    """
    address, password = ServerState(folder).address(), read_password(folder)
    base = address.api_url.removesuffix("/api") if address else ""
    if not (address and password) or address.open or not url.startswith(f"{base}/"):
        return url
    return make_link(base, password, address.name, local_path(url), now=time.time())


def link_on(out: TextIO, url: str, folder: Path) -> str:
    """*url* as it is shown on *out*: on a terminal it signs the browser in, in a log or a pipe it does not."""
    return signed_in(url, folder) if out.isatty() else url


def make_link(base: str, password: str, name: str, path: str, *, now: float) -> str:
    """The link at *base* that signs a browser in to the server called *name*, and leads to *path* there."""
    expires, nonce = int(now) + LINK_SECONDS, secrets.token_urlsafe(16)
    token = f"{expires}.{nonce}.{_signature(password, name, expires, nonce)}"
    return f"{base}{SIGN_IN}?{urlencode({'token': token, 'to': path}, quote_via=quote)}"


def local_path(url: str) -> str:
    """The part of *url* after the host. What would lead to another host becomes `/`."""
    parts = urlsplit(url)
    path = parts.path if parts.path.startswith("/") else "/"
    unsafe = path.startswith("//") or any(sign in url for sign in "\\\r\n\t")
    return "/" if unsafe else path + (f"?{parts.query}" if parts.query else "")


class Links:
    """What the server knows of the links that `make_link` made for it: each counts once, until it expires."""

    def __init__(self, password: str, name: str, now: Callable[[], float] = time.time) -> None:
        self._password, self._name, self._now = password, name, now
        self._used: set[str] = set()

    def redeem(self, token: str) -> bool:
        """Whether *token* is good; it is not good again."""
        good = self.is_good(token)
        if good:
            self._used.add(token)
        return good

    def is_good(self, token: str) -> bool:
        """Whether *token* is ours, in time and was not used."""
        expiry, _, rest = token.partition(".")
        nonce, _, signature = rest.partition(".")
        if not (token.isascii() and expiry.isdecimal() and len(expiry) <= _DIGITS):
            return False
        ours = hmac.compare_digest(signature, _signature(self._password, self._name, int(expiry), nonce))
        return ours and int(expiry) >= self._now() and token not in self._used


def _signature(password: str, name: str, expires: int, nonce: str) -> str:
    said = f"sign-in {name} {expires} {nonce}"
    return hmac.new(password.encode(), said.encode(), hashlib.sha256).hexdigest()
