"""The open questions of a repository, each with the commands that answer it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from irontree.app import App
from irontree.cli.blocks import Block, Cell, Lines
from irontree.cli.hints import DAMAGED, OpenQuestion
from irontree.domain.halt import RULE
from irontree.domain.state import TaskState
from irontree.errors import IrontreeError
from irontree.services.loops.loop import Loop, loop_of, still_open
from irontree.services.overview import title_of
from irontree.services.world import World


def skipped(loops: Sequence[Loop]) -> frozenset[str]:
    """Tasks that the newest of *loops* (all, oldest first) over each of them skipped."""
    return frozenset(key for key, loop in _newest(loops).items() if key in loop.cancelled)


def given_up(loops: Sequence[Loop]) -> frozenset[str]:
    """Those, and tasks whose newest loop was stopped: a person has said so, and nothing of them waits."""
    stopped = (key for key, loop in _newest(loops).items() if loop.entity.status == "cancelled")
    return skipped(loops) | frozenset(stopped)


def _newest(loops: Sequence[Loop]) -> dict[str, Loop]:
    return {key: loop for loop in loops for key in loop.entity.task_keys}


def open_questions(app: App, world: World, loops: Sequence[Loop]) -> tuple[OpenQuestion, ...]:
    """Those of issues first, lowest number first, then those of loops; *loops* are all, also those that have ended."""
    alive, nobodys = still_open(loops), given_up(loops)
    states = sorted(world.states.values(), key=lambda state: state.issue_number)
    of_issues = (asked_about(app, world, alive, state) for state in states if state.task_key not in nobodys)
    return (*filter(None, of_issues), *_of_loops(alive))


def asked_about(app: App, world: World, loops: Sequence[Loop], state: TaskState) -> OpenQuestion | None:
    """What this issue asks; None if nothing."""
    rule = world.halt_of(state)
    if rule is None:
        return None
    return OpenQuestion(
        reason=rule.reason,
        number=state.issue_number,
        task_key=state.task_key,
        title=title_of(world, state.task_key),
        loop_id=loop_of(loops, state.task_key),
        revision=_revision_now(app, world, state) if rule.reason == "reapproval_required" else None,
        detail=state.problem or state.blocking_check or "",
        damaged=state.problem is not None,
        newer=state.newer,
    )


def question_block(asked: OpenQuestion) -> Block:
    """The question and how to answer it."""
    where = f"#{asked.number} {asked.title}" if asked.number is not None else f"Loop {asked.loop_id}"
    why = f": {asked.detail}" if asked.detail else ""
    return Lines((f"{asked.what}{why}", *_answer_lines(asked)), title=where, framed=True)


def _answer_lines(asked: OpenQuestion) -> Iterator[Cell]:
    if asked.damaged and not asked.newer:
        yield Cell("put the event files right, or record what is missing and go on from there:", "faint")
        yield Cell(f"  {DAMAGED}", "command")
    for choice, command in asked.answers:
        yield Cell(f"{choice.label}:", "faint")
        yield Cell(f"  {command}", "command")


def _of_loops(loops: Sequence[Loop]) -> Iterator[OpenQuestion]:
    for loop in loops:
        reason = loop.entity.halt_reason
        if loop.entity.status == "halted" and reason in RULE and RULE[reason].asked_of == "loop":
            yield OpenQuestion(reason=reason, loop_id=loop.id)


def _revision_now(app: App, world: World, state: TaskState) -> str | None:
    """The revision that approving would approve; None where that cannot be read."""
    plan = world.plans.get(state.task_key)
    if plan is None:
        return None
    from irontree.services.planning.intake import name_to_approve

    try:
        return name_to_approve(app, plan)
    except (IrontreeError, OSError):
        return None
