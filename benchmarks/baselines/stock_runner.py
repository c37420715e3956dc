"""Prefect's runner as it comes: what `bar_i_dispatch` is compared with.

Does: takes up the runs of the deployments on its command line (JSON: entry point, name, parameters of each) and starts
`python -m prefect.engine` for each run, as often as Prefect's settings say; prints a line when it is ready.

Does not: look whether its parent lives, hand out credentials, refuse what the server says of a run.
"""

from __future__ import annotations

import asyncio
import json
import sys

from prefect.deployments.runner import RunnerDeployment
from prefect.runner import Runner
from prefect.settings import get_current_settings


async def main(deployments: list[dict[str, object]]) -> None:
    """Serve until killed."""
    runner = Runner(query_seconds=get_current_settings().worker.query_seconds, limit=3)
    for deployment in deployments:
        await runner.aadd_deployment(RunnerDeployment.from_entrypoint(**deployment))  # type: ignore[arg-type]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await runner.start()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
