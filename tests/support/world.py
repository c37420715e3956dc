"""A whole `App` for tests of the services, made of doubles, and the pure driver: the only `while` without Prefect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from irontree.agents.scripted import ScriptedAgent, ScriptedStep
from irontree.app import App, Origin, Preferences
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.agents import AgentSpec, ReviewerSpec
from irontree.domain.decide import Halt
from irontree.domain.events import IssueEvent, Record
from irontree.domain.halt import RULE
from irontree.domain.permissions import PermissionRule
from irontree.domain.plan import ExecutionPolicy, Plan, PublishPolicy
from irontree.domain.state import TaskState
from irontree.errors import Busy
from irontree.forges import ForgeSettings
from irontree.forges.memory import MemoryForge, Tracker
from irontree.ports import AgentResult, AgentTask
from irontree.rendering import JinjaRenderer
from irontree.repository.memory import MemoryRepository
from irontree.services.answers.answers import Answer, answer_issue, answer_loop
from irontree.services.answers.approve import approve
from irontree.services.execution.publish import publish
from irontree.services.execution.steps import catch_up, perform, recover_lease
from irontree.services.loops import loop as loops
from irontree.services.loops.choice import next_decision
from irontree.services.loops.loop import Loop
from irontree.services.proposals.sources import propose
from irontree.services.questions.questions import Question, question_about, question_of_loop
from irontree.services.record import World, read_world
from irontree.store.codec import read_mapping, write_mapping
from irontree.store.memory import (
    MemoryAgentRequests,
    MemoryDeliveries,
    MemoryEventLog,
    MemoryLease,
    MemoryLock,
    MemoryLoopLog,
    MemoryPlanStore,
    MemoryProjections,
    MemoryResultStore,
    MemoryRunLock,
    MemoryUpkeep,
)
from irontree.store.replays import PlainReplays
from irontree.store.streams import ISSUE_FORM
from tests.support.approving import write_plan
from tests.support.store import NOON

RENDERER = JinjaRenderer()
"""One for all scenes: it keeps no state but compiled templates, and to compile them is most of a scene's work."""

GREETING, ONE, TWO, PARTS, CLOSE = "greeting", "parts-part-one", "parts-part-two", "parts", "close"
SPEC = """\
# Toy

## Greeting

- [ ] it says hello `$ has greet.txt hello`

## Parts

### Part one

Depends on: Greeting

- [ ] one exists `$ has one.txt`

### Part two

Depends on: Greeting

- [ ] two exists `$ has two.txt`
- [ ] it is pretty (manual)

## Close

Depends on: Part one, Part two

- [ ] closed `$ has close.txt`
"""
ONE_TASK = """\
# Toy

## Greeting

- [ ] it says hello `$ has greet.txt hello`
"""
MANUAL_TASK = """\
# Toy

## Greeting

- [ ] it says hello `$ has greet.txt hello`
- [ ] it is friendly (manual)
"""


class TickingClock:
    """A second passes whenever somebody looks."""

    def __init__(self, moment: datetime = NOON) -> None:
        self.moment = moment

    def now(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment


class Patience:
    """A cancellation that never sleeps; `pauses` are those it was asked for. A person may ask to stop during one."""

    def __init__(self, *, stops_at_a_pause: bool = False) -> None:
        self.pauses: list[float | None] = []
        self.stopped = False
        self._stops = stops_at_a_pause

    def is_set(self) -> bool:
        return self.stopped

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout)
        self.stopped = self.stopped or self._stops
        return self.stopped


class BusyFor(MemoryLock):
    """A lock that somebody else holds for so many *seconds*: only who would wait that long gets it, and at once."""

    def __init__(self, clock: TickingClock, seconds: float) -> None:
        super().__init__(clock)
        self._seconds = seconds

    def hold(self, what: str, *, wait_seconds: float = 0) -> AbstractContextManager[None]:
        if wait_seconds < self._seconds:
            raise Busy("busy: somebody else")
        return super().hold(what)


class Leftovers:
    """The port `Children` for a test that wants to know when they are killed."""

    def __init__(self, journal: list[str]) -> None:
        self._journal = journal

    def kill_leftovers(self) -> int:
        self._journal.append("children killed")
        return 0

    def left_behind(self) -> tuple[str, ...]:
        return ()


class Notes:
    """A progress that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def has(command: str, workspace: Path) -> int:
    """The judge of these tests: `has FILE [WORD]` passes if the file is there, with the word in it."""
    _, name, *words = command.split()
    path = workspace / name
    return 0 if path.is_file() and all(word in path.read_text() for word in words) else 1


def does(**files: str) -> ScriptedStep:
    """A step that writes these files; `greet_txt` is greet.txt."""

    def step(task: AgentTask) -> None:
        for name, text in files.items():
            (task.workspace / name.replace("_", ".")).write_text(text)

    return step


def ends(ended: str = "exited", exit_code: int | None = 1, said: str = "", **files: str) -> ScriptedStep:
    """A step that writes these files and then ends in this way."""

    def step(task: AgentTask) -> AgentResult:
        does(**files)(task)
        return AgentResult(ended, exit_code, 1.0, said)  # type: ignore[arg-type]

    return step


def writes_what_is_asked(task: AgentTask) -> None:
    """The agent of a good day."""
    name = {GREETING: "greet", ONE: "one", TWO: "two", CLOSE: "close"}[task.task_key]
    (task.workspace / f"{name}.txt").write_text(f"hello, attempt {task.attempt}\n")


@dataclass
class Scene:
    """An App made of doubles, with its parts in hand; `app` is made anew from them each time."""

    root: Path
    cache: Path
    policy: ExecutionPolicy = field(
        default_factory=lambda: ExecutionPolicy(
            agent=AgentSpec(command=("agent",)), publish=PublishPolicy(remote="origin", target_branch="main")
        )
    )
    preferences: Preferences = field(default_factory=Preferences)
    clock: TickingClock = field(default_factory=TickingClock)
    journal: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "README.md").write_text("toy\n")
        self.repository = MemoryRepository(self.root, self.cache)
        self.log, self.loops = MemoryEventLog(ISSUE_FORM, self.clock), MemoryLoopLog(self.clock)
        self.plans, self.results = MemoryPlanStore(), MemoryResultStore()
        self.agent_requests = MemoryAgentRequests()
        self.projections, self.deliveries = MemoryProjections(self.root), MemoryDeliveries()
        self.upkeep = MemoryUpkeep()
        self.driver, self.lease = MemoryLock(self.clock), MemoryLease(self.clock)
        self.run_lock, self.children = MemoryRunLock(), Leftovers(self.journal)
        self.tracker = Tracker(branches=self.repository.remote)
        self.notes, self.cancel = Notes(), Patience()
        self.agent = ScriptedAgent(writes_what_is_asked)
        self.reviewers: dict[str, ScriptedAgent] = {}
        self.checks = ScriptedCheckRunner(has)
        self.renderer = RENDERER
        self.forge_seen = self.forge("us")

    @property
    def app(self) -> App:
        return App(
            repository=self.repository,
            log=self.log,
            replays=PlainReplays(self.log),
            loops=self.loops,
            plans=self.plans,
            results=self.results,
            agent_requests=self.agent_requests,
            projections=self.projections,
            deliveries=self.deliveries,
            upkeep=self.upkeep,
            driver=self.driver,
            lease=self.lease,
            alive=lambda _: MemoryLock(self.clock),
            run_lock=self.run_lock,
            children=self.children,
            forge=lambda: self.forge_seen,
            agent=lambda spec: self.reviewers[spec.name] if isinstance(spec, ReviewerSpec) else self.agent,
            checks=lambda: self.checks,
            clock=self.clock,
            renderer=self.renderer,
            policy=self.todays_policy,
            allow=self.allow,
            preferences=lambda: self.preferences,
            origin=Origin("ada", "command"),
            progress=self.notes,
            cancel=self.cancel,
        )

    def todays_policy(self, approved: PublishPolicy | None) -> ExecutionPolicy:
        return self.policy.model_copy(update={"publish": self.policy.publish.where(approved)})

    def allow(self, rules: Sequence[PermissionRule]) -> None:
        agent = self.policy.agent
        told = agent.model_copy(update={"permissions": (*agent.permissions, *rules)})
        self.policy = self.policy.model_copy(update={"agent": told})

    def forge(self, account: str) -> MemoryForge:
        settings = ForgeSettings(self.root / "forge", account, self.clock, read_mapping, write_mapping)
        return MemoryForge(settings, self.tracker)

    @property
    def world(self) -> World:
        return read_world(self.app)

    # --- getting somewhere -------------------------------------------------------------------------------

    def write(self, text: str) -> Path:
        (self.root / "SPEC.md").write_text(text)
        return self.root / "SPEC.md"

    def publish(self, text: str = SPEC) -> Plan:
        """Approve and publish *text*, without a loop."""
        proposal = propose(self.app, self.write(text))
        plan = write_plan(self.app, proposal, proposal.name, "ada")
        publish(self.app, plan)
        return plan

    def start(self, text: str = SPEC) -> Loop:
        """Approve and publish *text*, and start its loop."""
        proposal = propose(self.app, self.write(text))
        return approve(self.app, proposal, proposal.name, "ada")

    def drive(self, loop: Loop, answers: Answers | None = None) -> Halt:
        return drive(self.app, loop.id, answers or nobody)

    # --- looking at it -----------------------------------------------------------------------------------

    def state(self, key: str = GREETING) -> TaskState:
        return self.world.states[key]

    def number(self, key: str = GREETING) -> int:
        return self.state(key).issue_number

    def records(self, key: str = GREETING) -> tuple[Record[IssueEvent], ...]:
        return self.log.read(self.number(key)).records

    def events(self, key: str = GREETING) -> list[str]:
        return [record.event.event for record in self.records(key)]

    def last(self, key: str = GREETING) -> Record[IssueEvent]:
        return self.records(key)[-1]

    def comments(self, key: str = GREETING) -> list[str]:
        return [comment.body for comment in self.tracker.comments.get(self.number(key), [])]

    def labels(self, key: str = GREETING) -> set[str]:
        return set(self.tracker.issues[self.number(key)].labels)

    def loop_events(self, loop: Loop) -> list[str]:
        return [record.event.event for record in self.loops.read(loop.id).records]


def make_scene(folder: Path) -> Scene:
    return Scene(folder / "project", folder / "cache")


# --- the pure driver ------------------------------------------------------------------------------------------

Answers = Callable[[Question], Answer | None]


def nobody(_: Question) -> None:
    """There is nobody to ask."""


def prepared(*answers: Answer) -> Answers:
    """These answers, one for each question."""
    left = list(answers)
    return lambda _: left.pop(0) if left else None


def drive(app: App, loop_id: str, answers: Answers) -> Halt:
    """Bring the loop as far as it goes; the halt at which nobody answered, the goal, or the stop that was answered."""
    in_the_way = recover_lease(app, loop_id)
    if in_the_way:
        loops.halt(app, loop_id, in_the_way)
        if not _answered(app, loop_id, in_the_way, answers):
            return in_the_way
    with app.lease.hold(loop_id):
        with app.driver.hold(f"loop {loop_id}, catch up", wait_seconds=5):
            catch_up(app)
        halt = _drive_to_the_end(app, loop_id, answers)
        app.repository.back_up()
        return halt


def _drive_to_the_end(app: App, loop_id: str, answers: Answers) -> Halt:
    while True:
        decision = next_decision(app, loop_id)
        if not isinstance(decision, Halt):
            loops.resume(app, loop_id)
            perform(app, decision, loop_id)
            continue
        if decision.reason == "goal_reached":
            loops.complete(app, loop_id)
            return decision
        ended = loops.halt(app, loop_id, decision).entity.status == "cancelled"
        if ended or not _answered(app, loop_id, decision, answers):
            return decision


def _answered(app: App, loop_id: str, halt: Halt, answers: Answers) -> bool:
    """Whether somebody answered, and the loop goes on."""
    question = question_of_loop(app, loop_id) or _question_of_issue(app, loop_id, halt)
    answer = answers(question)
    if answer is None:
        return False
    with app.driver.hold("answer"):
        if question.issue_number is None:
            answer_loop(app, loop_id, answer)
        else:
            answer_issue(app, question.issue_number, answer, loop_id)
    if loops.read_loop(app, loop_id).entity.status == "cancelled":
        return False
    loops.resume(app, loop_id)
    return True


def _question_of_issue(app: App, loop_id: str, halt: Halt) -> Question:
    assert halt.task_key is not None
    return question_about(read_world(app).states[halt.task_key], RULE[halt.reason], loop_id)


def accepts(note: str = "") -> Answer:
    return Answer("accept", "ada", note=note)


def sends_back(note: str) -> Answer:
    return Answer("send-back", "ada", note=note)


def names(records: Sequence[Record[IssueEvent]]) -> list[str]:
    return [record.event.event for record in records]
