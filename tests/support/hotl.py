"""`hotl-rt` in a folder of its own, called in this process; and the sample workflows."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from irontree.cli.hotl import main
from irontree.domain.workflow.reading import read
from irontree.domain.workflow.workflow import Workflow, interpret

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "hotl"
STEP = "- [ ] **Step {number}: {name}**\naction: Do it\n{fields}\n"


@dataclass(frozen=True)
class Called:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def call(*words: object) -> Called:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    return Called(code, out.getvalue(), err.getvalue())


@dataclass
class Hotl:
    """The current folder with the samples in `fixtures/`; *run_id* is that of the last `init`."""

    folder: Path
    run_id: str = ""
    calls: list[Called] = field(default_factory=list)

    def __call__(self, *words: object) -> Called:
        self.calls.append(call(*words))
        return self.calls[-1]

    def ok(self, *words: object) -> str:
        """What a command that must succeed prints."""
        called = self(*words)
        assert called.code == 0, called
        return called.out

    def refused(self, *words: object) -> str:
        """The error of a command that must fail, print nothing and change nothing."""
        before = self.files()
        called = self(*words)
        assert (called.code, called.out) == (1, ""), called
        assert called.err.startswith("ERROR: "), called
        assert self.files() == before
        return called.err

    def init(self, sample: str = "runtime-sample", *words: object) -> str:
        found = next(SAMPLES.glob(f"*{sample}*.md"))
        shutil.copyfile(found, self.folder / "fixtures" / found.name)
        self.run_id = self.ok("init", f"fixtures/{found.name}", *words).strip()
        return self.run_id

    def begin(self, *steps: str, front: str = "risk_level: low\nauto_approve: true") -> str:
        """Init a workflow of these steps: the fields of each behind `action:`."""
        path = self.folder / "hotl-workflow-made.md"
        path.write_text(workflow(*steps, front=front), encoding="utf-8")
        self.run_id = self.ok("init", path.name).strip()
        return self.run_id

    @property
    def state_file(self) -> Path:
        return self.folder / ".hotl" / "state" / f"{self.run_id}.json"

    @property
    def state(self) -> dict[str, Any]:
        return json.loads(self.state_file.read_text(encoding="utf-8"))

    def step(self, number: int) -> dict[str, Any]:
        return self.state["steps"][number - 1]

    @property
    def report(self) -> str:
        return (self.folder / ".hotl" / "reports" / f"{self.run_id}.md").read_text(encoding="utf-8")

    def edit(self, number: int, **verify: Any) -> None:
        """Change the checks of a step by hand, as people do between two calls."""
        state = self.state
        state["steps"][number - 1]["verify"] |= verify
        self.state_file.write_text(json.dumps(state), encoding="utf-8")

    def finish(self, *numbers: int) -> None:
        for number in numbers:
            self.ok("step", number, "start")
            self.ok("step", number, "verify")

    def files(self) -> dict[str, bytes]:
        found = (path for path in (self.folder / ".hotl").rglob("*") if path.is_file())
        return {path.name: path.read_bytes() for path in found if path.name != ".lock"}


def workflow(*steps: str, front: str = "risk_level: low\nauto_approve: true") -> str:
    head = f"---\nintent: Try it\nsuccess_criteria: It works\n{front}\n---\n\n"
    made = (STEP.format(number=at, name=f"Part {at}", fields=fields) for at, fields in enumerate(steps, 1))
    return head + "\n".join(made)


def parsed(front: str = "risk_level: low", *steps: str) -> Workflow:
    """A file of these steps, as it is read."""
    return interpret(read(workflow(*steps, front=front)))[0]
