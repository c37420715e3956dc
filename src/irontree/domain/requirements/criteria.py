"""Acceptance criteria and commands: what their text says about how they are checked (ruling R18)."""

from __future__ import annotations

import re
from typing import Final

from irontree.domain.plan import Criterion

_CODE: Final = r"(?<!`)(?P<ticks>`+)(?!`) ?{inside} ?(?<!`)(?P=ticks)(?!`)"
_COMMAND: Final = re.compile(_CODE.format(inside=r"\$ (?P<command>.+?)"))
_COMMAND_AT_END: Final = re.compile(_COMMAND.pattern + r"[\s.;]*$")
_MARK: Final = re.compile(
    _CODE.format(inside=r".*?") + r"|(?P<manual>\(\s*manual\s*\))|\(\s*check:(?P<check>[^()]*)\)", re.IGNORECASE
)
_TRIVIAL: Final = re.compile(
    r"(?:/bin/|/usr/bin/)?true|:|exit(?: 0)?|(?:echo|printf)\b[^;&|]*|.*(?:\|\||;)\s*(?:true|:|exit 0)"
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
    command = _COMMAND_AT_END.search(stated)
    return Criterion(
        text=(stated[: command.start()].rstrip(" :,;") if command else stated) or stated or text,
        manual=any(match["manual"] for match in marks),
        check=checks[0] if checks else None,
        command=command["command"] if command else None,
    )


def hides_a_command(criterion: Criterion) -> bool:
    """Whether the text holds a `` `$ command` `` that covers nothing because it does not stand at the end."""
    return criterion.command is None and _COMMAND.search(criterion.text) is not None


def parse_commands(line: str) -> tuple[str, ...]:
    """The commands of a line that begins with `$ ` (the rest of it) or with `` `$ command` `` (all of that form)."""
    stripped = line.strip()
    if stripped.startswith("$ "):
        return (stripped[2:].strip(),)
    if _COMMAND.match(stripped):
        return tuple(match["command"] for match in _COMMAND.finditer(stripped))
    return ()


def is_only_code(line: str) -> bool:
    """Whether the line is one code span, as somebody writes a command who forgets the `$`."""
    return re.fullmatch(r"(`+)[^`]+\1[\s.;]*", line.strip()) is not None


def is_trivial(command: str) -> bool:
    """Whether the command cannot fail, so that it proves nothing; pointed out at approval (ruling R18)."""
    return _TRIVIAL.fullmatch(command.strip()) is not None
