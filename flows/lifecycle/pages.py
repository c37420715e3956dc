"""Where a loop's issues are shown, and what it says of them on its own page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from irontree.app import App
from irontree.domain.state import TaskState
from irontree.errors import ServerUnavailable
from irontree.flows.lifecycle import runs
from irontree.flows.lifecycle.names import issue_key
from irontree.services.loops.loop import read_loop
from irontree.services.overview import title_of
from irontree.services.projections.narrate import say_issue_event
from irontree.services.world import read_world


def pages_of_issues(app: App, loop_id: str) -> Mapping[int, str]:
    """The pages of the runs of this loop's issues, by issue number, as far as there are any; none without a server."""
    states = read_world(app).states
    keys = {issue_key(app, states[key]): states[key] for key in read_loop(app, loop_id).keys if key in states}
    try:
        with runs.connect() as client:
            found = runs.find_runs(client, list(keys))
    except ServerUnavailable:
        return {}
    return {keys[key].issue_number: runs.url_for(run.id) for key, run in found.items()}


def row_title(app: App, state: TaskState) -> str:
    """The row of an issue on the loop's page: `#3 Split an expense`."""
    return f"#{state.issue_number} {title_of(read_world(app), state.task_key)}"


def what_happened(app: App, issue_number: int, *, after: int) -> Iterator[str]:
    """The events of the issue behind the sequence *after*, in words."""
    for record in app.log.read(issue_number).records:
        if record.event.sequence > after:
            yield f"#{issue_number} {say_issue_event(record)}"
