"""Lists of runs are whole, though Prefect's server gives them page by page."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Paused

from irontree.flows.runs import runs


class Server:
    """A client whose server has so many suspended runs, with the keys 0, 1, 2 …"""

    def __init__(self, number: int) -> None:
        state, flow = Paused(), uuid.uuid4()
        self._runs = [FlowRun(flow_id=flow, idempotency_key=str(n), state=state) for n in range(number)]
        self.asked = 0

    def read_flow_runs(self, *, flow_run_filter, offset: int = 0, **_: object) -> list[FlowRun]:
        self.asked += 1
        keys = flow_run_filter.idempotency_key
        found = [run for run in self._runs if keys is None or run.idempotency_key in keys.any_]
        return found[offset : offset + runs.PAGE]


LISTS: list[Callable[[Server], object]] = [
    lambda server: runs.taken_up(server, "ws"),
    lambda server: runs.crashed(server, "ws", "intake"),
    lambda server: runs.suspended_runs(server, "ws"),
    lambda server: runs.find_runs(server, [str(n) for n in range(1000)]),
]


@pytest.mark.parametrize("found", LISTS)
@pytest.mark.parametrize("number", [0, 1, runs.PAGE, 2 * runs.PAGE + 1])
def test_a_list_is_whole_however_long(found, number: int):
    assert len(found(Server(number))) == number


def test_what_fits_into_one_answer_is_asked_for_once():
    server = Server(3)
    runs.suspended_runs(server, "ws")
    runs.find_runs(server, ["0", "1"])
    assert server.asked == 2
