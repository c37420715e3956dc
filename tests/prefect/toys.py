"""A toy project on disk whose flows run against the session's server, and a runner inside this process."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.events.worker import EventsWorker
from prefect.states import Pending, State

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.domain.plan import Plan
from irontree.domain.state import TaskState
from irontree.flows.agent_request import agent_request
from irontree.flows.intake import intake
from irontree.flows.issue import issue
from irontree.flows.janitor import janitor
from irontree.flows.loop import loop
from irontree.flows.reconcile import reconcile
from irontree.flows.runs import forms, runs
from irontree.flows.runs.forms import FormQuestion
from irontree.flows.runs.recovery import newest_run, start_issue, take_up
from irontree.flows.runs.runs import RunInfo
from irontree.services.answers.approve import approve
from irontree.services.execution.publish import publish
from irontree.services.loops.loop import Loop, read_loop
from irontree.services.proposals.sources import propose
from irontree.services.record import read_world
from tests.integration.crash.laboratory import lay_out
from tests.prefect.harness import deploy, drive
from tests.support.approving import write_plan

FLOWS: Final[Mapping[str, Flow[..., Any]]] = {
    "agent_request": agent_request,
    "intake": intake,
    "issue": issue,
    "janitor": janitor,
    "loop": loop,
    "reconcile": reconcile,
}
PATIENCE: Final = 60.0
AT_WORK: Final = (StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)
AGENT: Final = """\
echo "attempt $IRONTREE_ATTEMPT" > "$IRONTREE_TASK_KEY.txt"
if grep -q '[l]onger' "$IRONTREE_PROMPT_FILE"; then echo longer >> "$IRONTREE_TASK_KEY.txt"; fi
"""
"""Does what the note says, if it says longer."""
GREETING: Final = """\
# Toy

## Greeting

- [ ] it is there `$ test -f greeting.txt`
"""
FRIENDLY: Final = f"{GREETING}- [ ] it is friendly (manual)\n"
"""One task, and a criterion that only a person can judge."""
DIAMOND: Final = """\
# Toy

## Greeting

- [ ] it is there `$ test -f greeting.txt`

## Parts

### Left

Depends on: Greeting

- [ ] it is there `$ test -f parts-left.txt`
- [ ] it is pretty (manual)

### Right

Depends on: Greeting

- [ ] it is there `$ test -f parts-right.txt`

## Close

Depends on: Left, Right

- [ ] it is there `$ test -f close.txt`
"""
"""Two parts in a parent, between a first and a last task; a person judges one of them."""

Found = TypeVar("Found")


def wait_until(holds: Callable[[], Found | None], *, every: float = 0.2, patience: float = PATIENCE) -> Found:
    """What *holds* returns, once it returns something. Most ask the server, which takes 10 ms of it each time."""
    deadline = time.monotonic() + patience
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(every)
    return found


@dataclass(frozen=True)
class Toy:
    """The clone at *root*, known to the server: deployments of it are registered, and nobody serves them."""

    root: Path
    client: SyncPrefectClient
    flows: dict[UUID, threading.Thread] = field(default_factory=dict, compare=False)
    """What a runner in this process does for it, by run."""

    @property
    def app(self) -> App:
        return open_app(self.root, origin=Origin("ada", "command"))

    @cached_property
    def id(self) -> str:
        """It never changes, and to ask git for it at every look costs more than the look."""
        return self.app.repository.id

    # --- getting somewhere -----------------------------------------------------------------------------

    def deploy(self, *flows: str) -> None:
        """Register the deployments of these flows."""
        for name in flows:
            deploy(FLOWS[name], f"{name}-{self.id}", {"repository": str(self.root)}, tags=runs.tags(self.app))

    def deployment(self, flow: str) -> UUID:
        """That of the flow."""
        return runs.deployment_id(self.client, flow, self.id)

    def publish(self) -> None:
        """Approve the document, and publish its issues without a loop."""
        app = self.app
        proposal = propose(app, self.root / "SPEC.md")
        with app.driver.hold("publish"):
            publish(app, write_plan(app, proposal, proposal.name, "ada", loop_mode=False))

    def revision(self) -> str:
        """What somebody would approve."""
        return propose(self.app, self.root / "SPEC.md").name

    def plan(self) -> Plan:
        """The one that is approved last."""
        return self.app.plans.load(self.app.plans.revisions()[-1])

    def authorise(self) -> str:
        """Approve the document, publish its issues, and record its loop; the loop's id."""
        app = self.app
        proposal = propose(app, self.root / "SPEC.md")
        with app.driver.hold("publish"):
            return approve(app, proposal, proposal.name, "ada").id

    def start(self, number: int = 1, loop_id: str | None = None) -> UUID:
        """Have the run of that issue, as a loop or a janitor would."""
        return start_issue(self.app, self.state(number), loop_id).id

    def drive(self, run_id: UUID, flow: Flow[..., Any] = issue) -> State[Any]:
        """Play the process that a runner would start for that run."""
        return drive(flow, self.client, run_id)

    def answer(self, run_id: UUID, decision: str, note: str = "", **more: Any) -> None:
        """Fill in the form that is open, as somebody in the browser."""
        payload = {"decision": decision, "approver": "Ada", "note": note, **more}
        forms.answer_form(self.client, run_id, payload, key=self.asked(run_id).key)

    def go(self, loop_id: str) -> RunInfo:
        """Let the loop go as far as it does, and see where its run ended; somebody has to serve the toy."""
        assert take_up(self.app, loop_id)
        return self.rest(loop_id)

    def rest(self, loop_id: str) -> RunInfo:
        """The loop's newest run, once everything is settled."""
        self.settle()
        found = newest_run(self.app, loop_id)
        assert found
        return found

    def delete(self, run_id: UUID) -> None:
        """Delete the run, once its task runs are recorded: Prefect drops what other runs did along with later ones."""
        EventsWorker.drain_all(timeout=10)
        time.sleep(2)
        self.client.delete_flow_run(run_id)

    def settle(self) -> None:
        """Wait until every run of this toy has ended or asks; the server is asked once nothing is at work here."""
        wait_until(lambda: not self._is_at_work_here() and not self._found(*AT_WORK), every=0.4)

    def _is_at_work_here(self) -> bool:
        return any(thread.is_alive() for thread in list(self.flows.values()))

    # --- looking at it ---------------------------------------------------------------------------------

    def asked(self, run_id: UUID) -> FormQuestion:
        """What the run asks; its form is stored a moment after the run is suspended."""
        return wait_until(lambda: forms.open_question(self.client, run_id), patience=10)

    def state(self, number: int = 1) -> TaskState:
        return read_world(self.app).state(number)

    def loop(self, loop_id: str) -> Loop:
        return read_loop(self.app, loop_id)

    def events(self, number: int = 1) -> list[str]:
        return [record.event.event for record in self.app.log.read(number).records]

    def loop_events(self, loop_id: str) -> list[str]:
        return [record.event.event for record in self.app.loops.read(loop_id).records]

    def runs_of(self, number: int) -> list[RunInfo]:
        """All runs that this issue ever had."""
        return [run for run in self._runs() if run.parameters.get("number") == number]

    def all_runs(self) -> list[RunInfo]:
        """Whatever ran, or will run, for this toy."""
        return self._runs()

    def suspended(self) -> list[RunInfo]:
        """The open questions."""
        return self._runs(StateType.PAUSED)

    def _runs(self, *types: StateType) -> list[RunInfo]:
        return [runs.info_of(run) for run in self._found(*types)]

    def _found(self, *types: StateType) -> list[FlowRun]:
        mine = runs.of_repository(self.id)
        state = FlowRunFilterState(type=FlowRunFilterStateType(any_=list(types or StateType)))
        return self.client.read_flow_runs(deployment_filter=mine, flow_run_filter=FlowRunFilter(state=state))

    def rows(self, run_id: UUID, number: int) -> list[str]:
        """The names of the run's task runs, in order."""
        return [row["name"] for row in self.steps(run_id, number)]

    def steps(self, run_id: UUID, number: int) -> list[dict[str, Any]]:
        """The run's task runs, in order; the server records them, and then their states, a moment later."""
        EventsWorker.drain_all(timeout=10)
        mine = {"flow_runs": {"id": {"any_": [str(run_id)]}}}

        def recorded() -> list[dict[str, Any]] | None:
            found = self.client.request("POST", "/task_runs/filter", json=mine).json()
            return found if len(found) >= number and all(row["end_time"] and row["state"] for row in found) else None

        return sorted(wait_until(recorded), key=lambda row: row["start_time"])


def make_toy(
    folder: Path,
    client: SyncPrefectClient,
    spec: str,
    *flows: str,
    agent: str = AGENT,
    settings: str = "",
) -> Toy:
    """A toy with the deployments of these *flows*."""
    folder.mkdir(exist_ok=True)
    toy = Toy(lay_out(folder, agent, spec, settings), client)
    toy.deploy(*flows)
    return toy


def make_halted(folder: Path, client: SyncPrefectClient, *flows: str) -> tuple[Toy, str]:
    """A toy whose loop halted at the acceptance of its one issue, and the loop's id."""
    toy = make_toy(folder, client, FRIENDLY, *flows)
    loop_id = toy.authorise()
    with served(toy):
        assert toy.go(loop_id).state_name == "Halted"
    return toy, loop_id


def text_of(question: FormQuestion) -> str:
    """What a form says, without the link to its page, which each run has of its own."""
    return question.description.partition("\n\n")[2]


def held_by_another_tool(toy: Toy) -> Path:
    """Let a tool on another host hold the run lock; the lock's file."""
    lock = toy.root / ".mino" / "run.lock"
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    lock.write_text(f"task_key: other\nissue_number: 9\nacquired_at: {since}\nhost: builder-2\n")
    return lock


class Runner:
    """Takes up the runs of one workspace that are due, each in a thread, as the runner of a terminal does."""

    def __init__(self, toy: Toy) -> None:
        self._workspace_id = toy.id
        self._ended = threading.Event()
        self._threads = toy.flows

    def serve(self) -> None:
        """Until `stop`."""
        with runs.connect() as client:
            while not self._ended.wait(0.3):
                for run in self._due(client):
                    self._take_up(client, run)

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads.values():
            thread.join()

    def _due(self, client: SyncPrefectClient) -> list[FlowRun]:
        scheduled = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED]))
        found = client.read_flow_runs(
            deployment_filter=runs.of_repository(self._workspace_id),
            flow_run_filter=FlowRunFilter(state=scheduled),
        )
        now = datetime.now(UTC)
        return [run for run in found if run.next_scheduled_start_time and run.next_scheduled_start_time <= now]

    def _take_up(self, client: SyncPrefectClient, run: FlowRun) -> None:
        if (thread := self._threads.get(run.id)) and thread.is_alive():
            return
        flow = FLOWS[client.read_flow(run.flow_id).name]
        client.set_flow_run_state(run.id, Pending())
        context = contextvars.copy_context()
        self._threads[run.id] = threading.Thread(target=context.run, args=(self._drive, flow, run.id), daemon=True)
        self._threads[run.id].start()

    def _drive(self, flow: Flow[..., Any], run_id: UUID) -> None:
        with runs.connect() as client:
            drive(flow, client, run_id)


@contextmanager
def served(toy: Toy) -> Iterator[Runner]:
    """The toy's runs are taken up for the block."""
    runner = Runner(toy)
    thread = threading.Thread(target=contextvars.copy_context().run, args=(runner.serve,), daemon=True)
    thread.start()
    try:
        yield runner
    finally:
        runner.stop()
        thread.join()
