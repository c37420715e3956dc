"""What the templates of the UI's pages (`artifacts/`) get, and what they show of tasks; see `views`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WaitingView:
    """A task that cannot start, and why."""

    number: int
    title: str
    phase: str
    waits_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TreeRowView:
    """A task of a loop. `run` is the page of its flow run; addresses are empty where there is none."""

    number: int
    depth: int
    title: str
    state: str
    attempts: str = ""
    commit: str = ""
    run: str = ""
    address: str = ""
    commit_address: str = ""


@dataclass(frozen=True, slots=True)
class TreeView:
    """All tasks of a loop; `picture` is the address of a drawing of them, empty if there are too many."""

    loop_id: str
    done: int
    total: int
    picture: str
    rows: tuple[TreeRowView, ...]


@dataclass(frozen=True, slots=True)
class HappenedView:
    """One event, in words."""

    time: str
    said: str


@dataclass(frozen=True, slots=True)
class StoryView:
    """What a run's page says of its issue: where it stands, its links, the open question, what happened."""

    number: int
    title: str
    state: str
    attempts: str
    happened: tuple[HappenedView, ...]
    question: str = ""
    """The text of the open question's form, Markdown of our own making."""
    address: str = ""
    commit: str = ""
    commit_address: str = ""
    request: str = ""
    report: str = ""
    """Where its newest verification report is shown."""


@dataclass(frozen=True, slots=True)
class InboxRowView:
    """An open question: `form` is where it is answered, `address` its issue's page; empty where there is none."""

    repository: str
    about: str
    what: str
    since: str = ""
    form: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class InboxView:
    """All that waits for a person in the repositories that are served together, oldest first."""

    host: str
    rows: tuple[InboxRowView, ...]
