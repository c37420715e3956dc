"""What a server's automations are told besides the log: labelled issues, questions that wait for long.

The janitor tells it, and who serves; whichever sees it first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
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
TELLINGS: Final = "tellings."
DECIDED: Final = "decided."
AGAIN_SECONDS: Final = 600
"""What a server needs at most from the event to the run that asks."""
LONGEST_SECONDS: Final = 24 * HOUR
ENDED: Final = frozenset({"COMPLETED", "CANCELLED", "FAILED"})
"""States of runs that do not go on by themselves: one that crashed is started again."""


def tell_labelled(app: App) -> tuple[int, ...]:
    """Emit `irontree.issue_labelled` once for each open issue with the configured label that is not known here.

    Those numbers; none where no label is configured, or the forge does not answer now. Again, each time after a longer
    wait, where the server has no run that asks for its approval: the event was lost, or the server's database, or its
    automation is paused. Not where a person was seen to have decided: the server drops the runs that tell of it in
    time. Raises Busy, and ServerUnavailable.
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
        due = [issue for issue in found if issue.number not in known and is_due(told, issue.number, now)]
        asking = _asking_for(app, [issue.number for issue in due if f"{LABELLED}{issue.number}" in told])
        fresh = [issue for issue in due if issue.number not in asking]
        for issue in fresh:
            _tell_labelled(app, issue, label, told.get(f"{LABELLED}{issue.number}", 0))
        news = was_decided(asking) | was_told(told, [issue.number for issue in fresh], now)
        if news:
            write_told(app, told | news)
    return tuple(issue.number for issue in fresh)


def is_due(told: Mapping[str, int], number: int, now: int) -> bool:
    """Whether it was never told, or long ago for how often it was, and nobody is known to have decided about it."""
    wait = AGAIN_SECONDS << min(told.get(f"{TELLINGS}{number}", 1) - 1, 16)
    is_long_ago = now - told.get(f"{LABELLED}{number}", 0) >= min(LONGEST_SECONDS, wait)
    return is_long_ago and f"{DECIDED}{number}" not in told


def was_told(told: Mapping[str, int], numbers: Iterable[int], now: int) -> dict[str, int]:
    """What to remember of those that were told: when, and how often by now."""
    often = {f"{TELLINGS}{number}": told.get(f"{TELLINGS}{number}", 0) + 1 for number in numbers}
    return often | {f"{LABELLED}{number}": now for number in numbers}


def was_decided(asking: Mapping[int, Collection[Run]]) -> dict[str, int]:
    """What to remember of those that a person was asked about, and no run asks about any more."""
    states = {number: {run.state for run in mine} for number, mine in asking.items()}
    return {f"{DECIDED}{number}": 1 for number, found in states.items() if found <= ENDED and found != {"FAILED"}}


def _asking_for(app: App, numbers: Collection[int]) -> Mapping[int, list[Run]]:
    """The runs that ask or asked for their approval; those that have none are left out."""
    if not numbers:
        return {}
    asking: defaultdict[str, list[Run]] = defaultdict(list)
    with runs.connect() as client:
        for run in runs.of_flow(client, app.repository.id, "intake"):
            asking[str(run.parameters.get("document"))].append(run)
    return {number: asking[f"#{number}"] for number in numbers if f"#{number}" in asking}


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
