"""Existing issues as tasks: which are eligible, and how their text is read (protocol, Adopting Existing Issues).

What would be an error in a requirement document becomes an open question of the task here, to be answered in the
issue before it is approved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote

from irontree.domain.commands import asks_to_discuss, parse_command
from irontree.domain.ids import normalize, normalized_lines, task_key
from irontree.domain.instructions import is_report
from irontree.domain.issues import Comment, Issue
from irontree.domain.plan import Criterion, PlanNode
from irontree.domain.requirements.drafts import make_drafts, resolve
from irontree.domain.requirements.markdown import (
    MAX_TEXT,
    Findings,
    MarkdownBlock,
    MarkdownDocument,
    SpecProblem,
    parse,
    quoted,
)
from irontree.domain.requirements.outline import (
    Kind,
    Labelled,
    OutlineEntry,
    Part,
    extend,
    kind_of,
    parent_issue,
    part_of,
    preamble_of,
    split_label,
)
from irontree.domain.requirements.tasks import TaskText, parse_criterion, read_task
from irontree.domain.spec import deceptive_characters, plan_node
from irontree.domain.task_types import BUG, FEATURE, INFRASTRUCTURE, TaskType, reports_failure, type_by_label
from irontree.domain.values import COMPOSITE_THRESHOLD
from irontree.errors import RequirementsRefused

INSUFFICIENT: Final = "(insufficient detail: see Open Questions)"
"""The placeholder criterion of an issue that states none (a sparse issue)."""

_OPEN_BOX: Final = re.compile(r"^[ \t]*[-*+][ \t]*\[[ \t]\]", re.MULTILINE)
_CHECKED_BOX: Final = re.compile(r"^(\s*[-*+]\s+)\[[xX]\]\s+")
_REPRODUCTION: Final = re.compile(
    r"(?:steps to reproduce|how to reproduce|to reproduce|reproduction(?: steps)?|repro(?: steps)?"
    r"|(?:复现|重现)(?:步骤|方法|方式))",
    re.IGNORECASE,
)
_EXPECTED: Final = re.compile(
    r"(?:expected(?: behaviou?r| results?| outcome)?|what should happen|(?:预期|期望)(?:行为|结果|表现)?)",
    re.IGNORECASE,
)
_PLACEHOLDERS: Final = frozenset(
    {"", "todo", "tbd", "tba", "fixme", "none", "na", "n a", "no response", "无", "暂无", "待定", "待补充"}
)
_FILE_NAME: Final = re.compile(r"[\w.@+/*-]+")
OWN_COMMENT: Final = "<!-- irontree:"
"""How the hidden lines begin that this program writes."""
_KEY_MARK: Final = f"{OWN_COMMENT}task-key "
_DOCUMENT_MARK: Final = f"{OWN_COMMENT}document "


@dataclass(frozen=True, slots=True)
class Ineligible:
    """Why an issue cannot be adopted, and what to do about it; *composite* if it has to be split first."""

    reason: str
    remedy: str
    composite: bool = False


@dataclass(frozen=True, slots=True)
class Adoptable:
    """An issue read as a task; what it leaves unclear is in `node.open_questions`."""

    node: PlanNode
    warnings: tuple[str, ...] = ()


def spec_path(forge: str, number: int) -> str:
    """Where an adopted issue's text comes from: `github://issue-12`; other forges by their own names."""
    return f"{forge}://issue-{number}"


def key_marker(task_key: str) -> str:
    """The hidden line with the task key in a published issue's text, by which the issue is found again (R8)."""
    return f"{_KEY_MARK}{task_key} -->"


def document_marker(spec_path: str) -> str:
    """The hidden line that names the document: tasks of two documents may have the same key."""
    return f"{_DOCUMENT_MARK}{quote(spec_path)} -->"


def marked_document(body: str) -> str | None:
    """The document that the issue with this text was made from, if its text names one."""
    lines = (line.strip() for line in body.split("\n"))
    found = next((line for line in lines if line.startswith(_DOCUMENT_MARK)), None)
    return unquote(found.removeprefix(_DOCUMENT_MARK).removesuffix(" -->")) if found else None


def has_key_marker(body: str) -> bool:
    """Whether the issue with this text was made from a document, whatever its key."""
    return _KEY_MARK in body


def has_own_line(body: str) -> bool:
    """Whether a line of that text is a hidden one of ours: in an issue of our account, the program filed it."""
    return any(line.startswith(OWN_COMMENT) for line in body.splitlines())


def open_checkboxes(body: str) -> int:
    """How many task-list items of *body* are not ticked (protocol, Eligibility)."""
    return len(_OPEN_BOX.findall(body))


def ineligible(issue: Issue, threshold: int = COMPOSITE_THRESHOLD) -> Ineligible | None:
    """Why the issue cannot be adopted, or `None` if it can."""
    number = issue.number
    if issue.pull_request:
        return Ineligible(
            f"#{number} is a pull request; only issues can be adopted.", "name the issue that it is about"
        )
    if issue.state != "open":
        return Ineligible(f"Issue #{number} is CLOSED; only OPEN issues can be adopted.", "open it again if it is due")
    boxes = open_checkboxes(issue.body)
    if boxes > threshold and parent_issue(issue.body) is None:
        return Ineligible(
            f"Issue #{number} appears composite ({boxes} open checkboxes). Split it into child issues, then run "
            "`irontree task adopt` on each child.",
            "criteria of one single task can be a plain list under a heading “Acceptance criteria”; parts can be a "
            f"document whose introduction has a line `Parent: #{number}`",
            composite=True,
        )
    return None


def read_issue(
    issue: Issue,
    comments: Iterable[Comment],
    known_issues: Mapping[int, str],
    *,
    key: str | None = None,
    type_labels: bool = False,
) -> Adoptable:
    """The issue as a task of the same shape as a published one.

    *known_issues* are the Task Keys that a `#N` may mean; *key* is the issue's own, if any; *type_labels* is whether
    the repository has `type/…` labels. Comments by the author and by users with write access count; commands are taken
    only from users with write access.
    """
    findings = Findings([number for number, _ in normalized_lines(issue.body)])
    findings.errors += deceptive_characters(f"{issue.title}\n{issue.body}")
    text = _task_text(issue, comments, findings)
    questions = [] if text.criteria else [_missing(issue)]
    text = replace(text, criteria=text.criteria or (Criterion(text=INSUFFICIENT, manual=True),))
    drafts = make_drafts([text], findings)
    resolve(drafts, known_issues, findings)
    node = plan_node(drafts[0], findings)
    questions += [_question(issue, problem) for problem in sorted(set(findings.errors))]
    node = node.model_copy(
        update={
            "task_key": key or node.task_key,
            "type": _type(issue, node, drafts[0].text, type_labels=type_labels),
            "line": None,
            "open_questions": (*questions, *_vague(node.criteria)),
        }
    )
    warnings = tuple(str(warning) for warning in sorted(set(findings.warnings)))
    return Adoptable(node if issue.trusted else _outsiders(node, issue.author), warnings)


def root_of(issue: Issue, key: str | None, *, type_labels: bool) -> PlanNode:
    """The issue as the root of the tree that a document divides it into; *key* is its own, if any.

    Raises RequirementsRefused for characters that hide something in its text.
    """
    if hidden := tuple(deceptive_characters(f"{issue.title}\n{issue.body}")):
        raise RequirementsRefused(tuple(problem.describe(f"#{issue.number}") for problem in hidden))
    title = " ".join(issue.title.split())
    return PlanNode(
        task_key=key or task_key((title,)),
        title=title,
        type=(type_by_label(issue.labels, type_labels=type_labels) or FEATURE).name,
        shape="composite",
        executability="container",
        description=normalize(issue.body),
        outsider="" if issue.trusted else issue.author,
    )


# --- reading ------------------------------------------------------------------------------------------------


def _task_text(issue: Issue, comments: Iterable[Comment], findings: Findings) -> TaskText:
    """The body's and the comments' text merged, the body first; where both have a field, the body's counts."""
    own = _read(issue.title, issue.body, findings)
    if not issue.trusted:
        own = _without_commands(own)
    for comment in comments:
        if counts(issue, comment):
            own = _with_comment(own, comment, _said(issue, comment, findings))
    return own


def _said(issue: Issue, comment: Comment, findings: Findings) -> TaskText:
    """Read a comment; its problems count as those of the body do."""
    found = Findings([number for number, _ in normalized_lines(comment.body)], [*deceptive_characters(comment.body)])
    said = _read(issue.title, comment.body, found)
    findings.errors += [replace(problem, what=f"{comment.author} wrote {problem.what}") for problem in found.errors]
    findings.warnings += found.warnings
    return said if comment.trusted else _without_commands(said)


def _read(title: str, body: str, findings: Findings) -> TaskText:
    """Read one text; every section whose name has no meaning of its own is part of the description."""
    lines = [_CHECKED_BOX.sub(r"\1", line) for _, line in normalized_lines(body)]
    document = parse(lines)
    text = read_task(
        OutlineEntry(" ".join(title.split()), 0, 0, None, list(_parts(document, len(lines)))), lines, findings
    )
    criteria = text.criteria or tuple(_expected(document, lines))
    return replace(text, criteria=criteria, fields=_dependency(lines) | text.fields)


def _dependency(lines: Sequence[str]) -> dict[Kind, Labelled]:
    """Read `Depends on: #3` anywhere in an issue: an overlooked dependency would start work too early."""
    for index, line in enumerate(lines):
        label, value = split_label(line.strip(" -*")) or ("", "")
        if kind_of(label) == "depends_on" and value:
            return {"depends_on": Labelled("depends_on", label, index, index + 1, value)}
    return {}


def _parts(document: MarkdownDocument, end: int) -> Iterator[Part]:
    yield preamble_of(document, end)
    current: Part | None = None
    for section in document.sections:
        if current and section.level > current.level:
            extend(current, section)
            continue
        if current:
            yield current
        current = part_of(section, kind_of(section.title) or "prose")
    if current:
        yield current


def counts(issue: Issue, comment: Comment) -> bool:
    """Whether it is text of the issue: by its author or a user with write access (protocol, Brief Standardization).

    Comments of ours are none, nor are answers: an approval would otherwise change what it approves. Nor are reports.
    """
    is_said = comment.trusted or comment.author == issue.author
    is_ours = OWN_COMMENT in comment.body
    commands = parse_command(comment.body) is not None or asks_to_discuss(comment.body)
    return is_said and not is_ours and not is_report(comment.body) and not commands


def _with_comment(own: TaskText, comment: Comment, said: TaskText) -> TaskText:
    told = f"{own.description}\n\n**{comment.author} wrote:**\n\n{said.description}" if said.description else ""
    return replace(
        own,
        fields=said.fields | own.fields,
        description=normalize(told) or own.description,
        criteria=(*own.criteria, *(c for c in said.criteria if c not in own.criteria)),
        verification=tuple(dict.fromkeys((*own.verification, *said.verification))),
    )


def _expected(document: MarkdownDocument, lines: Sequence[str]) -> Iterator[Criterion]:
    """Criteria from a report's expected behaviour: the items or first paragraph of that section, or its label."""
    for section in document.sections:
        if _EXPECTED.fullmatch(section.title.strip(" :\uff1a")):
            yield from (_criterion(text) for text in _statements(section.blocks))
    for line in lines:
        label, value = split_label(line.strip()) or ("", "")
        if _EXPECTED.fullmatch(label.strip()) and value:
            yield _criterion(value)


def _criterion(text: str) -> Criterion:
    return parse_criterion(text) if len(text) <= MAX_TEXT else Criterion(text=text)


def _statements(blocks: Sequence[MarkdownBlock]) -> list[str]:
    items = [item.text for block in blocks for item in block.items if item.text]
    prose = [" ".join(" ".join(block.lines).split()) for block in blocks if block.kind == "paragraph"]
    return items or prose[:1]


def _without_commands(text: TaskText) -> TaskText:
    """Keep text by users without write access as text: it never becomes a command (R20)."""
    proposed = "\n".join(f"- {command}" for command in text.verification)
    told = (
        f"{text.description}\n\n**Verification** (proposed, never run)\n\n{proposed}" if proposed else text.description
    )
    criteria = tuple(_in_words(criterion) for criterion in text.criteria)
    return replace(text, description=normalize(told), criteria=criteria, verification=())


def _in_words(criterion: Criterion) -> Criterion:
    command = criterion.command
    if command is None:
        return criterion
    text = criterion.text if command in criterion.text else f"{criterion.text}: {command}"
    return Criterion(text=text, manual=criterion.manual, check=criterion.check)


def _outsiders(node: PlanNode, author: str) -> PlanNode:
    """Mark values as data; drop what is not a plain file name, which would be unexpected prose there."""
    files = tuple(name for name in node.target_files if _FILE_NAME.fullmatch(name))
    return node.model_copy(update={"outsider": author, "target_files": files})


def _type(issue: Issue, node: PlanNode, text: TaskText, *, type_labels: bool) -> TaskType:
    """The type that the text states; else by label, else bug if it can be reproduced (contract, brief extraction).

    Labels are by people with write access, and the type chooses the agent: they count before the text of others.
    """
    labelled = type_by_label(issue.labels, type_labels=type_labels)
    if labelled is None and type_labels and reports_failure(issue.title):
        labelled = INFRASTRUCTURE
    if "type" in text.fields and (issue.trusted or labelled is None):
        return node.type
    return (labelled or (BUG if _reproduces(issue.body) else FEATURE)).name


def _reproduces(body: str) -> bool:
    names = (line.strip().strip("#*_:\uff1a \t") for line in body.splitlines())
    return any(_REPRODUCTION.fullmatch(name) for name in names)


# --- open questions -----------------------------------------------------------------------------------------


def _missing(issue: Issue) -> str:
    wanted = "What must hold when this is done?" if issue.body.strip() else "What is wanted, and what must hold then?"
    return f"{wanted} #{issue.number} has no acceptance criterion: add some as a list under “Acceptance criteria”"


def _vague(criteria: Iterable[Criterion]) -> Iterator[str]:
    for criterion in criteria:
        if " ".join(re.findall(r"[^\W_]+", criterion.text)).casefold() in _PLACEHOLDERS:
            yield f"How would one test the criterion {quoted(criterion.text)}?"


def _question(issue: Issue, problem: SpecProblem) -> str:
    return f"#{issue.number}, {problem}"
