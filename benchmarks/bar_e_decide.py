"""(e) What grows with the number of tasks: the next decision, from a document to what is approved, publication."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from markdown_it import MarkdownIt

from benchmarks.baselines.ready_nodes import ready_nodes
from benchmarks.measure import Comparison, alternate, pairs_of
from benchmarks.sandbox import Effort
from irontree.domain.decide import Run, Scope, decide
from irontree.domain.events import Record, TaskPublished
from irontree.domain.machine import evolve
from irontree.domain.plan import PlanNode
from irontree.domain.state import Phase, TaskState
from irontree.forges import ForgeSettings
from irontree.forges.local import LocalForge
from irontree.services.execution.publish import publish
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.sources import propose
from irontree.store.codec import read_mapping, write_mapping
from tests.support.approving import write_plan
from tests.support.world import Scene

SORTER_BAR, GROWTH_BAR = 5.0, 13.0
PARSER_BAR, TENFOLD_BAR = 5.0, 12.0
"""Of planning, and of publication: in CPU time, so that they hold on a busy machine too."""
PART = 50
"""Tasks of a composite."""
DEPENDENCIES, REACH = 3, 50
CALLS = 5
"""In one measurement: a single decision over 1,000 nodes is too short to be timed."""
SEED = 7


@dataclass(frozen=True, slots=True)
class Half:
    """A tree of executable nodes of which the first half is done, as `decide` and as the sorter want it."""

    scope: Scope
    graph: dict[str, tuple[str, ...]]
    done: frozenset[str]

    def decide(self) -> float:
        """Seconds for our next decision."""
        return _timed(lambda: decide(self.scope))

    def sort(self) -> float:
        """Seconds for the sorter's answer: all nodes that are ready."""
        return _timed(lambda: ready_nodes(self.graph, self.done))


def compare(effort: Effort) -> Iterator[Comparison]:
    """The same graph for both sides; what is compared answers `what can be started next`."""
    many, few = (1_000, 100) if effort.quick else (10_000, 1_000)
    large, small = half_done(many), half_done(few)
    _require_same_answer(large)
    name = f"e: decide, {many:,} nodes against graphlib"
    rounds = alternate(large.decide, large.sort, effort.pairs, effort.watching(name))
    yield Comparison(name, SORTER_BAR, pairs_of(rounds, float))
    name = f"e: decide, {many:,} nodes against {few:,}"
    rounds = alternate(large.decide, small.decide, effort.pairs, effort.watching(name))
    yield Comparison(name, GROWTH_BAR, pairs_of(rounds, float))
    yield from _planning(effort, many, few)
    yield from _publication(effort, many // 2, few // 2)
    yield from _publication_as_files(effort, many // 10, few // 10)


def _planning(effort: Effort, many: int, few: int) -> Iterator[Comparison]:
    """From a document to the text that is approved."""
    text = document(many)
    name = f"e: plan {many:,} tasks against the Markdown parser"
    parser = MarkdownIt("commonmark")
    rounds = alternate(
        lambda: planned(many), lambda: _cpu_of(lambda: parser.parse(text)), effort.pairs, effort.watching(name)
    )
    yield Comparison(name, PARSER_BAR, pairs_of(rounds, float))
    name = f"e: plan {many:,} tasks against {few:,}"
    rounds = alternate(lambda: planned(many), lambda: planned(few), effort.pairs, effort.watching(name))
    yield Comparison(name, TENFOLD_BAR, pairs_of(rounds, float))


def _publication(effort: Effort, many: int, few: int) -> Iterator[Comparison]:
    name = f"e: publish {many:,} tasks against {few:,}"
    rounds = alternate(lambda: published(many), lambda: published(few), effort.pairs, effort.watching(name))
    yield Comparison(name, TENFOLD_BAR, pairs_of(rounds, float))


def _publication_as_files(effort: Effort, many: int, few: int) -> Iterator[Comparison]:
    name = f"e: publish {many:,} tasks as files against {few:,}"
    rounds = alternate(
        lambda: published(many, as_files=True),
        lambda: published(few, as_files=True),
        effort.pairs,
        effort.watching(name),
    )
    yield Comparison(name, TENFOLD_BAR, pairs_of(rounds, float))


def document(size: int) -> str:
    """*size* tasks in parts, each after the one before it."""
    lines = ["# Many"]
    for number in range(size):
        lines += [f"\n## Part {number // PART}"] if number % PART == 0 else []
        lines += [f"\n### Task {number}"]
        lines += [f"\nDepends on: Task {number - 1}"] if number % PART else []
        lines += [f"\n- [ ] works {number} `$ true`"]
    return "\n".join(lines)


def planned(size: int) -> float:
    """CPU seconds from a document of *size* tasks to the text that is approved, on the doubles."""
    with TemporaryDirectory() as folder:
        scene = Scene(Path(folder, "repository"), Path(folder, "cache"))
        path = scene.write(document(size))

        def plan() -> None:
            approval_text(scene.app, propose(scene.app, path), loop_mode=True, answer="")

        return _cpu_of(plan)


def published(size: int, *, as_files: bool = False) -> float:
    """CPU seconds of the publication of *size* tasks on the doubles, or on the forge of files and the other doubles."""
    with TemporaryDirectory() as folder:
        scene = Scene(Path(folder, "repository"), Path(folder, "cache"))
        app, settings = scene.app, ForgeSettings(Path(folder, "forge"), "us", scene.clock, read_mapping, write_mapping)
        if as_files:
            app = replace(app, forge=cache(lambda: LocalForge(settings)))
        proposal = propose(scene.app, scene.write(document(size)))
        plan = write_plan(scene.app, proposal, proposal.name, "ada")
        return _cpu_of(lambda: publish(app, plan))


def half_done(size: int) -> Half:
    """*size* nodes, each with up to three dependencies among the fifty before it."""
    chance = random.Random(SEED)
    keys = [f"task-{number:05d}" for number in range(size)]
    graph = {key: _dependencies(keys[max(0, at - REACH) : at], chance) for at, key in enumerate(keys)}
    done = frozenset(keys[: size // 2])
    states = {key: _state(key, number, done) for number, key in enumerate(keys, start=1)}
    nodes = {key: PlanNode(task_key=key, title=key, depends_on=graph[key]) for key in keys}
    return Half(Scope(nodes, states, tuple(keys), children={}), graph, done)


def _dependencies(before: list[str], chance: random.Random) -> tuple[str, ...]:
    return tuple(sorted(chance.sample(before, min(DEPENDENCIES, len(before)))))


def _state(key: str, number: int, done: frozenset[str]) -> TaskState:
    published = TaskPublished(
        task_key=key,
        issue_number=number,
        spec_revision="0" * 8,
        approved_revision="0" * 8,
        sequence=1,
        next_stage="run",
        workflow_entry_state="ready_to_start",
        attempt_count=0,
        max_retry_count=3,
    )
    state = evolve(None, Record(published))
    return replace(state, phase=Phase.DONE) if key in done else state


def _require_same_answer(half: Half) -> None:
    ours = decide(half.scope)
    if not isinstance(ours, Run) or ours.task_key not in ready_nodes(half.graph, half.done):
        raise RuntimeError(f"the two sides disagree: {ours}")


def _cpu_of(work: Callable[[], object]) -> float:
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began


def _timed(work: Callable[[], object]) -> float:
    gc.collect()
    began = time.perf_counter()
    for _ in range(CALLS):
        work()
    return (time.perf_counter() - began) / CALLS
