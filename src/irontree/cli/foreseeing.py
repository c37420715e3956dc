"""`irontree task … --what-if`: the steps that would follow, if all went well, and who would be asked on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from irontree.app import App
from irontree.cli.blocks import Block, Cell, Lines, Table
from irontree.cli.context import Context
from irontree.cli.exit_codes import OK
from irontree.domain.decide import Aggregate, Decision, Finalize, Halt, Recover, Run, Verify
from irontree.domain.forecast import Foreseen
from irontree.domain.halt import RULE
from irontree.domain.plan import ExecutionPolicy, PlanNode
from irontree.services.loops.forecast import foresee_loop, foresee_plan
from irontree.services.loops.loop import Loop
from irontree.services.world import read_world

_STEPS: Final = {
    Recover: "recover",
    Run: "run",
    Verify: "verify",
    Finalize: "finalize",
    Aggregate: "aggregate",
    Halt: "asks you",
}


def show_plan_ahead(context: Context, app: App, tasks: Sequence[tuple[PlanNode, ExecutionPolicy]], budget: int) -> int:
    """Show what a loop over *tasks*, each with the settings it is approved with, would do."""
    found = foresee_plan(app, tasks, budget)
    return _show(context, found, {node.task_key: node.title for node, _ in tasks})


def show_loop_ahead(context: Context, app: App, loop: Loop) -> int:
    """Show what a loop that is there would do from here."""
    nodes = read_world(app).nodes
    return _show(context, foresee_loop(app, loop), {key: node.title for key, node in nodes.items()})


def _show(context: Context, found: Sequence[Foreseen], titles: Mapping[str, str]) -> int:
    context.console.show(lambda: as_json(found), blocks(found, titles))
    return OK


def as_json(found: Sequence[Foreseen]) -> dict[str, Any]:
    """`steps` in order, and the halt reason that the walk `ends_with`."""
    steps = [
        {"step": _step(item.decision), "task_key": item.decision.task_key, "assumed": item.assumed}
        for item in found
        if item.assumed
    ]
    return {"steps": steps, "ends_with": _ending(found).reason}


def blocks(found: Sequence[Foreseen], titles: Mapping[str, str]) -> Iterator[Block]:
    """The same for people; *titles* by task key."""
    steps = [item for item in found if item.assumed]
    rows = tuple(_row(number, item, titles) for number, item in enumerate(steps, start=1))
    if rows:
        yield Table(("", "STEP", "TASK", "TAKEN TO COME TO"), rows)
    asked = sum(isinstance(item.decision, Halt) for item in steps)
    often = {0: "never", 1: "once"}.get(asked, f"{asked} times")
    ending = _ending(found)
    at = f" at {titles.get(ending.task_key, ending.task_key)}" if ending.task_key else ""
    yield Lines(
        (
            f"If every attempt passes, you are asked {often}, and it ends with: {RULE[ending.reason].title}{at}.",
            Cell("Nothing was started, written or asked for.", "faint"),
        )
    )


def _ending(found: Sequence[Foreseen]) -> Halt:
    last = found[-1].decision
    if not isinstance(last, Halt):
        raise TypeError(f"a forecast ends with a halt, not with {last}")
    return last


def _row(number: int, item: Foreseen, titles: Mapping[str, str]) -> tuple[Cell | str, ...]:
    key = item.decision.task_key or ""
    step = Cell(_step(item.decision), "asks" if isinstance(item.decision, Halt) else "")
    return (Cell(f"{number}", "faint"), step, titles.get(key, key), Cell(item.assumed, "faint"))


def _step(decision: Decision) -> str:
    return _STEPS[type(decision)]
