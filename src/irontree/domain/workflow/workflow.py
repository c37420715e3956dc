"""A HOTL workflow as typed values, its slug, and the rule by which a gate approves itself (docs/hotl.md).

A value that cannot be what it must be is a finding; the values that stand in its place then count for nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from irontree.domain.requirements.markdown import Findings
from irontree.domain.workflow.reading import WrittenStep, WrittenWorkflow, verify_items
from irontree.domain.workflow.verify import NOTHING, ShellCheck, Verify, checks_of, written_verify

Risk = Literal["low", "medium", "high"]
RISKS: Final[dict[str, Risk]] = {"low": "low", "medium": "medium", "high": "high"}
BOOLEANS: Final = {"true": True, "false": False}
MODES: Final = ("true", "false", "host")
"""What `worktree` can be."""
MOST_ITERATIONS: Final = 50
ITERATIONS: Final = 3
_PREFIX: Final = "hotl-workflow-"
_DATED: Final = re.compile(r"\d{4}-\d{2}-\d{2}-(.+)-workflow")
_UNTIL: Final = re.compile(r"until\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Step:
    """A step: *loop* is as written, `false` or `until CONDITION`; *context* is its prose, which is no field."""

    number: int
    name: str
    action: str
    loop: str
    max_iterations: int
    verify: Verify
    gate: Literal["human", "auto"] | None
    context: str

    @property
    def condition(self) -> str:
        """What it loops until; empty for `loop: false`."""
        return condition_of(self.loop)


@dataclass(frozen=True, slots=True)
class Workflow:
    """A whole file. *branch* and *worktree* are empty where the file does not set them."""

    intent: str
    success_criteria: str
    risk_level: Risk
    auto_approve: bool
    branch: str
    worktree: str
    verbose: bool
    full_report: bool
    dirty_allowed: bool
    steps: tuple[Step, ...]


def condition_of(loop: str) -> str:
    """The condition in `until CONDITION`; empty if there is none."""
    loop = loop.strip()
    return loop[len("until") :].strip() if _UNTIL.match(loop) else ""


def approves_itself(*, auto_approve: bool, risk_level: str) -> bool:
    """Whether a `gate: human` needs no person: `auto_approve`, and a risk that is not high. Reviews always do."""
    return auto_approve and risk_level != "high"


def slug_of(path: str) -> str:
    """The short name of a workflow file: without `.md`, `hotl-workflow-`, the date and `-workflow`."""
    name = path.rstrip("/").rpartition("/")[2].removesuffix(".md")
    if name.startswith(_PREFIX):
        return name.removeprefix(_PREFIX)
    dated = _DATED.fullmatch(name)
    return dated[1] if dated else name.removesuffix("-workflow")


def interpret(written: WrittenWorkflow) -> tuple[Workflow, Findings]:
    """The values with their types, and those among them that a run could not keep or would take for others.

    That is what would pass a step unchecked, approve what needs a person, or address a wrong step.
    """
    found = Findings(range(1, len(written.lines) + 1))
    risk = first_word(written.front.value("risk_level"))
    if written.front.first("risk_level") and risk not in RISKS:
        found.refuse(written.front.line("risk_level"), f"risk_level must be low, medium, or high (got: '{risk}')", "")
    auto = written.front.value("auto_approve").lower()
    if written.front.first("auto_approve") and auto not in BOOLEANS:
        what = f"auto_approve must be true or false (got: '{auto}')"
        found.refuse(written.front.line("auto_approve"), what, "")
    seen: dict[int, str] = {}
    for step in written.steps:
        if step.number in seen:
            what = f"Step '{step.name}' has the number {step.number}, as '{seen[step.number]}' has"
            found.refuse(step.line, what, "Number the steps 1, 2, 3")
        seen.setdefault(step.number, step.name)
    workflow = Workflow(
        written.front.value("intent"),
        written.front.value("success_criteria"),
        RISKS.get(risk, "low" if not risk else "high"),
        BOOLEANS.get(auto, False),
        written.front.value("branch"),
        first_word(written.front.value("worktree")),
        first_word(written.front.value("progress")) == "verbose",
        first_word(written.front.value("report_detail")) == "full",
        first_word(written.front.value("dirty_worktree")) == "allow",
        tuple(_step(step, found) for step in written.steps),
    )
    return workflow, found


def first_word(value: str) -> str:
    """The first word in lower case, which is all that upstream looks at."""
    return next(iter(value.lower().split()), "")


def _step(step: WrittenStep, found: Findings) -> Step:
    gate = step.fields.value("gate").lower()
    context = "\n".join(line.text for line in step.prose).strip()
    return Step(
        step.number,
        step.name,
        step.fields.written("action"),
        step.fields.value("loop") or "false",
        _iterations(step, found),
        _verify(step, found),
        _gate(step, gate, found),
        context,
    )


def _gate(step: WrittenStep, gate: str, found: Findings) -> Literal["human", "auto"] | None:
    field = step.fields.first("gate")
    match gate:
        case "human" | "auto":
            return gate
        case _:
            if field:
                found.refuse(field.line, f"Step '{step.name}' gate must be human or auto (got: '{gate}')", "")
            return None


def _iterations(step: WrittenStep, found: Findings) -> int:
    field = step.fields.first("max_iterations")
    if field is None:
        return ITERATIONS
    text = step.fields.value("max_iterations")
    number = int(text) if re.fullmatch(r"[0-9]{1,4}", text) else 0
    if not 1 <= number <= MOST_ITERATIONS:
        what = f"Step '{step.name}' max_iterations must be a whole number from 1 to {MOST_ITERATIONS} (got: '{text}')"
        found.refuse(field.line, what, "")
        return ITERATIONS
    return number


def _verify(step: WrittenStep, found: Findings) -> Verify:
    """The checks; one without a command would pass whatever happens."""
    field = step.fields.first("verify")
    if field is None:
        return NOTHING
    items = verify_items(field)
    if items is None:
        found.refuse(field.line, f"Step '{step.name}' has empty verify block", "")
        return NOTHING
    verify = written_verify(items)
    several = items if isinstance(items, tuple) else (items,)
    for item, check in zip(several, checks_of(verify), strict=True):
        if isinstance(check, ShellCheck) and not check.command and (item.fields.written("type") or len(several) > 1):
            found.refuse(item.line, f"Step '{step.name}' verify type:shell missing 'command:' field", "")
        elif isinstance(check, ShellCheck) and not check.command:
            what = f"Step '{step.name}' has structured verify block but missing 'type:' field"
            found.refuse(item.line, what, "")
    return verify
