"""Where a workflow is worked on: branch, worktree or checkout, decided from what git says (docs/hotl.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from irontree.domain.workflow.checkout import Checkout, ExecutionRoot, worktree_folder
from irontree.domain.workflow.workflow import MODES, Workflow, slug_of
from irontree.errors import Refused

PROTECTED: Final = ("main", "master")
_EXEMPT: Final = (
    *("hotl-workflow-*.md", "docs/plans/*-workflow.md", "docs/designs/*.md", "docs/plans/*-design.md"),
    *("docs/plans/*-plan.md", ".hotl", ".hotl/*"),
)
DIRTY_CHOICES: Final = (
    "       a. Clean up by hand (commit or remove them), then run again.",
    "       b. Stash them by hand, then run again. Nothing is stashed for you.",
    "       c. Set 'dirty_worktree: allow' in the workflow file to leave them out of the work.",
)
_BY_HAND: Final = "It is never used again or removed: do that by hand, or choose another branch, then run again."


def worktree_name(branch: str) -> str:
    """The folder name of a branch's worktree."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", branch)


def require_mode(workflow: Workflow) -> None:
    """Raises Refused for a `worktree` that is no mode: upstream says so before it asks git anything."""
    if workflow.worktree and workflow.worktree not in MODES:
        options = ", ".join(MODES)
        raise Refused(f"Invalid worktree mode '{workflow.worktree}'.\n       Expected one of: {options}.")


def not_ours(dirty: Iterable[str]) -> tuple[str, ...]:
    """The paths that block: HOTL's own files do not."""
    return tuple(sorted({path for path in dirty if not any(_fits(path, pattern) for pattern in _EXEMPT)}))


def _fits(path: str, pattern: str) -> bool:
    same_depth = path.count("/") == pattern.count("/") or pattern.startswith(".hotl")
    return same_depth and fnmatchcase(path, pattern)


def choose_root(workflow: Workflow, path: str, checkout: Checkout, executor_mode: str = "loop") -> ExecutionRoot:
    """Where the workflow file at the absolute *path* is to be worked on. Raises Refused."""
    require_mode(workflow)
    branch = workflow.branch or f"hotl/{slug_of(path)}"
    top = checkout.top or checkout.folder
    found = ExecutionRoot(
        *(branch, executor_mode, top, top, path, path, checkout.branch, checkout.head, ""),
        told="" if checkout.head else "Skipping branch setup (no git history)",
    )
    if not checkout.head:
        return found
    unpinned = not workflow.branch and not workflow.worktree
    mode = workflow.worktree or ("host" if unpinned and checkout.linked and checkout.branch else "true")
    if not path.startswith(f"{top}/"):
        raise Refused(f"Workflow file must live inside the git repo: {path}")
    blocking = () if workflow.dirty_allowed else not_ours(checkout.dirty)
    if blocking:
        raise Refused("\n".join(("Non-HOTL dirty files block execution.", *blocking, *DIRTY_CHOICES)))
    match mode:
        case "host":
            return _host(workflow, found, checkout)
        case "false":
            return _here(found, checkout)
        case _:
            return _isolated(found, checkout, asks=unpinned)


def _host(workflow: Workflow, found: ExecutionRoot, checkout: Checkout) -> ExecutionRoot:
    here = checkout.branch
    if not here:
        raise Refused("worktree: host requires the current checkout to be on a named branch.")
    if here in PROTECTED:
        raise Refused(
            f"worktree: host cannot execute directly on protected branch '{here}'.\n"
            "       Use worktree: true for an isolated HOTL worktree, or switch to a feature branch first."
        )
    if workflow.branch and workflow.branch != here:
        raise Refused(
            f"worktree: host uses the current checkout branch, but branch is '{workflow.branch}'.\n"
            f"       Current branch is '{here}'. Remove branch:, set it to '{here}', or use worktree: true."
        )
    return replace(found, branch=here)


def _here(found: ExecutionRoot, checkout: Checkout) -> ExecutionRoot:
    if found.branch == checkout.branch:
        return found
    _require_new_branch(found.branch, checkout)
    return replace(found, makes="branch")


def _isolated(found: ExecutionRoot, checkout: Checkout, *, asks: bool) -> ExecutionRoot:
    if found.branch == checkout.branch:
        raise Refused(
            f"Execution branch '{found.branch}' is already checked out in the current checkout.\n"
            f"       To continue on this exact branch, set 'branch: {found.branch}' with 'worktree: false' or "
            "'worktree: host'.\n"
            "       Otherwise choose a different execution branch or omit branch: to use HOTL's default isolated "
            "branch."
        )
    name, folder = worktree_name(found.branch), worktree_folder(found.repo_root)
    if name in checkout.taken:
        raise Refused(f"Worktree path already exists: {folder}/{name}\n       {_BY_HAND}")
    _require_new_branch(found.branch, checkout)
    root = f"{folder}/{name}"
    told = ""
    if asks and checkout.branch and checkout.branch not in PROTECTED:
        told = (
            f"Working on the new branch '{found.branch}', not on '{checkout.branch}'. To continue on that one, set "
            f"'branch: {checkout.branch}' and 'worktree: false' in the workflow file."
        )
    inside = root + found.workflow_path.removeprefix(found.repo_root)
    return replace(found, execution_root=root, workflow_path=inside, worktree_path=root, makes="worktree", told=told)


def _require_new_branch(branch: str, checkout: Checkout) -> None:
    if branch in checkout.branches:
        raise Refused(f"Branch already exists: {branch}.\n       {_BY_HAND}")
    beside = [
        each for each in checkout.branches if f"{each}/".startswith(f"{branch}/") or branch.startswith(f"{each}/")
    ]
    if beside:
        raise Refused(
            f"Branch cannot be made: {branch}. Git keeps no branch below another one, and there is '{min(beside)}'.\n"
            "       Choose another branch, or rename that one, then run again."
        )
