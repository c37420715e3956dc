"""What a server's automations are told besides the log: labelled issues, questions that wait for long.

The janitor tells it, and who serves; whichever sees it first.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from irontree.app import App
from irontree.errors import IrontreeError
from irontree.flows.lifecycle import runs
from irontree.flows.lifecycle.runs import Run
from irontree.ports import Issue
from irontree.services.world import read_world
from irontree.tasks.mirror import emit, emit_question, read_told, telling, write_told

HOUR: Final = 3600
REMINDED: Final = "reminded."
LABELLED: Final = "labelled."
AGAIN_SECONDS: Final = 600
"""What a server needs at most from the event to the run that asks."""


def tell_labelled(app: App) -> tuple[int, ...]:
    """Emit `irontree.issue_labelled` once for each open issue with the configured label that is not known here.

    Those numbers; none where no label is configured, or the forge does not answer now. Once more where the server has
    no run that asks, or asked, for its approval: the event was lost, or the server's database. Raises Busy, and
    ServerUnavailable.
    """
    label = app.preferences().automations.start_label
    if not label:
        return ()
    try:
        found = app.forge().open_issues(label)
    except IrontreeError as error:
        app.progress.note(f"the issues labelled {label} could not be read: {error.message}")
        return ()
    known = read_world(app).replays
    with telling(app):
        told, now = read_told(app), int(app.clock.now().timestamp())
        before = {issue.number: told.get(f"{LABELLED}{issue.number}") for issue in found if issue.number not in known}
        lost = _lost(app, [number for number, at in before.items() if at is not None and now - at >= AGAIN_SECONDS])
        fresh = [
            issue for issue in found if issue.number in before and (issue.number in lost or not before[issue.number])
        ]
        for issue in fresh:
            _tell_labelled(app, issue, label, before[issue.number] or 0)
        if fresh:
            write_told(app, told | {f"{LABELLED}{issue.number}": now for issue in fresh})
    return tuple(issue.number for issue in fresh)


def _lost(app: App, numbers: Collection[int]) -> frozenset[int]:
    """Those whose approval no run asks or asked for, though it was told long ago that one should."""
    if not numbers:
        return frozenset()
    with runs.connect() as client:
        asked = {run.parameters.get("document") for run in runs.of_flow(client, app.repository.id, "intake")}
    return frozenset(number for number in numbers if f"#{number}" not in asked)


def _tell_labelled(app: App, issue: Issue, label: str, before: int) -> None:
    """*before* is when it was told last: telling once more is another event."""
    payload = {"issue_number": issue.number, "title": issue.title, "label": label}
    stream, key = f"issue.{issue.number}", f"labelled:{issue.number}:{before}"
    emit("issue_labelled", workspace_id=app.repository.id, stream=stream, name=issue.title, payload=payload, key=key)


def remind(app: App) -> tuple[str, ...]:
    """Emit `irontree.question_waits` for each question, every so many hours that it is open; the names of the runs."""
    hours = app.preferences().automations.remind_hours
    if not hours:
        return ()
    with runs.connect() as client:
        asking = runs.suspended(client, app.repository.id)
    with telling(app):
        told, now = read_told(app), app.clock.now()
        spans = {_asking_of(run): _spans(run, now, hours) for run in asking}
        due = [run for run in asking if spans[_asking_of(run)] > told.get(_asking_of(run), 0)]
        for run in due:
            passed, url = spans[_asking_of(run)], runs.url_for(run.id)
            title, key = f"This question has been open for {passed * hours} hours", f"{_asking_of(run)}:{passed}"
            emit_question(app, "question_waits", "", run.name, title=title, url=url, key=key)
        if due:
            others = {stream: n for stream, n in told.items() if not stream.startswith(REMINDED)}
            write_told(app, others | spans)
    return tuple(run.name for run in due)


def _asking_of(run: Run) -> str:
    """This asking of the run: one that asks anew is another."""
    return f"{REMINDED}{run.id}.{run.since:%Y%m%d%H%M%S}" if run.since else f"{REMINDED}{run.id}"


def _spans(run: Run, now: datetime, hours: int) -> int:
    """How often that many hours have passed since the run was suspended."""
    return int((now - run.since).total_seconds() // (hours * HOUR)) if run.since else 0
