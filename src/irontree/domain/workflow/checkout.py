"""What git says of the user's checkout, and where a workflow is worked on: the values alone, quick to import."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final, Literal

HOME: Final = ".hotl"
"""The folder of runs, in the repository or the folder that is worked in."""
REPORTS: Final = f"{HOME}/reports"
WORKTREES: Final = ".hotl-worktrees"
"""The folder of our worktrees, beside the repository."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """What git says of the folder that a command is given in.

    *top* is empty outside a repository, *head* without a commit, *branch* with a detached HEAD. *taken* are the
    names in the folder of our worktrees, *dirty* the paths that `git status` lists.
    """

    folder: str
    top: str = ""
    head: str = ""
    branch: str = ""
    linked: bool = False
    branches: Collection[str] = ()
    taken: Collection[str] = ()
    dirty: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecutionRoot:
    """The decision. *makes* says what has to be made first, *told* what the user should know."""

    branch: str
    executor_mode: str
    repo_root: str
    execution_root: str
    workflow_path: str
    source_workflow_path: str
    source_branch: str
    source_head: str
    worktree_path: str
    makes: Literal["worktree", "branch"] | None = None
    told: str = ""

    def as_json(self) -> dict[str, Any]:
        """The nine keys, in upstream's order: all that has no default."""
        return {each.name: getattr(self, each.name) or None for each in fields(self) if each.default is MISSING}


def worktree_folder(top: str) -> str:
    """Where the worktrees of a repository go."""
    parent, _, name = top.rpartition("/")
    return f"{parent}/{WORKTREES}/{name}"
