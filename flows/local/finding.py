"""Which Prefect server a command has to do with, without starting one and without importing Prefect."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import quote

from irontree.app import App
from irontree.errors import ServerUnavailable
from irontree.flows.local.server_state import ServerState
from irontree.flows.local.settings import (
    chosen_api_url,
    configured_environment,
    local_environment,
    state_folder,
)


def environment_of_server(app: App) -> Mapping[str, str] | None:
    """The settings of a process that uses the server of *app*: the configured one, or the private one if it runs."""
    home = state_folder()
    configured = chosen_api_url(os.environ, app.preferences().api_url)
    if configured:
        return configured_environment(os.environ, home, configured)
    try:
        address = ServerState(home).address()
    except OSError:  # where no file can be made no server can live, and who only looks needs none
        return None
    return local_environment(os.environ, home, address.api_url) if address else None


def require_server(app: App) -> Mapping[str, str]:
    """The same, for what needs a server; raises ServerUnavailable if none runs."""
    environment = environment_of_server(app)
    if environment is None:
        raise ServerUnavailable(
            "no Prefect server runs here, and none is configured",
            remedy="start one with `irontree serve`, or set PREFECT_API_URL or prefect.api_url",
        )
    return environment


def ui_url(environment: Mapping[str, str]) -> str:
    """Where that server's pages are."""
    return environment.get("PREFECT_UI_URL") or environment["PREFECT_API_URL"].rstrip("/").removesuffix("/api")


def runs_url(ui: str, app: App) -> str:
    """The page of all runs of this repository, by their tag."""
    return f"{ui}/runs?tag=repository:{quote(app.repository.id)}"
