"""The comment watches of many repositories, for as long as they are served."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from irontree.app import App
from irontree.flows.lifecycle.commenting import CommentWatch
from irontree.flows.local.duties import Say


class Watches:
    """One for each repository that was added; one that died is replaced with the next `look`."""

    def __init__(self, say: Say, watch_of: Callable[[App], CommentWatch] = CommentWatch.of) -> None:
        self._say = say
        self._watch_of = watch_of
        self._watches: list[tuple[App, CommentWatch]] = []
        self._held = ExitStack()
        self._told: dict[str, str] = {}

    def add(self, app: App) -> None:
        """Look at the comments of *app* from now on."""
        self._watches.append((app, self._held.enter_context(self._watch_of(app))))

    def remove(self, app: App) -> None:
        """Look at the comments of *app* no more; what is being recorded ends first."""
        for found in [found for found in self._watches if found[0] is app]:
            self._watches.remove(found)
            found[1].end()

    def look(self) -> None:
        """Replace those that died, and say so; say once of each trouble that keeps comments from being looked at."""
        for app, watch in [found for found in self._watches if found[1].died()]:
            self._watches.remove((app, watch))
            self._say(app, "who looks at comments died; another goes on")
            self.add(app)
        for app, watch in self._watches:
            if watch.trouble and watch.trouble != self._told.get(app.repository.id):
                self._say(app, f"comments: {watch.trouble}")
            self._told[app.repository.id] = watch.trouble

    def hurry(self) -> None:
        """Have the comments of all of them looked at now."""
        for _, watch in self._watches:
            watch.hurry()

    def stop(self) -> None:
        """Look no more."""
        for _, watch in self._watches:
            watch.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()
