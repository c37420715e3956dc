"""argparse for this program: usage errors reach the error boundary; shared arguments; exit codes.

`irontree --help` imports no more than this.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from irontree.domain.text import suggestion

COMMAND = "command"
_MISTYPED: Final = re.compile(r"unrecognized arguments: (?P<option>-\S+)|invalid choice: '(?P<choice>[^']+)'")
LAST_PORT = 65535


class UsageError(Exception):
    """The command line is invalid; *usage* shows what is valid."""

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """Raises UsageError; accepts no abbreviated options, whose meaning would change when one is added."""

    def __init__(self, **settings: object) -> None:
        super().__init__(allow_abbrev=False, **settings)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of printing and leaving."""
        raise UsageError(f"{message}{self._suggestion(message)}", self.format_usage())

    def _suggestion(self, message: str) -> str:
        """The option or choice nearest to the one that argparse rejected."""
        found = _MISTYPED.search(message)
        if found is None:
            return ""

        word = (found["option"] or found["choice"]).partition("=")[0]
        choices = (str(choice) for action in self._actions for choice in action.choices or ())
        return suggestion(word, self._option_string_actions if found["option"] else choices)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse options and arguments in any order; words behind `--` are left alone for `command_line`."""
        if not any(word.startswith("-") for word in words):  # no options to find: half the work
            return self.parse_args(words)
        if self.get_default(COMMAND) is None or "--" not in words:
            return self.parse_intermixed_args(words)
        cut = list(words).index("--")
        options = self.parse_intermixed_args(words[:cut])
        setattr(options, COMMAND, tuple(words[cut + 1 :]))
        return options


def command_line(parser: argparse.ArgumentParser) -> None:
    """Declare another program's command line after `--`; its options are not ours."""
    parser.set_defaults(**{COMMAND: ()})


Declaration = Callable[[argparse.ArgumentParser], None]
"""Declares an argument of a verb."""


def argument(*names: str, **settings: Any) -> Declaration:
    """Declare an argument or an option, as argparse takes it."""

    def declare(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(*names, **settings)

    return declare


JSON: Final = argument("--json", action="store_true", help="print JSON (keys: docs/reference-cli.md)")
"""For everything that prints data."""
ISSUE: Final = argument("issue", metavar="ISSUE", help="issue-12, #12, 12, or a task key")
"""The issue that a verb is about."""


def note(purpose: str) -> Declaration:
    """Declare the user's note; several words need no quotes."""
    return argument("note", metavar="NOTE", nargs="*", help=purpose)


def wait(also: str = "") -> Declaration:
    """`--wait`, for everything that needs the driver lock; *also* names what else it waits for."""
    return argument(
        "--wait",
        metavar="SECONDS",
        type=_seconds,
        default=0.0,
        help=f"how long to wait while somebody else is at work here{also} (default: not at all)",
    )


def positive(text: str) -> int:
    """A whole number above zero, as an argparse type."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def tcp_port(text: str) -> int:
    """A TCP port, as an argparse type."""
    number = positive(text)
    if number > LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text} is no port: they end at {LAST_PORT}")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


# --- Exit codes


OK: Final = 0
REFUSED: Final = 1
"""Refused, halted, or failed as expected."""
USAGE: Final = 2
BUG: Final = 3
INTERRUPTED: Final = 130
