"""Requests of work that was given up are closed: nobody is to merge what nobody accepts any more (rulings R7, R15).

Given up is a stream that a changed text replaced, a task that its document was approved without, and one that a person
skipped in its loop. Derived from the log, and done where it was not done yet, as any other effect (ruling R9).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from irontree.app import App
from irontree.domain.events import IssueEvent, Record
from irontree.domain.state import TaskState
from irontree.errors import FORGE_FAILED, LogDamaged
from irontree.ports import Stream
from irontree.services.delivery.comment import comment_marker, post_once
from irontree.services.world import World

_RENEWED: Final = "its text was changed and approved anew, and the work begins again"
_CANCELLED: Final = "its document was approved without it"
_SKIPPED: Final = "its task was skipped"


def withdraw_requests(app: App, world: World, skipped: Collection[str]) -> None:
    """Close what is open of them, with a comment that says why; *skipped* are task keys.

    What the forge does not take now is done the next time. The caller holds the driver lock.
    """
    for state in world.states.values():
        dropped = _CANCELLED if state.task_key in world.cancelled else _SKIPPED if state.task_key in skipped else ""
        given_up = _given_up(state, dropped)
        cursor = app.deliveries.load(state.issue_number)
        if state.problem or given_up == cursor.withdrawn:
            continue
        try:
            for number, why, marker in _requests(app, state, dropped):
                _withdraw(app, state, number, why, marker)
        except (*FORGE_FAILED, LogDamaged) as error:
            app.progress.note(f"an old request of #{state.issue_number} could not be closed: {error.message}")
        else:
            app.deliveries.save(state.issue_number, replace(cursor, withdrawn=given_up))


def _given_up(state: TaskState, dropped: str) -> str:
    """What was given up of an issue, as a name: its earlier stream, and the request of a task that was *dropped*."""
    request = str(state.request) if state.request and dropped else ""
    return f"{state.renewed_from} {request}".strip()


def _requests(app: App, state: TaskState, dropped: str) -> Iterator[tuple[int, str, str]]:
    """Number, reason and the marker of our comment, of each."""
    streams = [(app.log.read_archived(name), _RENEWED) for name in app.log.archives(state.issue_number)]
    if dropped and not state.done:
        streams.append((app.log.read(state.issue_number), dropped))
    for stream, why in streams:
        for number in dict.fromkeys(_named_in(stream)):
            yield number, why, comment_marker(state.issue_number, stream.records[-1], f"/request-{number}")


def _named_in(stream: Stream) -> Iterator[int]:
    return (int(record.meta["request"]) for record in stream.records if _proposes(record))


def _proposes(record: Record[IssueEvent]) -> bool:
    return record.event.event == "verify_pending_acceptance" and "request" in record.meta


def _withdraw(app: App, state: TaskState, number: int, why: str, marker: str) -> None:
    request = app.forge().read_pull_request(number)
    if request is None or request.state != "open":
        return
    said = f"This is not wanted any more: issue #{state.issue_number} was given up as it was, for {why}."
    post_once(app, number, f"{said}\n\n{marker}\n", marker)
    app.forge().edit_pull_request(number, state="closed")
    app.progress.note(f"request #{number} of #{state.issue_number} was closed: {why}")
