"""Which flow a run is executed as, and whether it is at all: by what is served here, never by what the server says.

Whoever can write to a Prefect server can name a command, an environment, a folder, an entry point or steps that fetch
code, for a run, a deployment or the work pool. None of that is used by our runner and worker (decision 0024).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import prefect.runner.runner
import prefect.workers.process
from prefect import Flow
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import Abort
from prefect.flow_engine import load_flow_run
from prefect.flows import load_flow_from_entrypoint
from prefect.results import ResultRecord  # type: ignore[attr-defined]
from prefect.states import Failed
from prefect.utilities.processutils import command_to_string
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker

from irontree.errors import NotEligible
from irontree.flows.runs.runs import connect
from irontree.flows.serve.events import wait_no_longer
from irontree.flows.server.programs import end_with_runner

SERVED: Final = "IRONTREE__SERVED"
"""The variable by which flow processes know what their parent serves: by deployment id the entry point and folder."""
ENTRYPOINT: Final = "PREFECT__FLOW_ENTRYPOINT"
"""The variable by which Prefect's engine is told a flow, which goes before what the server says."""
COMMAND: Final = command_to_string([sys.executable, "-P", "-m", "prefect.engine"])
"""How a worker starts a flow: directly, with the Python that irontree is installed in. By default it starts a
supervisor first, which imports Prefect once more and puts the flow out of reach of the worker's end."""
TEMPLATE: Final[Mapping[str, Any]] = {
    "job_configuration": {
        "command": None,
        "env": {},
        "labels": {},
        "name": None,
        "stream_output": True,
        "working_dir": None,
    },
    "variables": {"type": "object", "properties": {}},
}
"""The job template of the work pool, in which no variable has any effect."""


@dataclass(frozen=True, slots=True)
class _Known:
    entrypoint: str
    repository: str | None


def serve_only(deployments: Mapping[str, Mapping[str, Any]]) -> None:
    """Have this process and its flow processes execute runs of these *deployments* (as `Served`, by id) alone."""
    believe_no_results()
    known = {key: [served["entrypoint"], served["parameters"].get("repository")] for key, served in deployments.items()}
    os.environ[SERVED] = json.dumps(known)
    os.environ[ENTRYPOINT] = f"{__name__}.flow"
    # With these, Prefect looks for hooks of a run that crashed or was cancelled, in this process: as for the run.
    for module in (prefect.runner.runner, prefect.workers.process):
        module.load_flow_from_flow_run = _flow_for_hooks  # type: ignore[attr-defined]


def believe_no_results() -> None:
    """Have this process decode no stored result: the state of a run can name one, and what decodes it runs anything.

    Prefect's engine reads one when a run cannot begin. Our flows store none.
    """
    for way in ("deserialize", "deserialize_from_result_and_metadata"):
        setattr(ResultRecord, way, _refused)


def _refused(*_: object, **__: object) -> Any:
    raise NotEligible("its state names a stored result, and flows of ours store none", remedy=_REMEDY)


def flow_of(run: FlowRun) -> Flow[..., Any]:
    """The flow that *run* is executed as; raises NotEligible for one that is none of ours or brings more than that."""
    served = {key: _Known(*value) for key, value in json.loads(os.environ.get(SERVED, "{}")).items()}
    known = served.get(str(run.deployment_id))
    if known is None:
        raise NotEligible("its deployment is none of those that are served here", remedy=_REMEDY)
    if run.job_variables:
        named = ", ".join(sorted(run.job_variables))
        raise NotEligible(f"it brings job variables ({named}), and none are taken from the server", remedy=_REMEDY)
    if run.parameters.get("repository") != known.repository:
        raise NotEligible("its repository is not that of its deployment", remedy=_REMEDY)
    return load_flow_from_entrypoint(known.entrypoint, use_placeholder_flow=False)


_REMEDY: Final = "if it is yours, delete it in Prefect and start it again with irontree"


async def _flow_for_hooks(flow_run: FlowRun, **_: object) -> Flow[..., Any]:
    return flow_of(flow_run)


def __getattr__(name: str) -> Flow[..., Any]:
    """`flow`: that of the run for which Prefect's engine started this process; one that is refused has failed."""
    if name != "flow":
        raise AttributeError(name)
    end_with_runner()
    believe_no_results()
    wait_no_longer()
    run = load_flow_run(UUID(os.environ["PREFECT__FLOW_RUN_ID"]))
    try:
        return flow_of(run)
    except NotEligible as error:
        with connect() as client:
            client.set_flow_run_state(run.id, Failed(message=f"Refused: {error.message}; {error.remedy}"), force=True)
        raise Abort(error.message) from error


# --- The worker


class _Configuration(ProcessJobConfiguration):
    """How a run is started; nothing of it comes from the server."""

    @classmethod
    async def from_template_and_values(cls, *_: object, **__: object) -> _Configuration:
        return cls(command=COMMAND, stream_output=True, working_dir=None)


def own_worker(pool: str, **settings: Any) -> ProcessWorker:
    """Prefect's worker for processes, which starts all of them in one way."""
    worker = ProcessWorker(pool, **settings)
    worker.job_configuration = _Configuration
    return worker
