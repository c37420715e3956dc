"""Task drafts with typed fields and keys, and resolution of their dependencies."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from irontree.domain.graph import Graph
from irontree.domain.ids import MAX_KEY, parse_issue, slugify, task_key
from irontree.domain.plan import PlanNode
from irontree.domain.requirements.markdown import Findings, plain, quoted
from irontree.domain.requirements.outline import Labelled, Text, kind_of
from irontree.domain.requirements.tasks import TaskText
from irontree.domain.task_types import FEATURE, TASK_TYPES, TaskType
from irontree.domain.text import nearest

T = TypeVar("T")

MAX_TITLE: Final = 255  # the longest title that every forge accepts
_TYPES: Final = {word: profile.name for profile in TASK_TYPES.values() for word in profile.words}
_PRIORITIES: Final = {"high": 1, "medium": 5, "low": 9} | {str(number): number for number in range(1, 10)}
_AND: Final = re.compile(r"\s*(?:,\s*)?\b(?:and|&)\s+", re.IGNORECASE)
_ASIDE: Final = re.compile(r"\s*\([^()]*\)\s*$")
_NUMBERED_TASK: Final = re.compile(
    r"(?:(?P<word>task|step|phase|part)\s+)?(?P<number>\d+(?:\.\d+)*)(?:[.):]|\s*[-\u2013\u2014])?\s+(?P<name>\S.*)",
    re.IGNORECASE,
)


@dataclass(eq=False, slots=True)
class TaskDraft:
    """A task of the document; its key is made from *path*."""

    text: TaskText
    parent: TaskDraft | None
    path: tuple[str, ...]
    key: str
    type: TaskType
    priority: int | None
    target_files: tuple[str, ...]
    children: list[TaskDraft] = field(default_factory=list)
    depends_on: set[str] = field(default_factory=set)

    @property
    def title(self) -> str:
        """The heading without markup; never empty."""
        return self.text.entry.title or "(untitled)"

    @property
    def start(self) -> int:
        """The line of the heading."""
        return self.text.entry.start

    def ancestors(self) -> list[TaskDraft]:
        """The composites that this task is part of, innermost first."""
        return [self.parent, *self.parent.ancestors()] if self.parent else []


def make_drafts(texts: Sequence[TaskText], findings: Findings) -> list[TaskDraft]:
    """Drafts in document order, each knowing its parent and children; titles, fields and keys are checked."""
    drafts: dict[int, TaskDraft] = {}
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


def _draft(text: TaskText, parent: TaskDraft | None, findings: Findings) -> TaskDraft:
    explicit = _key(text.fields.get("key"), findings)
    path = (explicit,) if explicit else (*(parent.path if parent else ()), text.entry.title)
    return TaskDraft(
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
    return _one_of(_TYPES, labelled, findings, "type", f"Use one of: {', '.join(TASK_TYPES)}") or FEATURE.name


def _priority(labelled: Labelled | None, findings: Findings) -> int | None:
    remedy = "Use 1 (first) to 9 (last), or 'high', 'medium' or 'low'"
    return _one_of(_PRIORITIES, labelled, findings, "priority", remedy)


def _one_of(known: Mapping[str, T], labelled: Labelled | None, findings: Findings, what: str, remedy: str) -> T | None:
    value = _scalar(labelled)
    if labelled and value and value.casefold() not in known:
        findings.refuse(labelled.start, f"{quoted(value)} is no {what}", remedy)
    return known.get(value.casefold())


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


def _check(draft: TaskDraft, findings: Findings) -> None:
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


def _refuse_without_criteria(draft: TaskDraft, findings: Findings) -> None:
    if kind_of(draft.title):
        remedy = "If it is a section of the task above, give it a deeper heading; if it is a task, add '- [ ] ...'"
    else:
        remedy = "Add one as '- [ ] ...' below the heading, or name a section that is only text 'Notes'"
    findings.refuse(draft.start, f"{quoted(draft.title)} has no acceptance criterion", remedy)


def _warn_of_uncovered(draft: TaskDraft, findings: Findings) -> None:
    uncovered = [c for c in draft.text.criteria if not (c.manual or c.check or c.command)]
    if uncovered:
        findings.warn(
            draft.start,
            f"nothing checks {len(uncovered)} of the {len(draft.text.criteria)} criteria of {quoted(draft.title)}",
            "A person will be asked; to have them checked, list commands under 'Verification'",
        )


def _check_keys(drafts: Sequence[TaskDraft], findings: Findings) -> None:
    owners: dict[str, TaskDraft] = {}
    for draft in drafts:
        owner = owners.setdefault(draft.key, draft)
        if owner is not draft:
            line = findings.line(owner.start)
            findings.refuse(
                draft.start,
                f"{quoted(draft.title)} has the same key as {quoted(owner.title)} at line {line}: {draft.key}",
                "Give one of them another title, or a 'Key:' field",
            )


# --- Which tasks the names after `Depends on` mean: keys, titles, `Parent / Title` paths and `#N`


_NOTHING: Final = {"none", "nothing", "n/a", "-", "\u2013", "\u2014", "无"}
_WIDE_COMMAS: Final = str.maketrans("\uff0c\u3001", ",,")
_MAX_SHOWN: Final = 8  # titles of a cycle
_MAX_SUGGESTIONS: Final = 20  # limits the time spent on searching for close titles


def resolve(drafts: Sequence[TaskDraft], known_issues: Mapping[int, str], findings: Findings) -> None:
    """Fill in each draft's `depends_on`, including the dependencies of its composites."""
    names = _Names(drafts, known_issues, findings)
    for draft in drafts:
        labelled = draft.text.fields.get("depends_on")
        for text in labelled.texts() if labelled else ():
            draft.depends_on |= set(names.keys(text, draft))
        for text in draft.text.loose:
            draft.depends_on |= set(names.loose_keys(text, draft))
        if draft.parent:
            draft.depends_on |= draft.parent.depends_on


def refuse_cycles(nodes: Sequence[PlanNode], indexes: Mapping[str, int], findings: Findings) -> None:
    """Name every cycle; *indexes* are the lines of the headings by key."""
    graph = Graph.of(nodes)
    for cycle in graph.cycles:
        shown = cycle if len(cycle) <= _MAX_SHOWN else (*cycle[: _MAX_SHOWN - 1], None, cycle[-1])
        titles = [quoted(graph.nodes[key].title) if key else "..." for key in (*shown, cycle[0])]
        findings.refuse(
            indexes[cycle[0]],
            f"a cycle, in which each waits for the next: {' -> '.join(titles)}",
            "Remove one of these dependencies; a composite also waits for its parts",
        )


class _Names:
    """All names by which the document's tasks can be referred to."""

    def __init__(self, drafts: Sequence[TaskDraft], known_issues: Mapping[int, str], findings: Findings) -> None:
        self._findings = findings
        self._known_issues = known_issues
        self._by_key: dict[str, TaskDraft] = {}
        self._by_name: dict[str, list[TaskDraft]] = defaultdict(list)
        self._by_short_name: dict[str, list[TaskDraft]] = defaultdict(list)
        for draft in drafts:
            self._by_key.setdefault(draft.key, draft)
            for name in _names_of(draft):
                self._by_name[name].append(draft)
            for name in set(map(_folded, _short_names(draft.title))):
                self._by_short_name[name].append(draft)
        self._widest = 1 + max((n.count(",") for n in self._by_name if len(n) <= MAX_TITLE), default=0)
        self._suggested = 0

    def keys(self, text: Text, draft: TaskDraft) -> Iterator[str]:
        """The keys that *text* names; an unknown, ambiguous or illegal name is refused."""
        for name in self._split(text.text):
            key = self._key(Text(name, text.index), draft)
            if key:
                yield key

    def loose_keys(self, text: Text, draft: TaskDraft) -> Iterator[str]:
        """The keys that *text* names, written without a field; pointed out if it is not only names of tasks."""
        readings = (self._split(text.text.strip(" .")), self._split(_AND.sub(",", text.text.strip(" ."))))
        names = next((names for names in readings if names and all(self._known(name) for name in names)), ())
        if not names:
            what = f"{quoted(text.text)} names no tasks of this document, so nothing is waited for"
            self._findings.warn(
                text.index, what, "For a dependency write 'Depends on: TITLE, TITLE' on a line of its own"
            )
        for name in names:
            if key := self._key(Text(name, text.index), draft):
                yield key

    def _split(self, text: str) -> list[str]:
        """Split a comma-separated list; the longest known name wins, so that titles may contain commas."""
        shown = plain(text)
        readables = dict.fromkeys((shown, text, shown.translate(_WIDE_COMMAS)))
        readings = [list(self._longest(readable.split(","))) for readable in readables]
        names = next((names for names in readings if all(self._known(name) for name in names)), readings[0])
        return [name for name in names if name.casefold() not in _NOTHING]

    def _longest(self, parts: list[str]) -> Iterator[str]:
        start = 0
        while start < len(parts):
            widest = min(len(parts), start + self._widest)
            known = (end for end in range(widest, start, -1) if self._known(_joined(parts[start:end])))
            end = next(known, start + 1)
            name = _joined(parts[start:end])
            if name:
                yield name
            start = end

    def _known(self, name: str) -> bool:
        return bool(self._suggestion(name)) or parse_issue(name) in self._known_issues

    def _key(self, name: Text, draft: TaskDraft) -> str | None:
        meant = self._suggestion(name.text)
        issue = parse_issue(name.text)
        if len(meant) > 1:
            self._refuse_ambiguous(name, meant)
        elif meant:
            return self._checked(name, draft, meant[0])
        elif issue is not None and issue in self._known_issues:
            return self._known_issue(name, draft, self._known_issues[issue])
        else:
            self._refuse_unknown(name, issue)
        return None

    def _suggestion(self, name: str) -> list[TaskDraft]:
        folded = _folded(name)
        by_title = [self._by_key[name]] if name in self._by_key else self._by_name.get(folded, [])
        return by_title or self._by_short_name.get(folded, [])

    def _known_issue(self, name: Text, draft: TaskDraft, key: str) -> str | None:
        here = self._by_key.get(key)
        return self._checked(name, draft, here) if here else key

    def _checked(self, name: Text, draft: TaskDraft, meant: TaskDraft) -> str | None:
        remedy = "Remove that name; a composite always comes after its parts"
        if meant is draft:
            what, remedy = "depends on itself", "Remove that name"
        elif meant in draft.ancestors():
            what = f"depends on {quoted(meant.title)}, of which it is a part"
        elif draft in meant.ancestors():
            what = f"depends on {quoted(meant.title)}, which is a part of it"
        else:
            return meant.key
        self._findings.refuse(name.index, f"{quoted(draft.title)} {what}", remedy)
        return None

    def _refuse_ambiguous(self, name: Text, meant: Sequence[TaskDraft]) -> None:
        keys = ", ".join(draft.key for draft in meant)
        self._findings.refuse(
            name.index,
            f"{quoted(name.text)} is the title of {len(meant)} tasks",
            f"Name one by its key ({keys}) or as 'Parent / Title'",
        )

    def _refuse_unknown(self, name: Text, issue: int | None) -> None:
        if issue is not None:
            self._findings.refuse(
                name.index, f"no known task has the issue number #{issue}", "Name a task of this document by its title"
            )
            return
        self._suggested += 1
        close = nearest(_folded(name.text), self._by_name) if self._suggested <= _MAX_SUGGESTIONS else None
        remedy = f"Did you mean {quoted(self._by_name[close][0].title)}?" if close else "Use a title, a key or '#N'"
        self._findings.refuse(name.index, f"{quoted(name.text)} is no task of this document", remedy)


def _joined(parts: list[str]) -> str:
    return ",".join(parts).strip()


def _names_of(draft: TaskDraft) -> set[str]:
    """The title, and the title behind one or more of its composites' titles."""
    name = draft.title
    names = {_folded(name)}
    for ancestor in draft.ancestors():
        name = f"{ancestor.title}/{name}"
        names.add(_folded(name))
    return names


def _short_names(title: str) -> Iterator[str]:
    """What stands for a title: it without an aside at its end, without the number in front, or that number."""
    bare = _ASIDE.sub("", title)
    yield bare
    if numbered := _NUMBERED_TASK.fullmatch(bare):
        yield from (numbered["number"], numbered["name"])
        if numbered["word"]:
            yield f"{numbered['word']} {numbered['number']}"


def _folded(name: str) -> str:
    """Fold a name, ignoring case, white space and surrounding quotes."""
    words = " ".join(name.casefold().split()).strip("\"'`\u2018\u2019\u201c\u201d.")
    return re.sub(r"\s*([/,])\s*", r"\1", words)
