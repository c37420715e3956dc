"""What an agent is told: its task, everything that was written around it, and what it builds on (protocol, phase 4)."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from irontree.app import App
from irontree.domain.agents import AgentSpec, Member
from irontree.domain.checks import checks_for
from irontree.domain.commands import parse_command
from irontree.domain.discussion import is_own_word
from irontree.domain.documents import common_text
from irontree.domain.graph import Graph
from irontree.domain.halt import AGENT_ASKS
from irontree.domain.instructions import ASSIGNED, CAUSE, Instructions, instructions_for, is_report
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.state import TaskState
from irontree.domain.text import one_line
from irontree.domain.values import short_sha
from irontree.errors import FORGE_FAILED
from irontree.ports import Stream
from irontree.services.record import World
from irontree.services.views.history import failure_of, last_of

INTRODUCTION_CHARACTERS: Final = 12_000
DESCRIPTION_CHARACTERS: Final = 6_000
REPORT_FILE: Final = ".irontree-report.json"
"""Where an agent says what its report needs: text by name."""
MOST_SAID: Final = 20
"""Of the comments since the approval."""
SUMMARY_CHARACTERS: Final = 600
MOST_DELIVERED: Final = 20
MOST_LINES: Final = 60
"""Of the list of all tasks; of a longer one, the lines around the task are shown."""


class Passage(NamedTuple):
    """A text, and how many of its characters are left out at its end."""

    text: str
    left_out: int


class Delivered(NamedTuple):
    """What a task that this one depends on has left."""

    title: str
    summary: str
    """The last words of its agent: a claim."""
    commit: str
    """Empty if it has none."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around a task in its document, and before it in time."""

    document: str
    """Its path; empty for an adopted issue."""
    title: str
    introduction: Passage
    parents: tuple[tuple[str, Passage], ...]
    """Title and description of each, outermost first."""
    tasks: tuple[str, ...]
    """The list of all tasks, or what is near of a long one; empty if there are no others."""
    tasks_left_out: int
    delivered: tuple[Delivered, ...]
    delivered_left_out: int
    quoted: tuple[PlanNode, ...]
    """Parents whose text is by somebody without write access (R20)."""


@dataclass(frozen=True, slots=True)
class PromptedAttempt:
    """Which attempt a prompt is for; the first of an issue that is not published yet has no number."""

    state: TaskState | None = None
    present: Collection[str] = ()
    """The names at the top level of the workspace."""
    goes_on: bool = False
    """Whether the work of an attempt that was interrupted is in the workspace."""


def task_prompt(app: App, world: World, plan: Plan, node: PlanNode, attempt: PromptedAttempt) -> str:
    """The prompt of one attempt: the task and what is around it, its checks, and why the last attempt failed."""
    state = attempt.state
    around = surroundings(app, world, plan, node)
    stream = app.log.read(state.issue_number) if state else None
    return app.renderer.render(
        "prompts/run.md",
        number=state.issue_number if state else 0,
        node=node,
        attempt=state.attempt_count if state else 1,
        attempts=state.total_attempts if state else 1 + plan.policy.retries_of(node),
        member=member_of(plan.policy.author_of(node)),
        around=around,
        protected=plan.policy.protected,
        step=_step(plan, node),
        told=told_now(plan, node, stream),
        said=_said_since(app, plan, state, stream) if state and stream else (),
        report_file=REPORT_FILE,
        commands=tuple(check.does for check in checks_for(node, plan.policy, attempt.present)),
        failure=failure_of(app, stream, state) if state and stream else None,
        answered=[asked for asked in asked_by_agents(stream) if asked.answer] if stream else (),
        continues=bool(state and state.has_code and not attempt.goes_on),
        goes_on=attempt.goes_on,
        quotes=(*around.quoted, *((node,) if node.outsider else ())),
    )


def member_of(agent: AgentSpec) -> Member | None:
    """The member of the team that *agent* is, to be told who it is; None for one that is nobody by name."""
    return agent if isinstance(agent, Member) else None


class SaidSince(NamedTuple):
    """A comment by a person with write access, since the work on the issue was approved."""

    by: str
    text: str


def _said_since(app: App, plan: Plan, state: TaskState, stream: Stream) -> tuple[SaidSince, ...]:
    """What writers said on the issue since its stream began, without commands, reports and members of the team.

    For a team that works in its forge alone. Without an answer of the forge the attempt goes on without.
    """
    if not plan.policy.instructions:
        return ()
    try:
        comments = app.forge().comments_since(state.issue_number, stream.records[0].told.time)
    except FORGE_FAILED as error:
        app.progress.note(f"the comments on #{state.issue_number} could not be read: {error.message}")
        return ()
    own = (one for one in comments if is_own_word(one, plan.policy) and not is_report(one.body))
    said = [SaidSince(one.author, one.body) for one in own if parse_command(one.body) is None]
    return tuple(said[-MOST_SAID:])


def told_now(plan: Plan, node: PlanNode, stream: Stream | None) -> Instructions | None:
    """What the agent is told to do: for what its request came back with, else for a task of its type.

    Where CI failed, it is asked for the cause too.
    """
    failed = last_of(stream, "verify_failed_retryable") if stream else None
    came_back = "ci_failure" if failed and failed.told.failed_at else "review_result"
    is_answer = failed and (failed.told.failed_at or failed.told.reviews)
    known = plan.policy.instructions
    of_answer = instructions_for(known, came_back, node.type) if is_answer else None
    own = instructions_for(known, ASSIGNED, node.type)
    if of_answer is None:
        return own
    report = of_answer.report or (own.report if own else "")
    cause = f"\n{{{CAUSE}}}" if came_back == "ci_failure" else ""
    return of_answer.model_copy(update={"report": report + cause})


class StepView(NamedTuple):
    """A step of a workflow file, as its agent is told of it."""

    number: int
    of: int
    condition: str
    """What it is repeated until; empty: it is tried once."""


def _step(plan: Plan, node: PlanNode) -> StepView | None:
    step = node.step
    if step is None:
        return None
    return StepView(step.number, sum(1 for each in plan.nodes if each.step), step.condition)


def surroundings(app: App, world: World, plan: Plan, node: PlanNode) -> Surroundings:
    """What stands around *node* in *plan*, and what the tasks that it waits for have delivered so far."""
    graph = Graph.of({**world.nodes, **{each.task_key: each for each in plan.nodes}}.values())
    above = [graph.nodes[key] for key in reversed(graph.ancestors(node.task_key))]
    title, introduction = ("", "") if plan.adoption else common_text(plan.source, plan.spec_path)
    tasks = _tasks(world, graph, plan, node)
    done = tuple(_delivered(app, world, graph, node))
    return Surroundings(
        document="" if plan.adoption else plan.spec_path,
        title=title,
        introduction=_passage(introduction, INTRODUCTION_CHARACTERS),
        parents=tuple(
            (each.title, _passage(each.description, DESCRIPTION_CHARACTERS)) for each in above if not each.outsider
        ),
        tasks=tasks,
        tasks_left_out=len(plan.nodes) - len(tasks) if tasks else 0,
        delivered=done[:MOST_DELIVERED],
        delivered_left_out=len(done[MOST_DELIVERED:]),
        quoted=tuple(each for each in above if each.outsider),
    )


def _passage(text: str, most: int) -> Passage:
    """*text*, cut at the end of a line if it is longer than *most*."""
    if len(text) <= most:
        return Passage(text, 0)
    kept = text[:most].rpartition("\n")[0] or text[:most]
    return Passage(kept, len(text) - len(kept))


def _tasks(world: World, graph: Graph, plan: Plan, node: PlanNode) -> tuple[str, ...]:
    """A line for each task of the document, in its order; of many, those that are near."""
    if plan.adoption or len(plan.nodes) == 1:
        return ()
    keys = [each.task_key for each in plan.nodes]
    beside = (each.task_key for each in plan.nodes if each.parent == node.parent)
    top = (each.task_key for each in plan.nodes if each.parent is None)
    near = dict.fromkeys((node.task_key, *graph.ancestors(node.task_key), *node.depends_on, *beside, *top, *keys))
    shown = frozenset(list(near)[:MOST_LINES])
    return tuple(
        f"{'  ' * len(graph.ancestors(key))}- {one_line(graph.nodes[key].title)}{_standing(world, key, node)}"
        for key in keys
        if key in shown
    )


def _standing(world: World, key: str, node: PlanNode) -> str:
    if key == node.task_key:
        return " (this task)"
    return " (done)" if world.is_done(key) else ""


def _delivered(app: App, world: World, graph: Graph, node: PlanNode) -> Iterator[Delivered]:
    """What those leave that the task waits for, by itself or as a part; of a composite, what its parts leave."""
    waiting = (node, *(graph.nodes[key] for key in graph.ancestors(node.task_key)))
    needed = (key for each in waiting for key in each.depends_on)
    for key in dict.fromkeys(_leaves(graph, needed)):
        state, needs = world.states.get(key), graph.nodes.get(key)
        if state and needs and world.is_proven(key):
            completed = last_of(app.log.read(state.issue_number), "run_completed")
            summary = "" if completed is None else textwrap.shorten(completed.told.summary, SUMMARY_CHARACTERS)
            title = f"issue #{state.issue_number}" if needs.outsider else needs.title
            yield Delivered(title, summary, short_sha(state.commit) if state.has_code else "")


def _leaves(graph: Graph, keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        parts = graph.children(key)
        yield from _leaves(graph, parts) if parts else (key,)


# --- What agents asked


class Asked(NamedTuple):
    """What an agent said instead of doing the work, and what a person answered."""

    said: str
    failed_check: str
    """What failed without a change; empty if nothing was checked."""
    output: str
    answer: str = ""


def asked_by_agents(stream: Stream) -> tuple[Asked, ...]:
    """The questions of the agents of this issue, oldest first."""
    found: list[Asked] = []
    is_open = False
    for record in stream.records:
        told = record.told
        if getattr(record.event, "blocking_check", None) == AGENT_ASKS:
            found.append(Asked(told.summary, told.failed_check, told.output))
            is_open = True
        elif record.event.event == "checkup_unblocked" and is_open:
            found[-1] = found[-1]._replace(answer=told.note)
            is_open = False
    return tuple(found)
