"""What a verb gets: its options, where to print, where to work; and the way to the repository's ports."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from irontree.cli.console import Console

if TYPE_CHECKING:
    import threading

    from irontree.app import App
    from irontree.ports import Cancellation


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
        from irontree.app import Origin
        from irontree.bootstrap import open_app

        return open_app(self.folder, origin=Origin(actor=""), progress=self.console)

    def open(self, *, cancel: Cancellation | None = None) -> App:
        """The ports of the repository, on behalf of who types; raises what `bootstrap.open_app` raises."""
        from irontree.app import Origin
        from irontree.bootstrap import open_app

        app = open_app(self.folder, origin=Origin(actor=""), cancel=cancel, progress=self.console)
        return replace(app, origin=Origin(actor=app.repository.user_name() or login_name()))

    @contextmanager
    def interruptible(self) -> Iterator[threading.Event]:
        """Ctrl-C asks the step in the block to stop and keep what was done; a second one ends it at once."""
        import signal
        import threading

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
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container with a number for a user
        return f"user {os.getuid()}"
