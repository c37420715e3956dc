"""`irontree status --loops [LOOP]`: the loops of this repository with their budgets, or one with its transitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from irontree.app import App
from irontree.cli.context import Context
from irontree.cli.inbox import question_block
from irontree.cli.output import Cell, OutputBlock, Style, Table, TextLines
from irontree.domain.events import Record
from irontree.domain.loop import LoopEvent
from irontree.domain.spending import Budget
from irontree.services.loops.funds import read_funds
from irontree.services.loops.loop import Loop, left_out, read_loop
from irontree.services.record import World, read_world
from irontree.services.views.history import say_loop_event
from irontree.services.views.overview import LoopRow, Overview, overview, title_of


def budget_blocks(budgets: Sequence[Budget]) -> Iterator[OutputBlock]:
    """One line per budget; nothing without budgets."""
    if budgets:
        yield TextLines(tuple(Cell(budget.words, _style(budget)) for budget in budgets), title="Budgets")


def budgets_json(budgets: Iterable[Budget]) -> list[dict[str, Any]]:
    """The documented keys: amounts in parts (millionths of a US dollar, tokens, milliseconds), and in words."""
    derived = ("left", "over", "warns", "words")
    return [budget._asdict() | {name: getattr(budget, name) for name in derived} for budget in budgets]


def _style(budget: Budget) -> Style:
    return "bad" if budget.over else "asks" if budget.warns else "faint"


# --- The table of loops, shared by all listings


def loop_table(found: Overview) -> Table:
    """One row per loop."""
    at_work = bool(found.busy or found.active_loop or found.serving)
    return Table(("LOOP", "DONE", "TRANSITIONS", "STATE"), tuple(_cells(row, at_work=at_work) for row in found.loops))


def _cells(row: LoopRow, *, at_work: bool) -> tuple[Cell | str, ...]:
    done = f"{row.done} of {row.total}{f', {row.skipped} skipped' if row.skipped else ''}"
    return (row.loop_id, done, f"{row.budget_used} of {row.budget}", _state(row, at_work=at_work))


def _state(row: LoopRow, *, at_work: bool) -> str:
    """What a person may believe of its state: nothing runs that nobody drives, and no reason outlives its answer."""
    if row.status == "halted" and row.halt_reason and not row.answered:
        return f"halted: {row.halt_reason.replace('_', ' ')}{f' at {row.halt_at}' if row.halt_at else ''}"
    if row.status in ("running", "halted") and not at_work:
        return "waits to be resumed"
    return "running" if row.status == "halted" else row.status


# --- `irontree status --loops [LOOP]`: the loops of this repository, or one with its tasks and transitions


SHOWN_TRANSITIONS = 20


def show_loops(context: Context) -> int:
    """Print all loops, or one; raises NotEligible for an unknown id."""
    app = context.look()
    if context.options.loop_id is None:
        found = overview(app)
        context.console.show(lambda: {"loops": [row._asdict() for row in found.loops]}, list_blocks(found))
        return 0
    loop, world = read_loop(app, context.options.loop_id), read_world(app)
    records, budgets = app.loops.read(loop.id).records, read_funds(app, world).of_loop(loop)
    context.console.show(
        lambda: as_json(loop, world, records) | {"budgets": budgets_json(budgets)},
        [*blocks(loop, world, records), *budget_blocks(budgets), *_asked(app, world, loop)],
    )
    return 0


def list_blocks(found: Overview) -> Iterator[OutputBlock]:
    """All loops, oldest first."""
    if not found.loops:
        yield TextLines(("No loops yet.", Cell("-> irontree task SPEC.md starts one", "typed")))
        return
    yield loop_table(found)


def as_json(loop: Loop, world: World, records: tuple[Record[LoopEvent], ...]) -> dict[str, Any]:
    """The loop entity as on disk, cancelled tasks, and the loop's events with their meta."""
    return {
        "loop": loop.entity.model_dump(mode="json"),
        "cancelled": sorted(loop.cancelled),
        "tasks": [_task(loop, world, key) for key in loop.entity.task_keys],
        "events": [{"loop": r.event.model_dump(mode="json"), "meta": dict(r.meta)} for r in records],
    }


def blocks(loop: Loop, world: World, records: tuple[Record[LoopEvent], ...]) -> Iterator[OutputBlock]:
    """The human-readable output."""
    entity = loop.entity
    spent = f"{entity.budget_used} of {entity.budget_max_transitions} transitions used"
    yield TextLines((Cell(f"Loop {loop.id}: {entity.status}, {spent}", "title"), f"Of: {entity.intent}"))
    tasks = [_task(loop, world, key) for key in entity.task_keys]
    rows = tuple((f"#{t['issue']}" if t["issue"] else "", t["phase"] or "", t["title"]) for t in tasks)
    yield Table(("ISSUE", "STATE", "TITLE"), rows)
    history = tuple((Cell(r.told.time, "faint"), say_loop_event(r)) for r in records)
    yield Table(("TIME", "WHAT"), history)
    taken = entity.transitions[-SHOWN_TRANSITIONS:]
    if taken:
        more = f"last {len(taken)} of {entity.budget_used}" if len(taken) < entity.budget_used else "all"
        steps = tuple((Cell(t.iso, "faint"), t.skill, t.outcome, t.task_key) for t in taken)
        yield Table(("TIME", "STEP", "OUTCOME", "TASK"), steps, title=f"Transitions ({more})")


def _task(loop: Loop, world: World, key: str) -> dict[str, Any]:
    state = world.states.get(key)
    phase = "skipped" if key in left_out(loop, world) else state.phase.value if state else None
    number = state.issue_number if state else None
    return {"task_key": key, "issue": number, "title": title_of(world, key), "phase": phase}


def _asked(app: App, world: World, loop: Loop) -> Iterator[OutputBlock]:
    if loop.is_open:
        from irontree.services.questions.listing import list_questions  # reads documents, to say what can be approved

        mine = (asked for asked in list_questions(app, world, (loop,)) if asked.loop_id == loop.id)
        yield from (question_block(asked) for asked in mine)
