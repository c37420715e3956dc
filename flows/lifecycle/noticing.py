"""What a server's automations are told besides the log: labelled issues, questions that wait for long.

The janitor tells it, and who serves; whichever sees it first.
"""

from __future__ import annotations

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


def tell_labelled(app: App) -> tuple[int, ...]:
    """Emit `irontree.issue_labelled` once for each open issue with the configured label that is not known here.

    Those numbers; none where no label is configured, or the forge does not answer now. Raises Busy.
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
        told = read_told(app)
        fresh = [issue for issue in found if issue.number not in known and f"labelled.{issue.number}" not in told]
        for issue in fresh:
            _tell_labelled(app, issue, label)
        if fresh:
            write_told(app, told | {f"labelled.{issue.number}": 1 for issue in fresh})
    return tuple(issue.number for issue in fresh)


def _tell_labelled(app: App, issue: Issue, label: str) -> None:
    payload = {"issue_number": issue.number, "title": issue.title, "label": label}
    stream, key = f"issue.{issue.number}", f"labelled:{issue.number}"
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
