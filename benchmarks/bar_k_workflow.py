"""(k) Workflow files: `hotl-rt summary` as an agent calls it after each step, and linting a long file."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cold import SmallLog
from benchmarks.measure import Comparison, alternate, pairs_of
from benchmarks.programs import Usage, launch
from benchmarks.sandbox import Effort
from irontree.domain.workflow.lint import lint

SUMMARY_BAR, LINT_BAR, LINEAR_BAR = 1.0, 1.0, 12.0
LINT_SECONDS = 0.3
STEPS, FEW = 500, 50
HOTL = str(Path(sys.executable).with_name("hotl-rt"))
_FRONT = "---\nintent: Many steps\nsuccess_criteria: Each of them passes\nrisk_level: low\nauto_approve: false\n---\n"
_STEP = """
- [ ] **Step {number}: Change file {number}**
action: Write the number into `file-{number}.txt`.
loop: until the file has it
max_iterations: 3
verify:
  - type: shell
    command: grep -q {number} file-{number}.txt
  - type: artifact
    path: file-{number}.txt
    assert:
      kind: contains
      value: "{number}"
"""


def compare(effort: Effort) -> Iterator[Comparison]:
    """The summary as a whole process, beside `irontree status`; lint alone, without Python's start."""
    name = "k: hotl-rt summary, time"
    log = SmallLog.lay_out(effort.folder)
    summary = _Summary(effort.folder)
    rounds = alternate(summary.show, log.status, effort.pairs, effort.watching(name))
    yield Comparison(name, SUMMARY_BAR, pairs_of(rounds, lambda usage: usage.seconds))
    name, text = f"k: lint of {STEPS} steps", workflow(STEPS)
    seconds = alternate(lambda: _lint(text), lambda: LINT_SECONDS, effort.pairs, effort.watching(name))
    yield Comparison(name, LINT_BAR, pairs_of(seconds, float))
    name, short = f"k: lint of {STEPS} steps, to {FEW}", workflow(FEW)
    grown = alternate(lambda: _lint(text), lambda: _lint(short), effort.pairs, effort.watching(name))
    yield Comparison(name, LINEAR_BAR, pairs_of(grown, float))


def workflow(steps: int) -> str:
    """A workflow file with that many steps, in which lint finds nothing."""
    return _FRONT + "".join(_STEP.format(number=number) for number in range(1, steps + 1))


class _Summary:
    """A run of ten steps, begun by `hotl-rt init`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "run"
        self._folder.mkdir()
        (self._folder / "hotl-workflow-many.md").write_text(workflow(10), encoding="utf-8")
        begun = [HOTL, "init", "hotl-workflow-many.md"]
        done = subprocess.run(begun, cwd=self._folder, capture_output=True, text=True, check=True)
        self._run_id = done.stdout.strip()

    def show(self) -> Usage:
        return launch([HOTL, "summary", self._run_id], folder=self._folder)


def _lint(text: str) -> float:
    began = time.perf_counter()
    found = lint(text, "workflow")
    seconds = time.perf_counter() - began
    if found.errors:
        raise RuntimeError(f"the file is meant to be sound: {found.errors[0]}")
    return seconds
