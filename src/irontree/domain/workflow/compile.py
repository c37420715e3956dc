"""A HOTL workflow file as a tree: its intent is the root, and each step a leaf behind the one before (docs/hotl.md).

Boxes are no part of what is approved: people and programs tick them while the work goes on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator, Sequence
from itertools import count
from typing import Final, NamedTuple

from irontree.domain.command_lines import unshown
from irontree.domain.ids import normalize, spec_digest, task_key
from irontree.domain.plan import Criterion, PlanNode
from irontree.domain.requirements.markdown import SpecProblem, parse
from irontree.domain.requirements.outline import part_of, preamble_of
from irontree.domain.requirements.tasks import read_prose
from irontree.domain.spec import Requirements, deceptive_characters, decode
from irontree.domain.workflow.lint import document_type, interpret_linted
from irontree.domain.workflow.reading import BOX_COLUMN, WrittenWorkflow, read
from irontree.domain.workflow.step import Artifact, Browser, Command, Review, StepCheck, StepSpec
from irontree.domain.workflow.verify import ArtifactCheck, BrowserCheck, HumanReview, OneCheck, ShellCheck, checks_of
from irontree.domain.workflow.workflow import Step, Workflow, approves_itself, slug_of
from irontree.errors import RequirementsRefused

_MARKS: Final = ("intent", "risk_level")
"""Keys of the front matter by which a file of any name is known."""


def is_workflow(data: bytes, name: str) -> bool:
    """Whether a document is a workflow file: by its name, or by its front matter."""
    if document_type(name) == "workflow":
        return True
    front = read(data.decode("utf-8", "replace")).front if data.startswith((b"---", b"\xef\xbb\xbf---")) else None
    return front is not None and all(front.first(key) for key in _MARKS)


def read_workflow(data: bytes, name: str) -> Requirements:
    """The tree of the workflow file *data*, known as *name*. Raises RequirementsRefused with all that lint finds."""
    text = decode(data, name)
    written = read(text)
    workflow, found = interpret_linted(written)
    errors = sorted({*deceptive_characters(text), *found.errors} or set(_hidden_in(written, workflow)))
    if errors:
        raise RequirementsRefused(tuple(f"{name}:{_described(problem)}" for problem in errors))
    nodes = tuple(_nodes(workflow, written, name))
    source = normalize(unticked(written))
    return Requirements(
        name=name,
        source=source,
        title=workflow.intent,
        introduction=common_text(written)[1],
        nodes=nodes,
        digest=spec_digest(source, nodes),
        warnings=tuple(sorted(set(found.warnings))),
        workflow=workflow,
    )


def common_text(written: WrittenWorkflow) -> tuple[str, str]:
    """The file's own title, and what belongs to all its steps: see the same of requirements (`domain/spec.py`)."""
    lines = written.common
    document = parse(lines)
    parts = [preamble_of(document, len(lines)), *(part_of(section, "prose") for section in document.sections)]
    titled = bool(document.sections) and document.sections[0].level == 1
    if titled:
        parts[1].kind = None
    return document.sections[0].title if titled else "", read_prose(parts, lines)


def _hidden_in(written: WrittenWorkflow, workflow: Workflow) -> Iterator[SpecProblem]:
    """What an approval would not show of the commands."""
    for step, at in zip(workflow.steps, written.steps, strict=True):
        commands = (check.command for check in checks_of(step.verify) if isinstance(check, ShellCheck))
        for what, remedy in filter(None, map(unshown, commands)):
            yield SpecProblem(at.line + 1, f"Step {step.number} has a command with {what}", remedy)


def _described(problem: SpecProblem) -> str:
    return f"{problem.line}: {problem.what}{f'. {problem.remedy}' if problem.remedy else ''}"


def unticked(written: WrittenWorkflow) -> str:
    """The text with every step's box empty."""
    lines = list(written.lines)
    for step in written.steps:
        if step.ticked:
            line = lines[step.line]
            lines[step.line] = f"{line[:BOX_COLUMN]} {line[BOX_COLUMN + 1 :]}"
    return "\n".join(lines)


# --- Its boxes: ticked for the steps that are done, one character each


class Ticked(NamedTuple):
    """The text with its boxes as they must be, and the steps whose box had a tick without being done."""

    text: str
    set_back: tuple[int, ...]


def with_boxes(text: str, source: str, done: Collection[int]) -> Ticked | None:
    """*text* with a tick for each step that is *done*; None if the rest of it is not the approved *source* any more."""
    written = read(text)
    if normalize(unticked(written)) != source:
        return None
    pieces = re.split("(\r\n|\r|\n)", text)
    set_back = []
    for step in written.steps:
        at = 2 * step.line  # line ends stand between the lines
        if step.ticked is None or step.ticked == (step.number in done):
            continue
        sign = " " if step.ticked else "x"
        pieces[at] = f"{pieces[at][:BOX_COLUMN]}{sign}{pieces[at][BOX_COLUMN + 1 :]}"
        if step.ticked:
            set_back.append(step.number)
    return Ticked("".join(pieces), tuple(set_back))


# --- Its nodes


def _nodes(workflow: Workflow, written: WrittenWorkflow, name: str) -> Iterator[PlanNode]:
    slug = slug_of(name)
    root = PlanNode(
        task_key=task_key((slug,)),
        title=workflow.intent,
        shape="composite",
        executability="container",
        description=f"Success criteria: {workflow.success_criteria}",
        line=1,
    )
    yield root
    keys = [root.task_key]
    for step, at in sorted(
        zip(workflow.steps, written.steps, strict=True), key=lambda each: (each[0].number, each[1].line)
    ):
        before = keys[1:]
        keys.append(_free(task_key((slug, step.name)), keys))
        yield _leaf(workflow, step, key=keys[-1], root=root.task_key, before=before[-1:], line=at.line + 1)


def _free(key: str, taken: Container[str]) -> str:
    """The key, or the first of `KEY-2`, `KEY-3` and so on that no other step has."""
    names = (key if number == 1 else f"{key}-{number}" for number in count(1))
    return next(name for name in names if name not in taken)


def _leaf(workflow: Workflow, step: Step, *, key: str, root: str, before: Sequence[str], line: int) -> PlanNode:
    checks = tuple(_checks(step))
    itself = approves_itself(auto_approve=workflow.auto_approve, risk_level=workflow.risk_level)
    spec = StepSpec(
        number=step.number,
        name=step.name if step.gate == "human" else "",
        condition=step.condition,
        checks=checks,
        gate=step.gate,
        approves_itself=step.gate == "human" and itself,
    )
    return PlanNode(
        task_key=key,
        title=step.name or f"Step {step.number}",
        parent=root,
        depends_on=tuple(before),
        description="\n\n".join(filter(None, (step.action, step.context))),
        criteria=tuple(dict.fromkeys(_judged(spec))),
        max_retry_count=step.max_iterations - 1 if step.condition else 0,
        step=spec,
        line=line,
    )


def _judged(spec: StepSpec) -> Iterator[Criterion]:
    """What people judge, in one question: reviews, what a page shows, the gate."""
    for check in spec.checks:
        if isinstance(check, Review):
            yield Criterion(text=check.prompt, manual=True)
        elif isinstance(check, Browser):
            yield Criterion(text=check.does, manual=True)
    if spec.gate == "human":
        yield Criterion(text=spec.gate_text, manual=True)


def _checks(step: Step) -> Iterator[StepCheck]:
    return filter(None, map(_check, checks_of(step.verify)))


def _check(check: OneCheck) -> StepCheck | None:
    """The same as it is approved; None for nothing to check. Lint has refused what cannot be one."""
    match check:
        case ShellCheck(command):
            return Command(run=command) if command else None
        case BrowserCheck(url, what):
            return Browser(url=url, check=what)
        case HumanReview(prompt):
            return Review(prompt=prompt)
        case ArtifactCheck(path, kind, value):
            return Artifact.model_validate({"path": path, "kind": kind, "value": value})
        case _:
            raise ValueError(f"lint knows no check of the type {check.type}")
