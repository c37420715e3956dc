"""`make storms`: storms up to a number, each a line in build/storms/results.jsonl; goes on where it was stopped."""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tools.storms.driver import Storm
from tools.storms.project import keep_template

FOLDER = Path(__file__).resolve().parents[2] / "build" / "storms"
RESULTS = FOLDER / "results.jsonl"
AT_A_TIME = 2
WITHOUT_TEMPLATE = 6
"""Each so many storms, one begins without a database of the private server."""


def main() -> int:
    """Run what the environment says: STORM=seed for one, else STORMS=n of them from SEED=n on."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    one = os.environ.get("STORM")
    if one:
        row = storm(int(one), keep=True)
        print(json.dumps(row, indent=2))
        return bool(row["complaints"])
    first = int(os.environ.get("SEED") or 1)
    count = int(os.environ.get("STORMS") or 200)
    wanted = range(first, first + count)
    known = {row["seed"] for row in results()}
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        made = [pool.submit(storm, seed, keep=False) for seed in wanted if seed not in known]
        for ended in as_completed(made):
            row = ended.result()
            keep(row)
            told(row)
    return summary([row for row in results() if row["seed"] in wanted])


def storm(seed: int, *, keep: bool) -> dict[str, Any]:
    """Make that storm; its folder stays if it has complaints, or if it is to be kept."""
    folder = FOLDER / f"storm-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    made = Storm(seed, folder, keep_template(FOLDER) if seed % WITHOUT_TEMPLATE else None)
    try:
        made.run()
    except Exception:  # noqa: BLE001 (one that cannot be driven must not end the others)
        made.outcome.outcome = "driver failed"
        made.outcome.complaints.append(traceback.format_exc())
    if not keep and not made.outcome.complaints:
        shutil.rmtree(folder)
    row: dict[str, Any] = json.loads(made.outcome.line())
    return row


def keep(row: dict[str, Any], path: Path = RESULTS) -> None:
    """Add a line, behind one that a kill cut off too."""
    with path.open("a+", encoding="utf-8") as file:
        file.seek(0)
        cut_off = not f"\n{file.read()}".endswith("\n")
        file.write("\n" * cut_off + json.dumps(row) + "\n")


def results(path: Path = RESULTS) -> list[dict[str, Any]]:
    """The lines so far; one that was cut off by a kill is passed over."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def told(row: dict[str, Any]) -> None:
    """Say how one storm went."""
    counts = f"{len(row['kills'])} kills, {row['restarts']} commands, {len(row['questions'])} questions"
    print(
        f"{row['seed']:4} {row['kind']:8} {row['mode']:8} {row['outcome']:10} {row['seconds']:6.1f} s  {counts}",
        flush=True,
    )
    for complaint in row["complaints"]:
        print(f"       {complaint}", flush=True)


def summary(rows: list[dict[str, Any]]) -> int:
    """Say how all of them went; 1 if any has complaints."""
    kills = [kill for row in rows for kill in row["kills"]]
    questions = [question for row in rows for question in row["questions"]]
    bad = [row for row in rows if row["complaints"]]
    print(f"{len(rows)} storms, {len(kills)} kills, {sum(row['restarts'] for row in rows)} commands")
    print(f"killed: {dict(Counter(kill['at'] for kill in kills))}")
    print(f"{len(questions)} questions that kills caused:")
    for question, count in Counter(questions).most_common(20):
        print(f"  {count} times: {question}")
    print(f"{len(bad)} storms with complaints: {[row['seed'] for row in bad]}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
