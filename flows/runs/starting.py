"""What becomes of a run whose process has ended, as whoever started that process tells the server."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import State, StateType
from prefect.client.schemas.responses import SetStateStatus
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Crashed, Scheduled

from irontree.app import SystemClock
from irontree.flows.runs.runs import connect
from irontree.store.layout import Layout
from irontree.store.locks import FileLock

AGAIN: Final = "Starts again"
UNDER_WAY: Final = (StateType.PENDING, StateType.RUNNING)
"""Where a process leaves its run that ends without a word; every other state is somebody's decision."""


class OnServer:
    """Tells the configured server of runs of the repositories at *roots*; each call raises ServerUnavailable.

    A run at which another process works is left alone: its state was changed by hand, and that process goes on.
    """

    def __init__(self, roots: Collection[Path] = ()) -> None:
        self._roots = roots

    def start_again(self, run_id: UUID, pause: float, said: str) -> bool:
        """Schedule the run anew after *pause* seconds; `False` if it is not under way."""
        at = datetime.now(UTC) + timedelta(seconds=pause)
        return self._move(run_id, Scheduled(name=AGAIN, message=said, scheduled_time=at))

    def crash(self, run_id: UUID, said: str) -> bool:
        """Say that it crashed; `False` if it is not under way."""
        return self._move(run_id, Crashed(message=said))

    def _move(self, run_id: UUID, to: State[Any]) -> bool:
        with connect() as client:
            try:
                before = client.read_flow_run(run_id).state
            except ObjectNotFound:
                return False
            if before is None or before.type not in UNDER_WAY or self._is_at_work(run_id):
                return False
            return put(client, run_id, before, to)

    def _is_at_work(self, run_id: UUID) -> bool:
        locks = (Layout(root).alive(str(run_id)) for root in self._roots)
        return any(FileLock(path, SystemClock(), "").holder() for path in locks if path.exists())


def put(client: SyncPrefectClient, run_id: UUID, before: State[Any], to: State[Any]) -> bool:
    """Move the run from the state *before*; `False` if it was cancelled in between, which then counts."""
    # Its process is gone: with that noted, Prefect would leave a run that is cancelled now to whoever ends it.
    client.request("PATCH", "/flow_runs/{id}", path_params={"id": run_id}, json={"infrastructure_pid": None})
    answer = client.set_flow_run_state(run_id, to)
    if answer.status is not SetStateStatus.ACCEPT or answer.state is None:
        return False
    history = sorted(client.read_flow_run_states(run_id), key=lambda state: state.timestamp)
    ids = [state.id for state in history]
    replaced = history[ids.index(answer.state.id) - 1] if answer.state.id in ids else before
    if replaced.type in (StateType.CANCELLING, StateType.CANCELLED):
        client.set_flow_run_state(run_id, Cancelled(message=replaced.message), force=True)
        return False
    return True
