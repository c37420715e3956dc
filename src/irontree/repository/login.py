"""Reach a remote with a login in its address without showing that (docs/decisions/0018-tokens.md).

Git gets it from a credential helper of ours; no command line and no environment holds it.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from irontree.domain.text import LOGIN_IN_URL
from irontree.processes import handing

_ADDRESS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:(?P<login>[^/?#@]*)@)?(?P<host>[^/?#]*)(?P<rest>.*)"
)
_OWN_LOGIN: Final = {"https://github.com": ("GITHUB_TOKEN", "GH_TOKEN")}
"""Hosts whose token in the caller's environment git may use where no helper of the user knows a login."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How a command names a remote: the words before its own, and the name."""

    words: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class _Address:
    shown: str
    place: str
    """Scheme and host, with the port."""
    user: str
    password: str


def _parse(url: str) -> _Address:
    """The address without its login; one that needs no hiding, as `ssh://git@host`, stays as it is."""
    found = _ADDRESS.fullmatch(url)
    if found is None or not found["login"] or not re.match(LOGIN_IN_URL, url):
        return _Address(url, f"{found['scheme']}://{found['host']}".lower() if found else "", "", "")
    user, _, password = found["login"].partition(":")
    place = f"{found['scheme']}://{found['host']}"
    return _Address(f"{place}{found['rest']}", place.lower(), unquote(user), unquote(password))


@contextmanager
def reaching(
    remote: str,
    fetched: Sequence[str],
    pushed: Sequence[str],
    settings: Sequence[tuple[str, str]],
    caller: Mapping[str, str],
) -> Iterator[Reached]:
    """How to reach *remote* for the block: under another name if its addresses have a login.

    *fetched* and *pushed* are its addresses as git would call them; *settings* are all of the repository's, of which
    the other name gets those of the remote. *caller* is the environment with the forge's token.
    """
    addresses = {_parse(url) for url in (*fetched, *pushed)}
    logins = {each.place: (each.user, each.password) for each in addresses if each.user or each.password}
    own = {
        each.place: ("x-access-token", token)
        for each in addresses
        if each.place not in logins
        for name in _OWN_LOGIN.get(each.place, ())
        if (token := caller.get(name, "").strip())
    }
    if not (logins or own):
        yield Reached((), remote)
        return
    with handing.handing(lambda request: _answer(request, {**own, **logins})) as path:
        helper = "!" + shlex.join([sys.executable, "-I", "-S", handing.__file__, str(path)])
        words = [f"credential.{place}.helper={helper}" for place in own]
        # Like git with the address itself: no other helper is asked first.
        words += [f"credential.{place}.helper={value}" for place in logins for value in ("", helper)]
        name = remote
        if logins:
            name = f"{remote}-without-login"
            words += _renamed(remote, name, fetched, pushed, settings)
        yield Reached(tuple(part for word in words for part in ("-c", word)), name)


def _renamed(
    remote: str, name: str, fetched: Sequence[str], pushed: Sequence[str], settings: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """The settings of a remote of that name that is the same, but for the logins."""
    before = f"remote.{remote}."
    for key, value in settings:
        if key.startswith(before) and key not in (f"{before}url", f"{before}pushurl"):
            yield f"remote.{name}.{key.removeprefix(before)}={value}"
    urls, push_urls = ([_parse(url).shown for url in found] for found in (fetched, pushed))
    yield from (f"remote.{name}.url={url}" for url in urls)
    yield from (f"remote.{name}.pushurl={url}" for url in push_urls)
    # The whole address is the longest match: a rule that adds a login does not apply to it.
    yield from (f"url.{url}.insteadOf={url}" for url in dict.fromkeys((*urls, *push_urls)))


def _answer(request: bytes, logins: Mapping[str, tuple[str, str]]) -> bytes:
    """What git's protocol for credential helpers wants for the place that it asks about; empty for any other."""
    asked = dict(line.partition("=")[::2] for line in request.decode("utf-8", "replace").splitlines())
    login = logins.get(f"{asked.get('protocol', '')}://{asked.get('host', '')}".lower())
    if login is None:
        return b""
    given = zip(("username", "password"), login, strict=True)
    return "".join(f"{name}={value}\n" for name, value in given if value).encode()
