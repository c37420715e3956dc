"""Task types and everything that depends on the type; a new type is one line in this table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, WithJsonSchema

from irontree.domain.values import CloseOnDone


class TaskTypeProfile(NamedTuple):
    """A type's names in documents, its label on the forge, and its defaults."""

    name: str
    words: tuple[str, ...]
    """Accepted values of `Type:` in a document, in lower case."""
    label: str
    """The label of a published issue."""
    labelled: re.Pattern[str] | None
    """The labels that make an existing issue one of this type; `None` if no label does."""
    branch_prefix: str
    """The prefix of its pull request's branch (R5)."""
    closes: CloseOnDone
    """Who closes its issue when it is done, by default (protocol, Close On Done)."""
    kind: str
    """Its word in Conventional Commits."""
    promotes: bool
    """Whether it may leave notes in the project's documents (protocol, Promotion Heuristic)."""

    def is_label_of(self, labels: Iterable[str]) -> bool:
        """Whether one of an issue's labels says that it is of this type."""
        return self.labelled is not None and any(map(self.labelled.fullmatch, labels))


FEATURE: Final = TaskTypeProfile(
    name="feature",
    words=("feature", "功能"),
    label="enhancement",
    labelled=None,
    branch_prefix="feature",
    closes="auto",
    kind="feat",
    promotes=True,
)
BUG: Final = TaskTypeProfile(
    name="bug",
    words=("bug", "缺陷"),
    label="bug",
    labelled=re.compile(r"bug|defect|fix|regression|缺陷|故障", re.IGNORECASE),
    branch_prefix="bug",
    closes="manual",
    kind="fix",
    promotes=False,
)
TASK_TYPES: Final = {profile.name: profile for profile in (FEATURE, BUG)}


def close_on_done(configured: CloseOnDone | None, task_type: str | None) -> CloseOnDone:
    """Who closes an issue that is done: as configured, or by default of its type (contract)."""
    return configured or (TASK_TYPES[task_type].closes if task_type else "auto")


def _known(name: str) -> str:
    if name not in TASK_TYPES:
        raise ValueError(f"Input should be {' or '.join(map(repr, TASK_TYPES))}")
    return name


TaskType = Annotated[str, AfterValidator(_known), WithJsonSchema({"enum": [*TASK_TYPES], "type": "string"})]
"""The name of a type in plans and documents."""
