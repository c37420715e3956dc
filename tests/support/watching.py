"""Ports that tell of their calls, so that a test can look, or die, at exactly that moment."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Literal

from irontree.app import App

Side = Literal["before", "after"]
Tell = Callable[[str, Side], None]


class Watched:
    """Stands for *port*; *tell* hears of each call of *methods*: its name (`append:run_started`), and the side."""

    def __init__(self, port: Any, methods: Collection[str], tell: Tell) -> None:
        self._port = port
        self._methods = methods
        self._tell = tell

    @property
    def __class__(self) -> type:
        """A double that asks for its own kind finds it."""
        return type(self._port)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name not in self._methods:
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            event = getattr(arguments[0], "event", None) if arguments else None
            label = f"{name}:{event}" if event else name
            self._tell(label, "before")
            result = found(*arguments, **named)
            self._tell(label, "after")
            return result

        return call


class Killed(BaseException):
    """The driver is gone; nothing tidies up."""


def dying(side: Side, times: int = 1) -> Tell:
    """Die on this side of the first *times* calls; later ones go through."""
    left = times

    def tell(_: str, now: Side) -> None:
        nonlocal left
        if now == side and left:
            left -= 1
            raise Killed

    return tell


def dying_at(side: Side, call: int) -> Tell:
    """Die on this side of that call (from 1) alone."""
    left = call

    def tell(_: str, now: Side) -> None:
        nonlocal left
        left -= now == side
        if left == 0:
            left = -1
            raise Killed

    return tell


EFFECTS = {
    "log": ("append", "archive", "record_reply"),
    "loops": ("append", "write_entity", "change_entity"),
    "plans": ("save",),
    "results": ("save",),
    "projections": ("write",),
    "deliveries": ("save",),
    "agent_requests": ("save", "save_draft"),
    "run_lock": ("write", "remove"),
    "repository": ("keep", "publish", "back_up", "mark_history"),
}
FORGE = ("create_issue", "create_pull_request", "edit_issue", "post_comment", "ensure_labels", "set_labels")
WORKSPACE = ("prepare", "commit", "commit_document", "salvage", "merge")


Watch = Callable[[str, Any, Collection[str]], Any]
"""Makes a port of that name one whose methods are watched."""


class WatchedRepository(Watched):
    """A repository, watched already, whose workspaces are watched too."""

    def __init__(self, watched: Any, watch: Watch) -> None:
        super().__init__(watched, (), lambda *_: None)
        self._watch = watch

    def workspace(self, *arguments: Any) -> Any:
        return self._watch("workspace", self._port.workspace(*arguments), WORKSPACE)


def watched_app(app: App, watch: Watch) -> App:
    """The App with every port watched that has effects."""
    ports = {name: watch(name, getattr(app, name), methods) for name, methods in EFFECTS.items()}
    return replace(
        app,
        **ports | {"repository": WatchedRepository(ports["repository"], watch)},
        checks=lambda: watch("checks", app.checks(), ("run",)),
        forge=lambda: watch("forge", app.forge(), FORGE),
        agent=lambda spec: watch("agent", app.agent(spec), ("attempt",)),
    )
