"""Acceptance criteria and commands: what their text says about how they are checked (ruling R18)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from irontree.domain.plan import Criterion

_CODE: Final = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)(?P<inside>.+?)(?<!`)(?P=ticks)(?!`)")
_MARK: Final = re.compile(
    rf"{_CODE.pattern}|(?P<manual>\(\s*manual\s*\))|\(\s*check:(?P<check>[^()]*)\)", re.IGNORECASE
)


def parse_criterion(text: str) -> Criterion:
    """The criterion that *text* states, with its marks `(manual)`, `(check: NAME)` and a trailing `` `$ command` ``.

    An empty NAME is kept as an empty `check`, for the reader to refuse.
    """
    marks = [match for match in _MARK.finditer(text) if match["ticks"] is None]
    checks = [match["check"].strip() for match in marks if match["check"] is not None]
    stated = text
    for match in reversed(marks):
        before, after = stated[: match.start()].rstrip(), stated[match.end() :].lstrip()
        stated = f"{before}{'' if after.startswith((':', ';', ',', '.')) else ' '}{after}".strip()
    statement, command = _trailing_command(stated)
    return Criterion(
        text=statement or stated or text,
        manual=any(match["manual"] for match in marks),
        check=checks[0] if checks else None,
        command=command,
    )


def hides_a_command(criterion: Criterion) -> bool:
    """Whether the text holds a `` `$ command` `` that covers nothing because it does not stand at the end."""
    return any(command != criterion.command for _, command in _commands(criterion.text))


def parse_commands(line: str) -> tuple[str, ...]:
    """The commands of a line that begins with `$ ` (the rest of it) or with `` `$ command` `` (all of that form)."""
    stripped = line.strip()
    if stripped.startswith("$ "):
        return (stripped[2:].strip(),)
    found = list(_commands(stripped)) if stripped.startswith("`") else []
    return tuple(command for _, command in found) if found and found[0][0].start() == 0 else ()


def is_only_code(line: str) -> bool:
    """Whether the line is one code span, as somebody writes a command who forgets the `$`."""
    return re.fullmatch(r"(`+)[^`]+\1[\s.;]*", line.strip()) is not None


def _trailing_command(text: str) -> tuple[str, str | None]:
    """The text before the command at its end, and the command."""
    match, command = max(_commands(text), key=lambda found: found[0].end(), default=(None, None))
    if match is None or text[match.end() :].strip(" .;"):
        return text, None
    return text[: match.start()].rstrip(" :,;"), command


def _commands(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """The code spans that hold `$ command`."""
    for match in _CODE.finditer(text):
        inside = match["inside"].strip()
        if inside.startswith("$ "):
            yield match, inside[2:].strip()
