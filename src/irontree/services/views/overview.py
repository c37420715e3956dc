"""An overview of a repository: issues, loops, open questions. Only reads; takes no lock (R3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

from irontree.app import App
from irontree.domain.ids import digest_of
from irontree.domain.spending import Budget
from irontree.domain.state import Phase, TaskState
from irontree.domain.text import shell_path
from irontree.domain.timestamps import utc_text
from irontree.errors import LogDamaged, in_words
from irontree.ports import Holder
from irontree.services.loops.funds import read_funds
from irontree.services.loops.loop import Loop, left_out, read_loops
from irontree.services.record import World, plan_file, read_world

SERVING: Final = "serving"
"""The lock (`App.alive`) of the terminal that serves a repository's flows."""
SKIPPED: Final = "skipped"
WAITS: Final = "waits for others"


class IssueRow(NamedTuple):
    """One issue in a listing. `attempts` is `a / total`; `waits_for` are task keys; `asks` is the open halt reason.

    Effects in `undelivered` are retried; `warnings` are about those that are not.
    """

    number: int
    task_key: str
    title: str
    parent: str | None
    depth: int
    phase: str
    stage: str
    attempts: str
    code_ref: str | None
    waits_for: tuple[str, ...]
    asks: str | None
    problem: str | None
    undelivered: tuple[str, ...]
    warnings: tuple[str, ...] = ()


class LoopRow(NamedTuple):
    """One loop in a listing."""

    loop_id: str
    status: str
    halt_reason: str | None
    halt_at: str | None
    done: int
    total: int
    budget_used: int
    budget: int
    skipped: int = 0
    """How many of its tasks were skipped; they do not count in `total`."""
    answered: bool = False
    """Whether the issue at which it halted asks nothing any more."""


class Overview(NamedTuple):
    """A repository at a glance. A process that holds the driver lock (`busy`) or a lease, or serves flows, is alive."""

    issues: tuple[IssueRow, ...]
    loops: tuple[LoopRow, ...]
    problems: tuple[str, ...]
    busy: str | None = None
    active_loop: str | None = None
    serving: str | None = None
    budgets: tuple[Budget, ...] = ()
    backup: str | None = None
    """Why the log is not backed up, in words, while that is a warning; among the problems once it is overdue."""


BACKUP_OVERDUE: Final = timedelta(hours=1)


def backup_trouble(app: App) -> tuple[str, bool] | None:
    """Since when and why the log is not backed up, with what to do; whether that is an error by now (R13)."""
    failed = app.repository.backup_failure()
    if failed is None:
        return None
    words = f"the log has not been backed up since {utc_text(failed.since)}: {failed.reason} -> {failed.remedy}"
    return words, app.clock.now() - failed.since >= BACKUP_OVERDUE


def overview(app: App) -> Overview:
    """The overview of the repository, in tree order."""
    loops, damaged = read_loops(app)
    return overview_of(app, read_world(app), loops, damaged)


def overview_of(app: App, world: World, loops: Sequence[Loop], damaged: Sequence[str]) -> Overview:
    """The overview of the repository, from what was already read."""
    driver = app.driver.holder()
    cut_off = () if driver else half_published(app, world)  # a driver is publishing, or will continue that
    not_backed_up, overdue = backup_trouble(app) or (None, False)
    return Overview(
        issues=tuple(_row(app, world, state) for state in tree_order(world)),
        loops=tuple(_loop_row(loop, world) for loop in loops),
        problems=(
            *(f"{problem.path}: {problem.what}" for problem in world.problems),
            *(f"{what} -> {remedy}" for _, what, remedy in cut_off),
            *damaged,
            *team_trouble(app),
            *_stale_lease(app),
            *((not_backed_up,) if not_backed_up and overdue else ()),
        ),
        busy=_named(driver),
        active_loop=_named(app.lease.holder()) or app.lease.foreign(),
        serving=_named(app.alive(SERVING).holder()),
        budgets=read_funds(app, world, loops).shown(),
        backup=None if overdue else not_backed_up,
    )


def damaged_requests(app: App) -> Iterator[LogDamaged]:
    """Why requests to agents, or the standing approval of them, cannot be believed."""
    keys = app.agent_requests.keys()
    reads: list[Callable[[], object]] = [partial(app.agent_requests.load, key) for key in keys]
    for read in (*reads, app.agent_requests.standing):
        try:
            read()
        except LogDamaged as error:
            yield error


def team_trouble(app: App) -> Iterator[str]:
    """A line for each file because of which the team is silent: what was asked before is unknown."""
    for error in damaged_requests(app):
        yield f"nobody of the team is asked until this is put right: {in_words(error)}"


def half_published(app: App, world: World) -> Iterator[tuple[str, str, str]]:
    """For each approval that was cut off: its plan's file, how far it is published, and the command to continue (R6).

    Nothing if the log or a plan cannot be read: a task might only seem to have no issue.
    """
    tasks: dict[str, list[str]] = {}
    for key, plan in world.plans.items():
        if key not in world.cancelled and not world.problems:
            tasks.setdefault(digest_of(plan), []).append(key)
    for keys in tasks.values():
        there = sum(key in world.states for key in keys)
        if there < len(keys):
            plan = world.plans[keys[0]]
            what = f"approved revision {plan.spec_revision} is only partly published: {there} of {len(keys)}"
            words = f"adopt issue-{plan.adoption.issue_number}" if plan.adoption else shell_path(plan.spec_path)
            yield plan_file(app, plan), what, f"irontree task {words}"


def _stale_lease(app: App) -> tuple[str, ...]:
    left = app.lease.stale()
    return (f"stale loop lease detected: {left.words} -> `irontree task` asks whether to take it over",) if left else ()


def _named(holder: Holder | None) -> str | None:
    return f"{holder.what} ({holder.about})" if holder else None


def state_words(row: IssueRow, *, skipped: bool = False) -> str:
    """The phase, or that a ready task waits for others; a task that its loop *skipped* does not wait."""
    if skipped:
        return SKIPPED
    if row.phase == Phase.READY and row.waits_for and not row.attempts:
        return WAITS
    return row.phase


def phase_words(world: World, state: TaskState) -> str:
    """The same as `state_words`, from the state of the task."""
    waits = state.phase is Phase.READY and not state.runs_started and waits_for(world, state.task_key)
    return WAITS if waits else state.phase


def tree_order(world: World) -> tuple[TaskState, ...]:
    """Parents before their children, siblings by issue number."""
    ordered: list[TaskState] = []
    below: dict[str | None, list[TaskState]] = {}
    for state in sorted(world.states.values(), key=lambda state: -state.issue_number):
        parent = _parent(world, state.task_key)
        below.setdefault(parent if parent in world.states else None, []).append(state)
    stack = below.get(None, [])
    while stack:
        state = stack.pop()
        ordered.append(state)
        stack.extend(below.get(state.task_key, ()))
    return tuple(ordered)


def title_of(world: World, task_key: str) -> str:
    """The approved title; the key if no plan lists it."""
    node = world.nodes.get(task_key)
    return node.title if node else task_key


def activity(world: World, keys: Iterable[str]) -> str:
    """What is in progress among a loop's tasks *keys*; other issues may stay between two steps indefinitely."""
    states = [world.states[key] for key in keys if key in world.states]
    for phase, doing in ((Phase.RUNNING, "the agent works"), (Phase.COMMITTED, "checks run")):
        for state in states:
            if state.phase is phase:
                return f"#{state.issue_number} {title_of(world, state.task_key)}: {doing}"
    return "starting the next step"


def named(world: World, task_key: str) -> str:
    """`#3 Split an expense`; the title alone if there is no issue yet."""
    state, title = world.states.get(task_key), title_of(world, task_key)
    return f"#{state.issue_number} {title}" if state else title


def waits_for(world: World, task_key: str) -> tuple[str, ...]:
    """Keys of tasks that must be done first: a task's dependencies, a container's children."""
    node = world.nodes.get(task_key)
    if node is None:
        return ()
    needed = world.children.get(task_key, ()) if node.executability == "container" else node.depends_on
    return tuple(key for key in needed if not world.is_done(key))


def _parent(world: World, task_key: str) -> str | None:
    node = world.nodes.get(task_key)
    return node.parent if node else None


def _depth(world: World, task_key: str) -> int:
    depth, parent = 0, _parent(world, task_key)
    while parent and parent in world.states:
        depth, parent = depth + 1, _parent(world, parent)
    return depth


def _row(app: App, world: World, state: TaskState) -> IssueRow:
    rule, cancelled = world.halt_of(state), state.task_key in world.cancelled
    delivered = app.deliveries.load(state.issue_number)
    return IssueRow(
        number=state.issue_number,
        task_key=state.task_key,
        title=title_of(world, state.task_key),
        parent=_parent(world, state.task_key),
        depth=_depth(world, state.task_key),
        phase="cancelled" if cancelled else state.phase.value,
        stage=state.current_stage,
        attempts=f"{state.attempt_count} / {state.total_attempts}" if state.runs_started else "",
        code_ref=state.code_ref,
        waits_for=() if state.done or cancelled else waits_for(world, state.task_key),
        asks=rule.reason if rule else None,
        problem=state.problem or state.blocking_check,
        undelivered=delivered.failures,
        warnings=delivered.warnings,
    )


def _loop_row(loop: Loop, world: World) -> LoopRow:
    entity, skips = loop.entity, left_out(loop, world)
    keys = [key for key in entity.task_keys if key not in skips | world.cancelled]
    halted_at = world.states.get(entity.halt_at_task_key or "") if entity.status == "halted" else None
    return LoopRow(
        loop_id=entity.loop_id,
        status=entity.status,
        halt_reason=entity.halt_reason,
        halt_at=entity.halt_at_task_key,
        done=sum(map(world.is_done, keys)),
        total=len(keys),
        budget_used=entity.budget_used,
        budget=entity.budget_max_transitions,
        skipped=len(skips),
        answered=halted_at is not None and world.halt_of(halted_at) is None,
    )
