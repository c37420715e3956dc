"""Which tasks the names after `Depends on` mean: keys, titles, `Parent / Title` paths and `#N`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from irontree.domain.graph import Graph
from irontree.domain.ids import parse_issue
from irontree.domain.meant import nearest
from irontree.domain.requirements.drafts import MAX_TITLE, Draft
from irontree.domain.requirements.findings import Findings, quoted
from irontree.domain.requirements.labels import Text
from irontree.domain.requirements.markdown import plain

if TYPE_CHECKING:
    from irontree.domain.plan import PlanNode

_NOTHING: Final = {"none", "nothing", "n/a", "-", "\u2013", "\u2014", "无"}
_WIDE_COMMAS: Final = str.maketrans("\uff0c\u3001", ",,")
_MAX_SHOWN: Final = 8  # titles of a cycle
_MAX_SUGGESTIONS: Final = 20  # looking for a close title takes time for each of them


def resolve(drafts: Sequence[Draft], known_issues: Mapping[int, str], findings: Findings) -> None:
    """Fill in each draft's `depends_on`, what its composites depend on included."""
    names = _Names(drafts, known_issues, findings)
    for draft in drafts:
        labelled = draft.text.fields.get("depends_on")
        for text in labelled.texts() if labelled else ():
            draft.depends_on |= set(names.keys(text, draft))
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
    """All names by which the document's tasks can be meant."""

    def __init__(self, drafts: Sequence[Draft], known_issues: Mapping[int, str], findings: Findings) -> None:
        self._findings = findings
        self._known_issues = known_issues
        self._by_key: dict[str, Draft] = {}
        self._by_name: dict[str, list[Draft]] = defaultdict(list)
        for draft in drafts:
            self._by_key.setdefault(draft.key, draft)
            for name in _names_of(draft):
                self._by_name[name].append(draft)
        self._widest = 1 + max((n.count(",") for n in self._by_name if len(n) <= MAX_TITLE), default=0)
        self._suggested = 0

    def keys(self, text: Text, draft: Draft) -> Iterator[str]:
        """The keys that *text* names; what names none, or more than one task, or a wrong one, is refused."""
        for name in self._split(text.text):
            key = self._key(Text(name, text.index), draft)
            if key:
                yield key

    def _split(self, text: str) -> list[str]:
        """The names in a list with commas; the longest that is known wins, so that titles may have commas."""
        readables = (plain(text), text, plain(text).translate(_WIDE_COMMAS))
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
        return bool(self._meant(name)) or parse_issue(name) in self._known_issues

    def _key(self, name: Text, draft: Draft) -> str | None:
        meant = self._meant(name.text)
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

    def _meant(self, name: str) -> list[Draft]:
        return [self._by_key[name]] if name in self._by_key else self._by_name.get(_folded(name), [])

    def _known_issue(self, name: Text, draft: Draft, key: str) -> str | None:
        here = self._by_key.get(key)
        return self._checked(name, draft, here) if here else key

    def _checked(self, name: Text, draft: Draft, meant: Draft) -> str | None:
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

    def _refuse_ambiguous(self, name: Text, meant: Sequence[Draft]) -> None:
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


def _names_of(draft: Draft) -> set[str]:
    """The title, and the title behind one or more of its composites' titles."""
    name = draft.title
    names = {_folded(name)}
    for ancestor in draft.ancestors():
        name = f"{ancestor.title}/{name}"
        names.add(_folded(name))
    return names


def _folded(name: str) -> str:
    """Equal for names that differ in case, in white space, or in quotes around them."""
    words = " ".join(name.casefold().split()).strip("\"'`\u2018\u2019\u201c\u201d.")
    return re.sub(r"\s*([/,])\s*", r"\1", words)
