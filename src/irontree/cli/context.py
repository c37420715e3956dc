"""What a verb is given: options, console and the repository's ports; also resolves which issue is meant."""

from __future__ import annotations

import argparse
import getpass
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from irontree.cli.console import Console
from irontree.cli.parser import Declaration
from irontree.domain.text import shell_word, suggestion
from irontree.errors import NotEligible

if TYPE_CHECKING:  # `irontree agents replay` opens no repository, and starts for each attempt
    from irontree.app import App
    from irontree.domain.state import TaskState
    from irontree.ports import Cancellation
    from irontree.services.record import World


class Verb:
    """A verb: *run* returns the exit code; *arguments* are in the order of its help.

    *epilog* ends its help: text to be wrapped, or several lines as they are.
    """

    def __init__(self, run: Callable[[Context], int], *arguments: Declaration, epilog: str | None = None) -> None:
        self.run = run
        self.arguments = arguments
        self.epilog = epilog


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
        """The ports of the repository for read-only use: git is not asked for the user's name."""
        from irontree.app import Origin
        from irontree.bootstrap import open_app

        return open_app(self.folder, origin=Origin(actor=""), progress=self.console)

    def open(self, *, cancel: Cancellation | None = None) -> App:
        """The ports of the repository, on behalf of the user; raises what `bootstrap.open_app` raises."""
        from irontree.app import Origin
        from irontree.bootstrap import open_app

        app = open_app(self.folder, origin=Origin(actor=""), cancel=cancel, progress=self.console)
        return replace(app, origin=Origin(actor=app.repository.user_name() or login_name()))

    @contextmanager
    def interruptible(self) -> Iterator[threading.Event]:
        """Within the block, Ctrl-C asks the step to stop and keep what was done; a second one ends it at once."""
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
    """The log-in name of the user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        return f"user {os.getuid()}"


def this_program() -> str:
    """How to call this program, so that commands shown can be pasted if `irontree` is not on PATH (`make demo`)."""
    called = sys.argv[0]
    return shell_word(called) if called.endswith("/irontree") and not shutil.which("irontree") else "irontree"


def program_for(root: Path | None) -> str:
    """How to call this program from here for the repository at *root*.

    With `-C` from anywhere but its top, where the paths of documents begin.
    """
    if root is None:
        return "irontree"
    place = place_of(root)
    return f"{this_program()} -C {shell_word(place)}" if place else this_program()


def place_of(root: Path) -> str:
    """The folder *root* as it is typed here; empty if this is it."""
    here = Path.cwd()
    if here == root:
        return ""
    return os.path.relpath(root, here) if here.is_relative_to(root) else str(root)


def as_typed_here(text: str, verbs: Iterable[str], folder: Path) -> str:
    """*text* of ours, its commands about the repository that *folder* is in as they have to be typed here."""
    folder = folder.resolve()
    root = next((place for place in (folder, *folder.parents) if (place / ".mino").is_dir()), folder)
    command = rf"(?<![\w./-])irontree (?=({'|'.join(verbs)})\b)"
    return re.sub(command, lambda at: f"{this_program() if at[1] == 'example' else program_for(root)} ", text)


# --- Which issue is meant


def find_issue(world: World, text: str) -> TaskState:
    """The issue that `issue-12`, `#12`, `12` or a task key names; raises NotEligible if the log knows none."""
    return world.state(find_number(world, text))


def find_number(world: World, text: str) -> int:
    """Its number, even if its log cannot be read; raises NotEligible for an unknown key."""
    from irontree.domain.ids import typed_issue

    number = typed_issue(text)
    if number is not None:
        return number
    if text in world.states:
        return world.states[text].issue_number
    raise NotEligible(
        f"{text!r} is no issue (issue-12, #12, 12) and no task key here{suggestion(text, world.states)}",
        remedy="`irontree status` lists them",
    )
