"""Work that an attempt left behind when its service turned it away: the next attempt goes on from it (ruling R5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Final

from irontree.app import App
from irontree.domain.attempt import FailureClass
from irontree.domain.events import IssueEvent, Record
from irontree.domain.state import TaskState
from irontree.ports import Stream

_TURNED_AWAY: Final[frozenset[FailureClass]] = frozenset({"rate_limited", "unreachable", "not_authenticated"})
"""Behind these the agent ended by itself, so what it wrote is whole. Of one that was killed nobody knows that."""


def put_aside(app: App, state: TaskState) -> str | None:
    """The commit that keeps the work of the newest such attempt since the last one that counted; None without one."""
    refs = (str(record.meta["salvage_ref"]) for record in _turned_away(app.log.read(state.issue_number)))
    ref = next(refs, None)
    return app.repository.read_ref(ref) if ref else None


def _turned_away(stream: Stream) -> Iterator[Record[IssueEvent]]:
    since = takewhile(lambda record: record.event.event != "run_completed", reversed(stream.records))
    for record in since:
        agent = record.meta.get("agent")
        failure = agent.get("failure") if isinstance(agent, Mapping) else None
        if record.event.event == "run_interrupted" and failure in _TURNED_AWAY and "salvage_ref" in record.meta:
            yield record
