"""What the log says that others may want to hear of: every event of every issue and loop, as a plain value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from irontree.app import App
from irontree.domain.credentials import without_secrets
from irontree.domain.events import IssueEvent, Record
from irontree.domain.loop_events import LoopEvent
from irontree.services.loops.loop import read_loops
from irontree.services.projections.narrate import say_issue_event, say_loop_event
from irontree.services.world import read_world


@dataclass(frozen=True, slots=True)
class Happening:
    """One event of the *stream* `issue.12` or `loop.ID`; *payload* holds its keys, `said` (in words) and `time`.

    *place* tells the streams apart that an issue had one after the other: each begins at sequence 1 (ruling R7).
    """

    event: str
    stream: str
    place: str
    sequence: int
    payload: Mapping[str, Any]


def happenings(app: App, after: Mapping[str, int]) -> Iterator[Happening]:
    """All events behind the sequences that *after* names by place, the oldest first in each."""
    for number, replay in sorted(read_world(app).replays.items()):
        if replay.state is None:
            continue
        stream = f"issue.{number}"
        place = "/".join(filter(None, (stream, replay.state.renewed_from)))
        if replay.state.sequence > after.get(place, 0):
            yield from _behind(after.get(place, 0), stream, place, app.log.read(number).records)
    for loop in read_loops(app)[0]:
        stream = f"loop.{loop.id}"
        if loop.sequence > after.get(stream, 0):
            yield from _behind(after.get(stream, 0), stream, stream, app.loops.read(loop.id).records)


def _behind(sequence: int, stream: str, place: str, records: Iterable[Record[Any]]) -> Iterator[Happening]:
    for record in records:
        event: IssueEvent | LoopEvent = record.event
        if event.sequence > sequence:
            words = say_loop_event(record) if isinstance(event, LoopEvent) else say_issue_event(record)
            told = {"said": without_secrets(words), "time": str(record.meta.get("time", ""))}
            yield Happening(event.event, stream, place, event.sequence, event.model_dump(mode="json") | told)
