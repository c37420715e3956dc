"""Secrets in what was added to a file: what looks like one, where it stands and of what kind, never its value (R20).

Looked at are all lines that were added, and the names of new files, for values that are known to be secret, for the
shapes that comments hide (`domain/text.py`) and for a login in an address. In a setting, a random text behind a usual
name counts too. What is plainly an example is none, and lock files and tests are looked at for shapes alone, because
hashes and fixtures are random as well.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from irontree.domain.text import LOGIN_IN_URL, secret_values, secrets_in, without_secrets

_LOGIN: Final = re.compile(LOGIN_IN_URL)
_BEGINNING: Final = re.compile(r"-----BEGIN|[A-Za-z]{2,4}(?:_pat)?[-_.]?")
_NAMED: Final = re.compile(
    r"(?i)(?:token|secret|passw(?:or)?d|passphrase|api_?key|access_?key|private_?key|credential)s?[\"']?\s*(?:=>|:=|[:=])\s*"
    r"(?P<quote>[\"'`]?)(?P<value>[A-Za-z0-9+/_=.~-]{20,200})(?P=quote)(?=[\s,;)}\]#]|$)"
)
_EXAMPLE: Final = re.compile(
    r"(?i)example|sample|dummy|fake|placeholder|change-?me|your|redacted|x{4}|\*{3}|0{6}|1234567|abcdefg|localhost|127\.0\.0\.1"
    r"|[${<]"
)
_ORDINARY_PASSWORDS: Final = frozenset(
    ("password", "passwd", "pass", "secret", "user", "test", "postgres", "root", "admin")
)
_LOCK_FILES: Final = re.compile(r"(?i)(?:^|/)(?:[\w.-]*lock(?:\.\w+)?|[\w.-]*-lock\.\w+|go\.sum|npm-shrinkwrap\.json)$")
_TESTS: Final = re.compile(
    r"(?i)(?:^|/)(?:tests?|specs?|fixtures?|testdata|__tests__|mocks?)/|(?:^|/)test_|[._-](?:test|spec)\.\w+$"
)
_SETTINGS: Final = re.compile(r"(?i)\.(?:env|ini|cfg|conf|ya?ml|toml|properties|tfvars|sh)$|(?:^|/)\.env(?:\.\w+)?$")
_SETTING: Final = re.compile(r"\s*(?:export\s+)?[\"']?(?P<name>[\w.-]+)[\"']?\s*[:=]\s*(?P<value>.+)")
_VALUE_LENGTH: Final = 16
"""Of a random text in a file of settings that counts whatever its name is."""
_HOST_LENGTH: Final = 256
_BITS: Final = 3.5
"""Of entropy for each character: words and paths have less, random texts of this length have more."""


class AddedSecret(NamedTuple):
    """Where something looks like a secret, and what it looks like; line 0 is the name of the file."""

    path: str
    line: int
    kind: str

    @property
    def words(self) -> str:
        """The place and the kind, for people."""
        place = f"{self.path}, line {self.line}" if self.line else f"the name of {self.path}"
        return f"{place}: {self.kind}"


def known_secrets(environment: Mapping[str, str], settings: Iterable[str]) -> frozenset[str]:
    """Values that belong in no commit: of variables with a secret's name; in texts as of `.env`, random ones too."""
    found = set(secret_values(environment))
    for text in settings:
        given = {line["name"]: line["value"].strip("\"', ;") for line in map(_SETTING.match, text.splitlines()) if line}
        found |= secret_values(given)
        found.update(value for value in given.values() if len(value) >= _VALUE_LENGTH and _is_random(value))
    return frozenset(value for value in found if not (value.startswith("/") or _EXAMPLE.search(value)))


def added_secrets(path: str, before: str, now: str, values: Collection[str] = ()) -> Iterator[AddedSecret]:
    """What has one of *values*, or looks like a secret, in the lines of *now* that are not in *before*: one a line.

    The name of a file with nothing *before* is looked at too.
    """
    shown = without_secrets(path, values)
    if not before and (kind := _known(path, values) or _shape(path)):
        yield AddedSecret(shown, 0, kind)
    known, held = frozenset(before.splitlines()), [value for value in values if value in now]
    for number, line in enumerate(now.splitlines(), start=1):
        kind = "" if line in known else _known(line, held) or _kind(path, line)
        if kind:
            yield AddedSecret(shown, number, kind)


def _known(text: str, values: Collection[str]) -> str:
    return "a value that is a secret here" if any(value in text for value in values) else ""


def _kind(path: str, line: str) -> str:
    if kind := _shape(line):
        return kind
    if any(_is_login(line[found.start() : found.end() + _HOST_LENGTH]) for found in _LOGIN.finditer(line)):
        return "a login in an address"
    return "" if _LOCK_FILES.search(path) or _TESTS.search(path) else _named(path, line)


def _shape(text: str) -> str:
    for found in secrets_in(text):
        if found.seen.startswith(("-----BEGIN", "PuTTY")):
            return "a private key"
        if not _is_example(found.seen):
            beginning = _BEGINNING.match(found.seen)
            return f"a token that begins with `{beginning[0]}`" if beginning else "a token"
    return ""


def _is_example(token: str) -> bool:
    """Whether it says so; one that is still a token without that word, which was only added, is none."""
    rest = _EXAMPLE.sub("", token)
    return rest != token and not (_is_random(rest) and any(True for _ in secrets_in(rest)))


def _is_login(text: str) -> bool:
    """Whether the address at the beginning of *text* has a password that is no example."""
    address = text.split(None, 1)[0].strip("\"'`<>()[],;")
    try:
        parts = urlsplit(address)
        password, host = parts.password or parts.username or "", parts.hostname or ""
    except ValueError:
        return False
    return not (_EXAMPLE.search(f"{password} {host}") or password.lower() in _ORDINARY_PASSWORDS or "." not in host)


def _named(path: str, line: str) -> str:
    for found in _NAMED.finditer(line):
        value = found["value"]
        written = bool(found["quote"]) or _SETTINGS.search(path) is not None
        if written and _is_random(value) and not _EXAMPLE.search(value):
            name = re.split(r"[\"']?\s*(?:=>|:=|[:=])", found[0], maxsplit=1)[0]
            return f"a random text behind `{name}`"
    return ""


def _is_random(value: str) -> bool:
    if not (re.search(r"\d", value) and re.search(r"[A-Za-z]", value)):
        return False
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values()) >= _BITS
