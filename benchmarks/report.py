"""What came out: a table for people, `bench.json` for programs, `bench-details.json` for who doubts it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import Comparison, Machine

Load = tuple[float, float, float]
_COLUMNS = "{:<58} {:>6}  {:>13}  {:>5}  {:>11}  {:>11}  {}"


@dataclass(frozen=True, slots=True)
class Measured:
    """The rows of one bar, and the load averages before and after."""

    rows: tuple[Comparison, ...]
    load_before: Load
    load_after: Load


def table(measured: Sequence[Measured]) -> Iterator[str]:
    """Lines: a head, and a line for each comparison."""
    yield _COLUMNS.format("comparison", "ratio", "quartiles", "bar", "ours", "baseline", "")
    for bar in measured:
        yield from (_line(row) for row in bar.rows)


def _line(row: Comparison) -> str:
    first, third = row.quartiles
    verdict = "" if row.bar is None else "kept" if row.ok else "MISSED"
    bar = "-" if row.bar is None else f"{row.bar:g}"
    figures = (_figure(row.ours, row.unit), _figure(row.baseline, row.unit))
    return _COLUMNS.format(row.name, f"{row.ratio:.2f}", f"{first:.2f} - {third:.2f}", bar, *figures, verdict).rstrip()


def _figure(value: float, unit: str) -> str:
    if unit == "MB":
        return f"{value:.1f} MB"
    return f"{value:.3f} s" if value >= 1 else f"{value * 1000:.2f} ms"


def about(machine: Machine, measured: Sequence[Measured]) -> Iterator[str]:
    """Lines: where it was measured, and whether others were at work there."""
    yield f"{machine.cpu}, {machine.cores} cores, {machine.system}"
    yield ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    loads = [bar.load_before[0] for bar in measured] + [bar.load_after[0] for bar in measured]
    yield f"load average (1 min) between {min(loads):.2f} and {max(loads):.2f}"


def write(folder: Path, machine: Machine, measured: Sequence[Measured], *, quick: bool) -> None:
    """Write both files into *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [_summary(row) for bar in measured for row in bar.rows]
    details = {
        "measured_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "quick": quick,
        "machine": asdict(machine),
        "rows": [_details(row, bar) for bar in measured for row in bar.rows],
    }
    for name, content in (("bench.json", rows), ("bench-details.json", details)):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _summary(row: Comparison) -> dict[str, Any]:
    return {"name": row.name, "ratio": round(row.ratio, 3), "bar": row.bar, "ok": row.ok}


def _details(row: Comparison, bar: Measured) -> dict[str, Any]:
    return {
        **_summary(row),
        "quartiles": row.quartiles,
        "unit": row.unit,
        "ours": row.ours,
        "baseline": row.baseline,
        "pairs": [(pair.ours, pair.baseline) for pair in row.pairs],
        "load_before": bar.load_before,
        "load_after": bar.load_after,
    }
