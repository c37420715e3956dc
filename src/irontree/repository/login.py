"""Reach a remote with a login in its address without showing that (docs/decisions/0018-tokens.md).

Git gets it from a credential helper of ours; no command line and no environment holds it.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from irontree.processes import handing

_ADDRESS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:(?P<login>[^/?#]*)@)?(?P<host>[^/?#]*)(?P<rest>.*)"
)
_OWN_LOGIN: Final = {"https://github.com": ("GITHUB_TOKEN", "GH_TOKEN")}
"""Hosts whose token in the caller's environment git may use where no helper of the user knows a login."""
_NAME_MAY_BE_A_TOKEN: Final = ("http", "https")


@dataclass(frozen=True, slots=True)
class Reached:
    """How a command names a remote: the words before its own, and the name."""

    words: tuple[str, ...]
    name: str


class _Login(NamedTuple):
    user: str
    password: str | None
    """`None` where the address has a name alone; an empty one is a password too."""


@dataclass(frozen=True, slots=True)
class _Address:
    shown: str
    place: str
    """Scheme and host, with the port."""
    login: _Login | None = None


def _parse(url: str) -> _Address:
    """The address without its login; one that needs no hiding, as `ssh://git@host`, stays as it is."""
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return _Address(url, "")
    place = f"{found['scheme']}://{found['host']}"
    if not found["login"] or not (":" in found["login"] or found["scheme"].lower() in _NAME_MAY_BE_A_TOKEN):
        return _Address(url, place.lower())
    user, has_password, password = found["login"].partition(":")
    login = _Login(unquote(user), unquote(password) if has_password else None)
    return _Address(f"{place}{found['rest']}", place.lower(), login)


def _parse_proxy(url: str) -> _Address:
    """The same for a proxy, whose name stays: without one git asks no helper for its password."""
    found = _parse(url if "://" in url else f"http://{url}")
    if found.login is None or found.login.password is None:
        return _Address(url, found.place)
    return replace(found, shown=found.shown.replace("://", f"://{quote(found.login.user, safe='')}@", 1))


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
    logins = {each.place: each.login for each in addresses if each.login}
    named = [place for place, login in logins.items() if login.password is None]
    own = {
        place: _Login("x-access-token", token)
        for place in {each.place for each in addresses}
        if place not in logins or place in named
        for name in _OWN_LOGIN.get(place, ())
        if (token := caller.get(name, "").strip())
    }
    with ExitStack() as stack:
        words, name = list[str](), remote
        if logins:
            name = f"{remote}-without-login"
            proxies = [_parse_proxy(value) for key, value in settings if key == f"remote.{remote}.proxy"]
            logins |= {proxy.place: proxy.login for proxy in proxies if proxy.login}
            helpers = _helpers(stack, logins)
            words += _then_the_users([helpers[place] for place in named], logins, settings) if named else ()
            # Like git with the address itself: with a password in it, no other helper is asked.
            words += [word for place in logins.keys() - named for word in (_helper(place, ""), helpers[place])]
            words += _renamed(remote, name, fetched, pushed, settings)
        words += _helpers(stack, own).values() if own else ()
        yield Reached(tuple(part for word in words for part in ("-c", word)), name)


def _helpers(stack: ExitStack, logins: Mapping[str, _Login]) -> dict[str, str]:
    """The setting by which git is told each of the logins, by place, until the *stack* is closed."""
    path = stack.enter_context(handing.handing(lambda request: _answer(request, logins)))
    program = "!" + shlex.join([sys.executable, "-I", "-S", handing.__file__, str(path)])
    return {place: _helper(place, program) for place in logins}


def _helper(place: str, value: str) -> str:
    return f"credential.{place}.helper={value}"


def _then_the_users(
    names: Sequence[str], logins: Mapping[str, _Login], settings: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """The helpers that give *names* alone, and after them those of the user, who are asked with that name.

    An empty one takes all back that stand before it, so ours are named again.
    """
    for key, value in (("credential.helper", ""), *settings):
        if re.fullmatch(r"credential\.(.*\.)?helper", key):
            address = _parse(key.removeprefix("credential.").removesuffix(".helper"))
            # One for this name: the address that git asks for has it no longer.
            is_for_name = address.login and address.login == logins.get(address.place)
            yield _helper(address.shown, value) if is_for_name else f"{key}={value}"
            yield from () if value else names


def _renamed(
    remote: str, name: str, fetched: Sequence[str], pushed: Sequence[str], settings: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """The settings of a remote of that name that is the same, but for the logins."""
    before = f"remote.{remote}."
    for key, value in settings:
        if key.startswith(before) and key not in (f"{before}url", f"{before}pushurl"):
            hidden = _parse_proxy(value).shown if key == f"{before}proxy" else value
            yield f"remote.{name}.{key.removeprefix(before)}={hidden}"
    urls, push_urls = ([_parse(url).shown for url in found] for found in (fetched, pushed))
    yield from (f"remote.{name}.url={url}" for url in urls)
    yield from (f"remote.{name}.pushurl={url}" for url in push_urls)
    # The whole address is the longest match: a rule that adds a login does not apply to it.
    yield from (f"url.{url}.insteadOf={url}" for url in dict.fromkeys((*urls, *push_urls)))


def _answer(request: bytes, logins: Mapping[str, _Login]) -> bytes:
    """What git's protocol for credential helpers wants for the place that it asks about; empty for any other."""
    asked = dict(line.partition("=")[::2] for line in request.decode("utf-8", "replace").splitlines())
    login = logins.get(f"{asked.get('protocol', '')}://{asked.get('host', '')}".lower())
    given = {} if login is None else {"username": login.user, "password": login.password}
    return "".join(f"{name}={value}\n" for name, value in given.items() if value is not None).encode()
