"""`irontree ui [ISSUE | LOOP_ID]`: open the page of the waiting or working run in the browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from irontree.app import App
from irontree.cli.context import Context, Verb, find_issue
from irontree.cli.inbox import everything_waiting
from irontree.cli.parser import OK, argument
from irontree.errors import NotEligible
from irontree.flows.server.connection import adopt, require_server, runs_url, state_folder, ui_url
from irontree.processes.containers import FORGE_VARIABLES
from irontree.services.questions.questions import oldest_first
from irontree.services.record import read_world
from irontree.services.views.history import page_of_run


def run(context: Context) -> int:
    """Print the page's address and open it if there is a screen; raises ServerUnavailable if no server runs."""
    app = context.look()
    url = page(app, require_server(app), context.options.what)
    context.console.write(f"{url}\n")
    if not context.options.print and has_screen(os.environ, sys.platform):
        for name in FORGE_VARIABLES & os.environ.keys():  # the browser inherits this environment
            del os.environ[name]
        webbrowser.open(url)
    return OK


def page(app: App, environment: Mapping[str, str], what: str | None) -> str:
    """The page for *what*: an issue or a loop; if `None`, the question open longest, else all runs.

    Raises NotEligible for what has no run, ServerUnavailable if the server does not answer.
    """
    ui = ui_url(environment)
    if what is None:
        asking = (one.form_url for one in oldest_first(everything_waiting(app)[0]))
        return next(filter(None, asking), runs_url(ui, app))
    adopt(environment, state_folder())
    found = _loop_run(app, what) if what in app.loops.ids() else _issue_run(app, what)
    if found is None:
        raise NotEligible(f"{what} has no run on that server", remedy="`irontree status` says what comes next")
    return page_of_run(ui, found)


def has_screen(environ: Mapping[str, str], platform: str) -> bool:
    """Whether there is a screen on which a browser can open."""
    return platform == "darwin" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def _issue_run(app: App, what: str) -> UUID | None:
    from irontree.flows.runs import runs  # imports Prefect: its settings come first
    from irontree.flows.runs.runs import issue_key

    state = find_issue(read_world(app), what)
    with runs.connect() as client:
        found = runs.find_run(client, issue_key(app, state))
    return found.id if found else None


def _loop_run(app: App, loop_id: str) -> UUID | None:
    from irontree.flows.runs.recovery import newest_run  # as above

    found = newest_run(app, loop_id)
    return found.id if found else None


VERBS: Final = {
    "ui": Verb(
        run,
        argument(
            "what", metavar="ISSUE|LOOP_ID", nargs="?", help="its run (default: the one that waits, else all runs here)"
        ),
        argument("--print", action="store_true", help="print the address, and open nothing"),
    )
}
