"""After an answer that came from elsewhere than the form: let the run that waited for it start again.

The answer is in the log already, so nothing is lost when this finds no server. Prefect is imported only if one runs.
"""

from __future__ import annotations

from contextlib import suppress

from irontree.app import App
from irontree.errors import ServerUnavailable
from irontree.flows.server.connection import adopt, environment_of_server, state_folder
from irontree.services.loops.loop import read_loops
from irontree.services.record import read_world


def wake_run(app: App, issue_number: int) -> str | None:
    """Start the issue's suspended run again, and the loop that halted there; what was started, in words.

    None where no server runs: `irontree task resume` goes on by the log then. Raises ServerUnavailable if a
    configured server does not answer.
    """
    environment = environment_of_server(app)
    if environment is None:
        return None
    adopt(environment, state_folder())
    return _start_again(app, issue_number)


def close_overtaken(app: App) -> None:
    """Let suspended runs end whose loop was cancelled or whose task was skipped; the janitor does what this cannot."""
    environment = environment_of_server(app)
    if environment is None:
        return
    adopt(environment, state_folder())
    from irontree.flows.runs.recovery import wake_overtaken  # noqa: PLC0415  (the settings above come first)

    with suppress(ServerUnavailable):
        wake_overtaken(app)


def _start_again(app: App, issue_number: int) -> str | None:
    from irontree.flows.runs.recovery import take_up, wake  # noqa: PLC0415
    from irontree.flows.runs.runs import url_for  # noqa: PLC0415  (the settings above come first)
    from irontree.tasks.artifacts import mirror  # noqa: PLC0415

    mirror(app)
    state = read_world(app).state(issue_number)
    woken = wake(app, issue_number)
    for loop in read_loops(app)[0]:
        if loop.entity.status == "halted" and loop.entity.halt_at_task_key == state.task_key:
            run = take_up(app, loop.id)
            return f"loop {loop.id} goes on: {url_for(run.id)}" if run else None
    return f"its run goes on: {url_for(woken[0].id)}" if woken else None
