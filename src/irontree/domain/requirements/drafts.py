"""Tasks with typed fields and a key each, before their dependencies are looked up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from irontree.domain.ids import MAX_KEY, slugify, task_key
from irontree.domain.requirements.findings import Findings, quoted
from irontree.domain.requirements.labels import Labelled, Text
from irontree.domain.requirements.markdown import plain
from irontree.domain.requirements.names import kind_of

if TYPE_CHECKING:
    from irontree.domain.requirements.tasks import TaskText
    from irontree.domain.values import TaskType

MAX_TITLE: Final = 255  # the longest title that every forge takes
_TYPES: Final[dict[str, TaskType]] = {"feature": "feature", "bug": "bug", "功能": "feature", "缺陷": "bug"}
_PRIORITIES: Final = {"high": 1, "medium": 5, "low": 9} | {str(number): number for number in range(1, 10)}


@dataclass(eq=False, slots=True)
class Draft:
    """A task of the document; *path* is what its key is made from."""

    text: TaskText
    parent: Draft | None
    path: tuple[str, ...]
    key: str
    type: TaskType
    priority: int | None
    target_files: tuple[str, ...]
    children: list[Draft] = field(default_factory=list)
    depends_on: set[str] = field(default_factory=set)

    @property
    def title(self) -> str:
        """The heading without markup; never empty."""
        return self.text.entry.title or "(untitled)"

    @property
    def start(self) -> int:
        """The line of the heading."""
        return self.text.entry.start

    def ancestors(self) -> list[Draft]:
        """The composites that this task is part of, innermost first."""
        return [self.parent, *self.parent.ancestors()] if self.parent else []


def make_drafts(texts: Sequence[TaskText], findings: Findings) -> list[Draft]:
    """Drafts in document order, each knowing its parent and children; titles, fields and keys are checked."""
    drafts: dict[int, Draft] = {}
    for text in texts:
        parent = drafts[text.entry.parent.start] if text.entry.parent else None
        draft = _draft(text, parent, findings)
        drafts[draft.start] = draft
        if parent:
            parent.children.append(draft)
    made = list(drafts.values())
    for draft in made:
        _check(draft, findings)
    _check_keys(made, findings)
    return made


def _draft(text: TaskText, parent: Draft | None, findings: Findings) -> Draft:
    explicit = _key(text.fields.get("key"), findings)
    path = (explicit,) if explicit else (*(parent.path if parent else ()), text.entry.title)
    return Draft(
        text=text,
        parent=parent,
        path=path,
        key=explicit or task_key(path),
        type=_type(text.fields.get("type"), findings),
        priority=_priority(text.fields.get("priority"), findings),
        target_files=_target_files(text.fields.get("target_files"), findings),
    )


def _scalar(labelled: Labelled | None) -> str:
    return plain(" ".join(text.text for text in labelled.texts())) if labelled else ""


def _key(labelled: Labelled | None, findings: Findings) -> str | None:
    value = _scalar(labelled)
    if not labelled or not value:
        return None
    if value == slugify(value) and len(value) <= MAX_KEY:
        return value
    proposal = slugify(value)[:MAX_KEY].rstrip("-") or "login-form"
    findings.refuse(
        labelled.start,
        f"{quoted(value)} cannot be a key",
        f"Use at most {MAX_KEY} lower-case letters, digits and single hyphens, for example '{proposal}'",
    )
    return None


def _type(labelled: Labelled | None, findings: Findings) -> TaskType:
    value = _scalar(labelled)
    if labelled and value and value.casefold() not in _TYPES:
        findings.refuse(labelled.start, f"{quoted(value)} is no type", "Use 'feature' or 'bug'")
    return _TYPES.get(value.casefold(), "feature")


def _priority(labelled: Labelled | None, findings: Findings) -> int | None:
    value = _scalar(labelled)
    if labelled and value and value.casefold() not in _PRIORITIES:
        findings.refuse(
            labelled.start, f"{quoted(value)} is no priority", "Use 1 (first) to 9 (last), or 'high', 'medium' or 'low'"
        )
    return _PRIORITIES.get(value.casefold())


def _target_files(labelled: Labelled | None, findings: Findings) -> tuple[str, ...]:
    if labelled is None:
        return ()
    files = [Text(name, text.index) for text in labelled.texts() for name in _file_names(text.text)]
    for file in files:
        if file.text.startswith(("/", "~")) or ".." in file.text.split("/"):
            findings.refuse(
                file.index,
                f"{quoted(file.text)} is outside the repository",
                "Name files relative to the repository's root",
            )
    return tuple(dict.fromkeys(file.text for file in files))


def _file_names(text: str) -> list[str]:
    """The names between commas; of a part with code spans, the spans alone."""
    names = (name for part in text.split(",") for name in re.findall(r"`([^`]+)`", part) or [part])
    return [name.strip() for name in names if name.strip()]


def _check(draft: Draft, findings: Findings) -> None:
    if not draft.text.entry.title:
        findings.refuse(draft.start, "a heading without text", "Give the task a title, or delete the heading")
    if len(draft.title) > MAX_TITLE:
        findings.refuse(
            draft.start,
            f"a title of {len(draft.title)} characters",
            f"Keep it within {MAX_TITLE} and say the rest below the heading",
        )
    if not draft.children and not draft.text.criteria:
        _refuse_without_criteria(draft, findings)
    if draft.children and draft.text.verification:
        findings.warn(
            draft.start,
            f"the commands of {quoted(draft.title)} are never run, because it has parts",
            "Move them to the parts that they check",
        )
    if not draft.children and not draft.text.verification:
        _warn_of_uncovered(draft, findings)


def _refuse_without_criteria(draft: Draft, findings: Findings) -> None:
    if kind_of(draft.title):
        remedy = "If it is a section of the task above, give it a deeper heading; if it is a task, add '- [ ] ...'"
    else:
        remedy = "Add one as '- [ ] ...' below the heading, or name a section that is only text 'Notes'"
    findings.refuse(draft.start, f"{quoted(draft.title)} has no acceptance criterion", remedy)


def _warn_of_uncovered(draft: Draft, findings: Findings) -> None:
    uncovered = [c for c in draft.text.criteria if not (c.manual or c.check or c.command)]
    if uncovered:
        findings.warn(
            draft.start,
            f"nothing checks {len(uncovered)} of the {len(draft.text.criteria)} criteria of {quoted(draft.title)}",
            "A person will be asked; to have them checked, list commands under 'Verification'",
        )


def _check_keys(drafts: Sequence[Draft], findings: Findings) -> None:
    owners: dict[str, Draft] = {}
    for draft in drafts:
        owner = owners.setdefault(draft.key, draft)
        if owner is not draft:
            line = findings.line(owner.start)
            findings.refuse(
                draft.start,
                f"{quoted(draft.title)} has the same key as {quoted(owner.title)} at line {line}: {draft.key}",
                "Give one of them another title, or a 'Key:' field",
            )
