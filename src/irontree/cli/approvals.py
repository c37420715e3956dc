"""The approvals that only a Prefect server knows of, for a listing that most often has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from irontree.flows.local.unknown import is_unknown_to_servers

if TYPE_CHECKING:
    from irontree.app import App
    from irontree.services.inbox import Waiting


@dataclass(frozen=True, slots=True)
class Approvals:
    """Those that forms ask for, before anything is in the log; *unknown* says why there may be more, else empty."""

    waiting: tuple[Waiting, ...] = ()
    unknown: str = ""


def approvals_waiting(app: App) -> Approvals:
    """What the server of *app* says that it asks the approval of; a server that is away is no reason to fail."""
    if is_unknown_to_servers(app):
        return Approvals()
    from irontree.cli.awaiting import asked_by_server

    return asked_by_server(app)
