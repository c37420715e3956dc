"""All that waits for a person in one repository: what its log asks, and the approvals that only a server knows of."""

from __future__ import annotations

from collections.abc import Mapping

from irontree.app import App
from irontree.cli.approvals import Approvals
from irontree.errors import ServerUnavailable, in_words
from irontree.flows.local.finding import environment_of_server, ui_url
from irontree.flows.local.unknown import is_unknown_to_servers
from irontree.services.inbox import FormUrl, Waiting, approval_waiting, waiting
from irontree.tasks.pages import page_of_run

NO_SERVER = (
    "no Prefect server runs, so approvals that a label or the night asks for are not in this list; "
    "`irontree serve` shows them again"
)


def everything_waiting(app: App) -> tuple[tuple[Waiting, ...], str]:
    """What the log of *app* asks, with links to forms where a server runs; approvals; and why there may be more."""
    if is_unknown_to_servers(app):
        return waiting(app), ""
    environment = environment_of_server(app)
    links = _form_url(ui_url(environment)) if environment else None
    approvals = _asked_by(app, environment)
    return (*waiting(app, links), *approvals.waiting), approvals.unknown


def asked_by_server(app: App) -> Approvals:
    """What the server of *app* says that it asks the approval of, or why that is not known."""
    return _asked_by(app, environment_of_server(app))


def _asked_by(app: App, environment: Mapping[str, str] | None) -> Approvals:
    if environment is None:
        automations = app.preferences().automations
        return Approvals(unknown=NO_SERVER if automations.start_label or automations.nightly else "")
    from irontree.flows.local.approvals import asked_approvals  # it imports the HTTP client

    form_url = _form_url(ui_url(environment))
    try:
        found = asked_approvals(app.repository.id, environment)
    except ServerUnavailable as error:
        return Approvals(unknown=in_words(error))
    return Approvals(tuple(approval_waiting(app, asked, form_url) for asked in found))


def _form_url(ui: str) -> FormUrl:
    return lambda run: page_of_run(ui, run)
