"""A flow whose process ends while it is imported, as often as a file says: its run is pending then."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from prefect import flow
from prefect.states import Completed, State

from irontree.flows.server.programs import begin

STUMBLES: str = "IRONTREE_TEST_STUMBLES"
"""The file with a letter for each start that is to fail: `e` exits, `k` is killed, `x` exits well, `h` hangs.

One that hangs leaves its number beside the file.
"""


def _stumble(plan: Path) -> None:
    left = plan.read_text()
    plan.write_text(left[1:])
    match left[:1]:
        case "e":
            os._exit(3)
        case "k":
            os.kill(os.getpid(), signal.SIGKILL)
        case "x":
            os._exit(0)
        case "h":
            plan.with_name("number").write_text(str(os.getpid()))
            plan.with_name("number").rename(plan.with_name("hangs"))
            time.sleep(600)


if "PREFECT__FLOW_RUN_ID" in os.environ:
    _stumble(Path(os.environ[STUMBLES]))


@flow
async def stumbling() -> State[object]:
    """Ends at once."""
    begin()
    return Completed(name="Walked")
