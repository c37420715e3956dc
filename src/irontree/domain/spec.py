"""Requirement documents: Markdown in, the tree of tasks and its Spec Revision out (protocol, phase 1).

The format is described in docs/requirement-format.md. Nothing in a document is ever executed here.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn

from irontree.domain.ids import normalize, normalized_lines, revision_in, spec_digest
from irontree.domain.plan import PlanNode
from irontree.domain.requirements.drafts import TaskDraft, make_drafts, refuse_cycles, resolve
from irontree.domain.requirements.markdown import Findings, MarkdownDocument, SpecProblem, parse, without_front_matter
from irontree.domain.requirements.outline import outline, parent_issue
from irontree.domain.requirements.tasks import read_prose, read_task
from irontree.domain.text import DECEPTIVE
from irontree.domain.workflow.step import Artifact, Browser
from irontree.errors import RequirementsRefused

if TYPE_CHECKING:  # most commands read no such file
    from irontree.domain.workflow.workflow import Workflow

MAX_BYTES: Final = 1024 * 1024
"""Documents are larger only by mistake; a reader needs at most one byte beyond this limit."""
NO_ISSUES: Final[Mapping[int, str]] = MappingProxyType({})
_DECEPTIVE: Final = re.compile(DECEPTIVE)


@dataclass(frozen=True, slots=True)
class Requirements:
    """A requirement document that can be approved; all text is normalised."""

    name: str
    source: str
    title: str
    introduction: str
    nodes: tuple[PlanNode, ...]
    """In document order, parents before their parts."""
    digest: str
    warnings: tuple[SpecProblem, ...] = ()
    workflow: Workflow | None = None
    """What the file says of itself, if it is a workflow file."""
    divides: int | None = None
    """The existing issue whose parts these are: a line `Parent: #3` of the introduction names it."""

    def under(self, root: PlanNode) -> Requirements:
        """The same below *root*, the issue that they divide. Raises RequirementsRefused if a task has its key."""
        if twin := next((node for node in self.nodes if node.task_key == root.task_key), None):
            what = f"#{self.divides} has the key {twin.task_key} too"
            _refuse(self.name, SpecProblem(twin.line or 1, what, "Give the task another title, or a `Key:` of its own"))
        nodes = (root, *(node.model_copy(update={"parent": node.parent or root.task_key}) for node in self.nodes))
        return replace(self, nodes=nodes, digest=spec_digest(self.source, nodes, root))

    @property
    def revision(self) -> str:
        """The Spec Revision."""
        return revision_in(self.digest)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Let Python not look for garbage: what a reader makes is in use to its end, and there is more of it each time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_without_collection()
def read_requirements(data: bytes, name: str, *, known_issues: Mapping[int, str] = NO_ISSUES) -> Requirements:
    """Read the document *data*; *name* is its name in messages.

    *known_issues* are the Task Keys of issues that a `#N` may mean. Raises RequirementsRefused with all problems.
    """
    text = decode(data, name)
    numbered = normalized_lines(text)
    source = "\n".join(line for _, line in numbered)
    lines = without_front_matter([line for _, line in numbered])
    findings = Findings([number for number, _ in numbered], errors=list(deceptive_characters(text)))
    document = parse(lines)
    _refuse_unclosed(document, findings)
    outlined = outline(document, findings)
    if not outlined.entries:
        _refuse_without_tasks(lines, findings)
    drafts = make_drafts([read_task(entry, lines, findings) for entry in outlined.entries], findings)
    resolve(drafts, known_issues, findings)
    nodes = _nodes(drafts, findings)
    if findings.errors:
        _refuse(name, *findings.errors)
    introduction = read_prose(outlined.introduction, lines)
    return Requirements(
        name=name,
        source=source,
        title=outlined.title,
        introduction=introduction,
        nodes=nodes,
        digest=spec_digest(source, nodes),
        warnings=tuple(sorted(set(findings.warnings))),
        divides=parent_issue(introduction),
    )


def common_text(source: str) -> tuple[str, str]:
    """Title and introduction of a normalised document that was read before: what belongs to all its tasks."""
    lines = without_front_matter(source.split("\n"))
    outlined = outline(parse(lines), Findings(range(1, len(lines) + 1)))
    return outlined.title, read_prose(outlined.introduction, lines)


def reads_as(data: bytes, source: str) -> bool:
    """Whether *data* is the normalised text *source*; if so, its nodes are the same and need not be read."""
    try:
        return len(data) <= MAX_BYTES and normalize(data.decode("utf-8").lstrip("\ufeff")) == source
    except UnicodeDecodeError:
        return False


def _refuse(name: str, *problems: SpecProblem) -> NoReturn:
    raise RequirementsRefused(tuple(problem.describe(name) for problem in sorted(set(problems))))


def decode(data: bytes, name: str) -> str:
    """The text of a document. Raises RequirementsRefused for what is none, or too large."""
    if len(data) > MAX_BYTES:
        what = f"the document has {len(data):,} bytes, more than {MAX_BYTES:,}"
        _refuse(name, SpecProblem(1, what, "Split it into several documents"))
    offset = data.find(b"\0")
    try:
        text = data.decode("utf-8").lstrip("\ufeff")
    except UnicodeDecodeError as error:
        offset = error.start
        text = ""
    if offset >= 0:
        line = len(re.findall(rb"\r\n|\r|\n", data[:offset])) + 1
        what = f"byte 0x{data[offset]:02x} at offset {offset:,} is no UTF-8 text"
        _refuse(name, SpecProblem(line, what, "Save the document as UTF-8 text"))
    return text


def deceptive_characters(text: str) -> Iterator[SpecProblem]:
    """Characters that hide text or show it in another order, the first of each line."""
    for number, line in enumerate(re.split("\r\n|\r|\n", text), start=1):
        match = _DECEPTIVE.search(line)
        if match:
            what = f"the invisible character U+{ord(match[0][0]):04X} in column {match.start() + 1}"
            yield SpecProblem(number, what, "Remove it")


def _refuse_unclosed(document: MarkdownDocument, findings: Findings) -> None:
    """A code block or comment without an end swallows the tasks behind it."""
    blocks = document.sections[-1].blocks if document.sections else document.preamble
    if blocks and not blocks[-1].closed:
        findings.refuse(
            blocks[-1].start,
            "a code block or comment that begins here never ends, so all that follows is part of it",
            "Close it with the same fence, or with '-->'",
        )


def _refuse_without_tasks(lines: Sequence[str], findings: Findings) -> None:
    what = "the document has no headings, so no tasks" if any(lines) else "the document is empty"
    findings.refuse(0, what, "Write a heading for each task; `irontree example` prints a document to start from")


def _nodes(drafts: Sequence[TaskDraft], findings: Findings) -> tuple[PlanNode, ...]:
    by_key = {draft.key: draft for draft in reversed(drafts)}  # of two with the same key, which is refused, the first
    nodes = tuple(plan_node(draft, findings) for draft in drafts if by_key[draft.key] is draft)
    refuse_cycles(nodes, {key: draft.start for key, draft in by_key.items()}, findings)
    return nodes


def plan_node(draft: TaskDraft, findings: Findings) -> PlanNode:
    """The node of a draft whose dependencies are resolved."""
    return PlanNode(
        task_key=draft.key,
        title=draft.title,
        type=draft.type,
        shape="composite" if draft.children else "atomic",
        executability="container" if draft.children else "executable",
        parent=draft.parent.key if draft.parent else None,
        depends_on=tuple(sorted(draft.depends_on)),
        priority=draft.priority,
        target_files=draft.target_files,
        description=draft.text.description,
        criteria=draft.text.criteria,
        verification=draft.text.verification,
        line=findings.line(draft.start),
    )


# --- Changes since the approval, line by line for users


def changes_of(before: Sequence[PlanNode], now: Sequence[PlanNode]) -> tuple[str, ...]:
    """Nodes added, removed and changed (with what changed), in the order of *now*, removed ones last."""
    old, new = ({node.task_key: node for node in nodes} for nodes in (before, now))
    return (*_added_or_changed(old, new), *(f"removed: “{old[key].title}”" for key in old if key not in new))


def _added_or_changed(old: dict[str, PlanNode], new: dict[str, PlanNode]) -> Iterator[str]:
    for key, node in new.items():
        if key not in old:
            yield f"added: “{node.title}”"
        else:
            yield from (f"“{node.title}”, {change}" for change in _changes(old[key], node))


def _changes(before: PlanNode, now: PlanNode) -> Iterator[str]:
    yield from _listed("criterion", (c.text for c in before.criteria), (c.text for c in now.criteria))
    yield from _listed("command", before.commands, now.commands)
    yield from _listed("dependency", before.depends_on, now.depends_on)
    yield from _listed("target file", before.target_files, now.target_files)
    for name in ("title", "type", "priority", "parent"):
        old, new = getattr(before, name), getattr(now, name)
        if old != new:
            yield f"{name}: {new or 'none'} (was {old or 'none'})"
    if before.description != now.description:
        yield "description: another text"
    if before.step != now.step or before.max_retry_count != now.max_retry_count:
        yield from _step_changes(before, now)


def _step_changes(before: PlanNode, now: PlanNode) -> Iterator[str]:
    old, new = (dict(_step_words(node)) for node in (before, now))
    yield from (f"{name}: {new[name]} (was {old[name]})" for name in old if old[name] != new[name])


def _step_words(node: PlanNode) -> Iterator[tuple[str, str]]:
    step, tries = node.step, node.max_retry_count
    yield "attempts", "as configured" if tries is None else f"at most {1 + tries}"
    yield "step", str(step.number) if step else "none"
    yield "loop", f"until {step.condition}" if step and step.condition else "false"
    yield (
        "other checks",
        "; ".join(check.does for check in step.checks if isinstance(check, Artifact | Browser)) if step else "none",
    )
    yield "gate", f"{step.gate}{', approves itself' if step.approves_itself else ''}" if step and step.gate else "none"


def _listed(what: str, before: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    old, new = tuple(before), tuple(now)
    yield from (f"{what} added: {text}" for text in new if text not in old)
    yield from (f"{what} removed: {text}" for text in old if text not in new)
