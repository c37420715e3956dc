"""Task types and everything that depends on the type; a new type is one line in this table."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, WithJsonSchema

from irontree.domain.values import CloseOnDone


class TaskTypeProfile(NamedTuple):
    """A type's names in documents, on the forge and in commits, and its defaults.

    A repository has `type/…` labels (`toolchain` in its configuration), or it has those that forges come with.
    """

    name: str
    about: str
    """What an issue of it asks for, for people who write one."""
    words: tuple[str, ...]
    """Accepted values of `Type:` in a document, in lower case."""
    label: str
    """The label of a published issue where there are no `type/…` labels."""
    type_label: str
    """The label where there are."""
    kind: str
    """Its word in Conventional Commits."""
    branch_word: str
    """The first part of the name of its pull request's branch (R5) where there are `type/…` labels."""
    closes: CloseOnDone = "auto"
    """Who closes its issue when it is done, by default (protocol, Close On Done)."""
    promotes: bool = False
    """Whether it may leave notes in the project's documents (protocol, Promotion Heuristic)."""
    plain_branch_word: str | None = None
    """The first part of that name elsewhere; None: the same."""

    def label_given(self, *, type_labels: bool) -> str:
        """The label of its issues."""
        return self.type_label if type_labels else self.label

    def branch_prefix(self, *, type_labels: bool) -> str:
        """The first part of the name of its branch."""
        return self.branch_word if type_labels else self.plain_branch_word or self.branch_word


FEATURE: Final = TaskTypeProfile(
    name="feature",
    about="Something new that people can use",
    words=("feature", "feat", "功能"),
    label="enhancement",
    type_label="type/feat",
    kind="feat",
    branch_word="feat",
    promotes=True,
    plain_branch_word="feature",
)
IMPL: Final = TaskTypeProfile(
    name="impl",
    about="Code for something that is designed already",
    words=("impl", "implementation", "实现"),
    label="enhancement",
    type_label="type/impl",
    kind="feat",
    branch_word="impl",
    promotes=True,
)
BUG: Final = TaskTypeProfile(
    name="bug",
    about="Something that does not work as it should",
    words=("bug", "缺陷"),
    label="bug",
    type_label="type/bug",
    kind="fix",
    branch_word="fix",
    closes="manual",
    plain_branch_word="bug",
)
DOCS: Final = TaskTypeProfile(
    name="docs",
    about="What people read about the project",
    words=("docs", "documentation", "文档"),
    label="documentation",
    type_label="type/docs",
    kind="docs",
    branch_word="docs",
)
REFACTOR: Final = TaskTypeProfile(
    name="refactor",
    about="The same behavior, with better code",
    words=("refactor", "refactoring", "重构"),
    label="refactor",
    type_label="type/refactor",
    kind="refactor",
    branch_word="refactor",
)
TEST: Final = TaskTypeProfile(
    name="test",
    about="Tests for what is there",
    words=("test", "tests", "测试"),
    label="test",
    type_label="type/test",
    kind="test",
    branch_word="test",
)
INFRASTRUCTURE: Final = TaskTypeProfile(
    name="infrastructure",
    about="Builds, servers and deployment",
    words=("infrastructure", "infra", "基础设施"),
    label="infrastructure",
    type_label="type/infrastructure",
    kind="ci",
    branch_word="infrastructure",
    promotes=True,
)
TASK_TYPES: Final = {profile.name: profile for profile in (FEATURE, IMPL, BUG, DOCS, REFACTOR, TEST, INFRASTRUCTURE)}
"""In the order in which `type/…` labels are looked for."""

_TYPE_LABELS: Final = {profile.type_label: profile for profile in TASK_TYPES.values()} | {"type/feature": FEATURE}
_FAILURE: Final = re.compile(
    r"(?:\S+: )?(?:部署失败|deploy(?:ment)? (?:has )?failed\b|failed deployment\b)", re.IGNORECASE
)
_OF_A_BUG: Final = re.compile(r"bug|defect|fix|regression|缺陷|故障", re.IGNORECASE)


def type_by_label(labels: Collection[str], *, type_labels: bool) -> TaskTypeProfile | None:
    """The type that an issue's labels say; None if they say none.

    Where there are `type/…` labels, any label that says `infrastructure` counts first, then the first `type/…` of the
    table; without any, as everywhere else, the label of a bug.
    """
    if type_labels and (found := _by_type_label([label.casefold() for label in labels])):
        return found
    return BUG if any(map(_OF_A_BUG.fullmatch, labels)) else None


def _by_type_label(labels: Collection[str]) -> TaskTypeProfile | None:
    if any(INFRASTRUCTURE.name in label for label in labels):
        return INFRASTRUCTURE
    return next((profile for label, profile in _TYPE_LABELS.items() if label in labels), None)


def reports_failure(title: str) -> bool:
    """Whether the title of an issue begins by saying that a deployment failed, as programs that deploy say it."""
    return _FAILURE.match(title) is not None


def close_on_done(configured: CloseOnDone | None, task_type: str | None) -> CloseOnDone:
    """Who closes an issue that is done: as configured, or by default of its type (contract)."""
    return configured or (TASK_TYPES[task_type].closes if task_type else "auto")


def _known(name: str) -> str:
    if name not in TASK_TYPES:
        *others, last = map(repr, TASK_TYPES)
        raise ValueError(f"Input should be {', '.join(others)} or {last}")
    return name


TaskType = Annotated[str, AfterValidator(_known), WithJsonSchema({"enum": [*TASK_TYPES], "type": "string"})]
"""The name of a type in plans and documents."""
