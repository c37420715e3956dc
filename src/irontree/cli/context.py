"""What each verb gets: its parser, the repository it works in, the console it writes to, and its exit codes."""

from __future__ import annotations

import argparse
import getpass
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from irontree.app import App, Origin
from irontree.cli.console import Console
from irontree.domain.ids import typed_issue
from irontree.domain.state import TaskState
from irontree.domain.text import suggestion
from irontree.errors import NotEligible
from irontree.ports import Cancellation
from irontree.services.record import World

# --- argparse as this program uses it: usage errors reach the one error boundary, shared arguments are said once


COMMAND = "command"
_MISTYPED: Final = re.compile(r"unrecognized arguments: (?P<option>-\S+)|invalid choice: '(?P<choice>[^']+)'")
LAST_PORT = 65535


class UsageError(Exception):
    """The command line cannot be understood; *usage* shows what can."""

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """Raises UsageError; never guesses at shortened options, which would change meaning when one is added."""

    def __init__(self, **settings: object) -> None:
        super().__init__(allow_abbrev=False, **settings)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of printing and leaving."""
        raise UsageError(f"{message}{self._suggestion(message)}", self.format_usage())

    def _suggestion(self, message: str) -> str:
        """The option or choice that is nearest to the one that argparse complains of."""
        found = _MISTYPED.search(message)
        if found is None:
            return ""

        word = (found["option"] or found["choice"]).partition("=")[0]
        choices = (str(choice) for action in self._actions for choice in action.choices or ())
        return suggestion(word, self._option_string_actions if found["option"] else choices)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse options and arguments in any order; words behind `--` are left alone for `add_command`."""
        if not any(word.startswith("-") for word in words):  # nothing to find among them, and half the work
            return self.parse_args(words)
        if self.get_default(COMMAND) is None or "--" not in words:
            return self.parse_intermixed_args(words)
        cut = list(words).index("--")
        options = self.parse_intermixed_args(words[:cut])
        setattr(options, COMMAND, tuple(words[cut + 1 :]))
        return options


def add_command(parser: argparse.ArgumentParser) -> None:
    """Take the command line of another program behind `--`: its options are not ours."""
    parser.set_defaults(**{COMMAND: ()})


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`, for everything that prints data."""
    parser.add_argument("--json", action="store_true", help="print JSON (keys: docs/reference-cli.md)")


def add_issue(parser: argparse.ArgumentParser) -> None:
    """The issue that a verb is about."""
    parser.add_argument("issue", metavar="ISSUE", help="issue-12, #12, 12, or a task key")


def add_note(parser: argparse.ArgumentParser, purpose: str) -> None:
    """What a person wants to say; several words need no quotes."""
    parser.add_argument("note", metavar="NOTE", nargs="*", help=purpose)


def add_wait(parser: argparse.ArgumentParser, also: str = "") -> None:
    """`--wait`, for everything that needs the driver lock; *also* is what else is waited for."""
    parser.add_argument(
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


# --- What a verb gets: its options, where to print, the repository's ports; which issue is meant; exit codes


# --- What a verb gets


class Verb(NamedTuple):
    """What may be typed behind a verb, and what does it; `run` returns the exit code."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Context], int]


@dataclass(frozen=True, slots=True)
class Context:
    """One command: `folder` is in the repository it is about."""

    options: argparse.Namespace
    console: Console
    folder: Path

    def at(self, folder: Path) -> Context:
        """The same command, about another repository."""
        return replace(self, folder=folder)

    def look(self) -> App:
        """The ports of the repository, for who only looks: git is not asked for a name."""
        from irontree.bootstrap import open_app

        return open_app(self.folder, origin=Origin(actor=""), progress=self.console)

    def open(self, *, cancel: Cancellation | None = None) -> App:
        """The ports of the repository, on behalf of who types; raises what `bootstrap.open_app` raises."""
        from irontree.bootstrap import open_app

        app = open_app(self.folder, origin=Origin(actor=""), cancel=cancel, progress=self.console)
        return replace(app, origin=Origin(actor=app.repository.user_name() or login_name()))

    @contextmanager
    def interruptible(self) -> Iterator[threading.Event]:
        """Ctrl-C asks the step in the block to stop and keep what was done; a second one ends it at once."""
        cancel = threading.Event()

        def stop(*_: object) -> None:
            if cancel.is_set():
                raise KeyboardInterrupt
            cancel.set()
            with suppress(RuntimeError):  # came in the middle of another line
                self.console.note("stopping; what was done is kept (Ctrl-C again: at once)")

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield cancel
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def login_name() -> str:
    """Who types, by the log-in."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container with a number for a user
        return f"user {os.getuid()}"


# --- Which issue somebody means, and which step of it


def find_issue(world: World, text: str) -> TaskState:
    """The issue that `issue-12`, `#12`, `12` or a task key names; raises NotEligible if the log knows none."""
    return world.state(find_number(world, text))


def find_number(world: World, text: str) -> int:
    """Its number, even if nothing of its log can be read; raises NotEligible for a key that nobody has."""
    number = typed_issue(text)
    if number is not None:
        return number
    if text in world.states:
        return world.states[text].issue_number
    raise NotEligible(
        f"{text!r} is no issue (issue-12, #12, 12) and no task key here{suggestion(text, world.states)}",
        remedy="`irontree status` lists them",
    )


# --- What the program says to the shell


OK: Final = 0
REFUSED: Final = 1
"""Refused, halted, or failed as it may."""
USAGE: Final = 2
BUG: Final = 3
INTERRUPTED: Final = 130
