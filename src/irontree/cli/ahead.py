"""What `--what-if` of `irontree task` and `irontree resume` shows: the steps that would follow, and how they end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from irontree.cli.context import Context
from irontree.cli.output import Cell, OutputBlock, Table, TextLines
from irontree.cli.parser import OK
from irontree.domain.decide import Aggregate, Decision, Finalize, ForecastStep, Halt, Recover, Run, Verify
from irontree.domain.halt import RULE
from irontree.domain.text import times

_STEPS: Final = {
    Recover: "recover",
    Run: "run",
    Verify: "verify",
    Finalize: "finalize",
    Aggregate: "aggregate",
    Halt: "asks you",
}


def show_ahead(context: Context, found: Sequence[ForecastStep], titles: Mapping[str, str]) -> int:
    """Print the forecast; returns the exit code."""
    context.console.show(lambda: as_json(found), blocks(found, titles))
    return OK


def as_json(found: Sequence[ForecastStep]) -> dict[str, Any]:
    """`steps` in order, and the halt reason that the forecast `ends_with`."""
    steps = [
        {"step": _step(item.decision), "task_key": item.decision.task_key, "assumed": item.assumed}
        for item in found
        if item.assumed
    ]
    return {"steps": steps, "ends_with": _ending(found).reason}


def blocks(found: Sequence[ForecastStep], titles: Mapping[str, str]) -> Iterator[OutputBlock]:
    """The same for people; *titles* by task key."""
    steps = [item for item in found if item.assumed]
    rows = tuple(_row(number, item, titles) for number, item in enumerate(steps, start=1))
    if rows:
        yield Table(("", "STEP", "TASK", "TAKEN TO COME TO"), rows)
    often = sum(isinstance(item.decision, Halt) for item in steps)
    asked = f"asked {times(often)}" if often else "not asked"
    ending = _ending(found)
    at = f" at {titles.get(ending.task_key, ending.task_key)}" if ending.task_key else ""
    yield TextLines(
        (
            f"If every attempt passes, you are {asked}, and it ends with: {RULE[ending.reason].title}{at}.",
            *([ending.detail] if ending.detail else []),
            Cell("Nothing was started, written or asked for.", "faint"),
        )
    )


def _ending(found: Sequence[ForecastStep]) -> Halt:
    last = found[-1].decision
    if not isinstance(last, Halt):
        raise TypeError(f"a forecast ends with a halt, not with {last}")
    return last


def _row(number: int, item: ForecastStep, titles: Mapping[str, str]) -> tuple[Cell | str, ...]:
    key = item.decision.task_key or ""
    step = Cell(_step(item.decision), "asks" if isinstance(item.decision, Halt) else "")
    return (Cell(f"{number}", "faint"), step, titles.get(key, key), Cell(item.assumed, "faint"))


def _step(decision: Decision) -> str:
    return _STEPS[type(decision)]
