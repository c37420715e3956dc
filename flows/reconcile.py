"""`reconcile`: compare the log with itself and with the forge, on a schedule or by hand (protocol, phase 6)."""

from __future__ import annotations

import asyncio

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from irontree.app import App
from irontree.flows.runs.recovery import fails_if_refused, hold_liveness
from irontree.services.consistency.reconcile import Reconciliation
from irontree.services.consistency.reconcile import reconcile as compare
from irontree.tasks.stages import WAIT_FOR_DRIVER, open_here


@flow(name="reconcile", flow_run_name="reconcile", retries=0, persist_result=False)
@fails_if_refused
async def reconcile(repository: str) -> State[None]:
    """Restore, record gaps and what happened outside, deliver what is due, make the briefs again.

    Args:
        repository: The folder of the repository.
    """
    app = await asyncio.to_thread(open_here, repository)
    async with hold_liveness(app):
        found = await asyncio.to_thread(_compare, app)
    for line in (*found.problems, *(change.line() for change in found.outside), *found.undelivered):
        get_run_logger().warning(line)
    for number, what in found.settled:
        get_run_logger().info("issue-%d: %s", number, what)
    return Completed(message=f"{len(found.open_questions)} questions open, {len(found.problems)} problems")


def _compare(app: App) -> Reconciliation:
    with app.driver.hold("reconcile", wait_seconds=WAIT_FOR_DRIVER):
        return compare(app)
