"""`irontree ui [ISSUE | LOOP_ID]`: open the page of what needs you, or of a run, in the browser."""

from __future__ import annotations

import html
import os
import sys
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from irontree.app import App
from irontree.cli.context import Context, Verb, find_issue
from irontree.cli.parser import OK, argument
from irontree.errors import NotEligible, ServerUnavailable
from irontree.files import remove
from irontree.flows.serve.approvals import anything_waits, credentials, page_needs_you
from irontree.flows.server.connection import adopt, require_server, runs_url, state_folder, strip, ui_url
from irontree.flows.server.links import SIGN_OUT, signed_in
from irontree.http_client import HttpError, UnusableAddress, open_client
from irontree.processes.containers import without_credentials
from irontree.services.record import read_world
from irontree.services.views.history import page_of_run

SIGN_OUT_SECONDS: Final = 10.0


def run(context: Context) -> int:
    """Print a link that signs the browser in, and open it if there is a screen.

    Raises ServerUnavailable if no server runs.
    """
    app, folder = context.look(), state_folder()
    try:
        environment = require_server(app)
    except ServerUnavailable as error:
        error.remedy = f"{error.remedy}. `irontree demo` has a server of its own: open the address that it printed"
        raise
    if context.options.sign_out:
        sign_out(environment)
        context.console.write("Every browser is signed out of the private server.\n")
        return OK
    given = strip(os.environ)
    url = signed_in(page(app, environment, context.options.what), folder)
    context.console.write(f"{url}\n")
    if not context.options.print and has_screen(given, sys.platform):
        os.environ.clear()  # the browser inherits this environment, which has the server's password
        os.environ.update(without_credentials(given))
        webbrowser.open(redirection(url, folder).as_uri())
    return OK


def redirection(url: str, folder: Path) -> Path:
    """A file of the user alone that leads a browser to *url*: its command line is shown to all users of the machine."""
    target = html.escape(url)
    path = folder / "open.html"
    remove(path)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={target}"><a href="{target}">Open</a>\n')
    return path


def sign_out(environment: Mapping[str, str]) -> None:
    """Sign all browsers out of the private server. Raises ServerUnavailable if it does not do that."""
    headers = credentials(environment)
    try:
        with open_client(headers, seconds=SIGN_OUT_SECONDS, https=False, direct=True) as client:
            client.post(f"{ui_url(environment)}{SIGN_OUT}").raise_for_status()
    except (HttpError, UnusableAddress) as error:
        raise ServerUnavailable(
            f"nobody was signed out: {error}",
            remedy="only a private server signs browsers in; end it to end every cookie",
        ) from error


def page(app: App, environment: Mapping[str, str], what: str | None) -> str:
    """The page for *what*: an issue or a loop; if `None`, what needs you on this server, else all runs here.

    The page of all runs as well where the server does not say what waits. Raises NotEligible for what has no run, and
    ServerUnavailable if the server does not answer for one.
    """
    ui = ui_url(environment)
    if what is None:
        with suppress(ServerUnavailable):
            return (anything_waits(environment) and page_needs_you(environment)) or runs_url(ui, app)
        return runs_url(ui, app)
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
            "what", metavar="ISSUE|LOOP_ID", nargs="?", help="its run (default: what needs you, else all runs here)"
        ),
        argument("--print", action="store_true", help="print the link, and open nothing"),
        argument("--sign-out", action="store_true", help="sign every browser out of the private server"),
    )
}
