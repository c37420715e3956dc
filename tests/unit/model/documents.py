"""Small requirement documents that people change: a tree of tasks, what they wait for, what only a person can judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hypothesis import strategies as st

NAMES = ("Anvil", "Bellows", "Chisel", "Drill", "Engine", "Flange")
GROUPS = ("Yard", "Workshop")


@dataclass(frozen=True)
class Task:
    """One heading: `group` is the composite that it is part of, `wording` what somebody edits."""

    name: str
    group: str | None = None
    needs: tuple[str, ...] = ()
    manual: bool = False
    wording: int = 0


@dataclass(frozen=True)
class Document:
    """Its tasks; *prefix* keeps the keys of two documents apart."""

    prefix: str
    tasks: tuple[Task, ...]

    @property
    def text(self) -> str:
        alone = [self._section(task, "##") for task in self.tasks if task.group is None]
        groups = [self._group(name) for name in GROUPS if any(task.group == name for task in self.tasks)]
        return "\n".join([f"# {self.prefix}\n", *alone, *groups])

    def title(self, name: str) -> str:
        return f"{self.prefix} {name}"

    def _group(self, name: str) -> str:
        parts = [self._section(task, "###") for task in self.tasks if task.group == name]
        return "\n".join([f"## {self.title(name)}\n", *parts])

    def _section(self, task: Task, level: str) -> str:
        needs = ", ".join(map(self.title, task.needs))
        manual = "- [ ] it looks right (manual)\n" if task.manual else ""
        key = self.title(task.name).lower().replace(" ", "-")
        return (
            f"{level} {self.title(task.name)}\n\nKey: {key}\n"
            + (f"Depends on: {needs}\n" if needs else "")
            + f"\n- [ ] wording {task.wording} `$ made {key}`\n{manual}"
        )


Edit = Callable[[Document], Document]


def add(task: Task) -> Edit:
    """Write one more task, unless its name is taken; what it would wait for and is not there, it does not."""

    def edit(document: Document) -> Document:
        names = {known.name for known in document.tasks}
        if task.name in names:
            return document
        needs = tuple(name for name in task.needs if name in names)
        return replace(document, tasks=(*document.tasks, replace(task, needs=needs)))

    return edit


def remove(place: int) -> Edit:
    """Take a task out, but not the last one; nobody waits for it any more."""

    def edit(document: Document) -> Document:
        if len(document.tasks) == 1:
            return document
        gone = document.tasks[place % len(document.tasks)]
        left = (task for task in document.tasks if task is not gone)
        freed = (replace(task, needs=tuple(name for name in task.needs if name != gone.name)) for task in left)
        return replace(document, tasks=tuple(freed))

    return edit


def change(place: int, *, manual: bool) -> Edit:
    """Say something else of a task."""

    def edit(document: Document) -> Document:
        tasks = list(document.tasks)
        place_ = place % len(tasks)
        tasks[place_] = replace(tasks[place_], wording=tasks[place_].wording + 1, manual=manual)
        return replace(document, tasks=tuple(tasks))

    return edit


def _tasks(name: str) -> st.SearchStrategy[Task]:
    earlier = NAMES[: NAMES.index(name)]
    needs = st.lists(st.sampled_from(earlier), max_size=2, unique=True).map(tuple) if earlier else st.just(())
    return st.builds(
        Task, name=st.just(name), group=st.sampled_from([None, None, *GROUPS]), needs=needs, manual=_SELDOM
    )


_SELDOM = st.sampled_from([False, False, False, True])
_ANY_TASK = st.sampled_from(NAMES).flatmap(_tasks)


def documents(prefix: str) -> st.SearchStrategy[Document]:
    """A first version: one to four tasks."""

    def built(tasks: list[Task]) -> Document:
        document = Document(prefix, ())
        for task in tasks:
            document = add(task)(document)
        return document

    ordered = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True).map(sorted)
    return ordered.flatmap(lambda names: st.tuples(*map(_tasks, names))).map(list).map(built)


def edits() -> st.SearchStrategy[Edit]:
    """What somebody may do to a document."""
    places = st.integers(0, 5)
    return st.one_of(
        _ANY_TASK.map(add), places.map(remove), st.builds(lambda p, m: change(p, manual=m), places, _SELDOM)
    )
