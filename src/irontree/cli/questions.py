"""The open questions of a repository, each with the commands that answer it."""

from __future__ import annotations

from collections.abc import Iterator

from irontree.app import App
from irontree.cli.blocks import Block, Cell, Lines
from irontree.cli.hints import DAMAGED, Asked
from irontree.domain.halt import RULE, halt_of
from irontree.domain.state import TaskState
from irontree.errors import IrontreeError
from irontree.services.loop import Loop, read_loop
from irontree.services.overview import title_of
from irontree.services.world import World


def open_loops(app: App) -> tuple[Loop, ...]:
    """Loops that have not ended, oldest first."""
    found = (read_loop(app, loop_id) for loop_id in app.loops.ids())
    return tuple(loop for loop in found if loop.entity.status in ("running", "halted"))


def loop_of(loops: tuple[Loop, ...], task_key: str) -> str | None:
    """The newest open loop that has this task in scope."""
    return next((loop.id for loop in reversed(loops) if task_key in loop.keys), None)


def open_questions(app: App, world: World, loops: tuple[Loop, ...]) -> tuple[Asked, ...]:
    """Those of issues first, lowest number first, then those of loops."""
    states = sorted(world.states.values(), key=lambda state: state.issue_number)
    of_issues = (asked_about(app, world, loops, state) for state in states)
    return (*filter(None, of_issues), *_of_loops(loops))


def asked_about(app: App, world: World, loops: tuple[Loop, ...], state: TaskState) -> Asked | None:
    """What this issue asks; None if nothing."""
    rule = halt_of(state)
    if rule is None:
        return None
    return Asked(
        reason=rule.reason,
        number=state.issue_number,
        task_key=state.task_key,
        title=title_of(world, state.task_key),
        loop_id=loop_of(loops, state.task_key),
        revision=_revision_now(app, world, state) if rule.reason == "reapproval_required" else None,
        detail=state.problem or state.blocking_check or "",
        damaged=state.problem is not None,
    )


def question_block(asked: Asked) -> Block:
    """The question and how to answer it."""
    where = f"#{asked.number} {asked.title}" if asked.number is not None else f"Loop {asked.loop_id}"
    why = f": {asked.detail}" if asked.detail else ""
    return Lines((f"{asked.what}{why}", *_answer_lines(asked)), title=where, framed=True)


def _answer_lines(asked: Asked) -> Iterator[Cell]:
    if asked.damaged:
        yield Cell("put the event files right, or record what is missing and go on from there:", "faint")
        yield Cell(f"  {DAMAGED}", "command")
    for choice, command in asked.answers:
        yield Cell(f"{choice.label}:", "faint")
        yield Cell(f"  {command}", "command")


def _of_loops(loops: tuple[Loop, ...]) -> Iterator[Asked]:
    for loop in loops:
        reason = loop.entity.halt_reason
        if loop.entity.status == "halted" and reason in RULE and RULE[reason].asked_of == "loop":
            yield Asked(reason=reason, loop_id=loop.id)


def _revision_now(app: App, world: World, state: TaskState) -> str | None:
    """The revision that approving would approve; None where the document cannot be read."""
    plan = world.plans.get(state.task_key)
    if plan is None:
        return None
    from irontree.services.approve import propose

    try:
        return propose(app, app.repository.root / plan.spec_path).revision
    except (IrontreeError, OSError):
        return None
