"""Which branch a workflow is worked on by Iron Tree (docs/hotl.md).

The rules of execution roots (`root.py`) with two differences: work is done in a private clone, and on a feature branch
that the file does not speak of, a person chooses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from irontree.domain.text import few, why_no_branch
from irontree.domain.workflow.checkout import Checkout
from irontree.domain.workflow.root import DIRTY_CHOICES, PROTECTED, choose_root, not_ours, require_mode
from irontree.domain.workflow.workflow import Workflow, slug_of
from irontree.errors import BranchUndecided, Refused

ISOLATED: Final = "isolated"
HERE: Final = "here"
NAME: Final = "NAME"
"""What stands for the name of a new branch."""
_MODE_OF: Final = {ISOLATED: "true", HERE: "host"}


class WorkflowTarget(NamedTuple):
    """Where the work of a workflow goes; *start* is where a new branch begins, empty for one that is there."""

    branch: str
    start: str = ""


def choose_target(workflow: Workflow, path: str, checkout: Checkout, choice: str = "") -> WorkflowTarget:
    """Where the workflow file at the absolute *path* goes, given what somebody chose: `isolated`, `here` or a name.

    Raises Refused, and BranchUndecided where somebody has to choose and has not.
    """
    require_mode(workflow)
    if not checkout.top:
        raise Refused(f"{checkout.folder} is in no git repository", remedy="work on it in one: `git init`, and commit")
    if not checkout.head:
        raise Refused(
            f"{checkout.top} has no commit yet, so there is nothing to start from",
            remedy="make the first: `git commit`",
        )
    own = path.removeprefix(f"{checkout.top}/")
    blocking = () if workflow.dirty_allowed else not_ours(each for each in checkout.dirty if each != own)
    if blocking:
        raise Refused(
            "\n".join(("These changes are in no commit, so the work would lack them:", *blocking, *DIRTY_CHOICES))
        )
    chosen = _decided(workflow, path, checkout, choice)
    root = choose_root(chosen, path, replace(checkout, dirty=()))
    return WorkflowTarget(root.branch, checkout.head if root.makes else "")


def _decided(workflow: Workflow, path: str, checkout: Checkout, choice: str) -> Workflow:
    """The workflow as if its file said all that is decided."""
    if not choice:
        is_pinned = bool(workflow.branch or workflow.worktree)
        if not is_pinned and checkout.branch and checkout.branch not in PROTECTED:
            raise _undecided(path, checkout.branch)
        return replace(workflow, worktree=workflow.worktree or "true")
    mode = _MODE_OF.get(choice, workflow.worktree or "true")
    branch = workflow.branch if choice in _MODE_OF else choice
    if workflow.worktree not in ("", mode) or workflow.branch not in ("", branch):
        says = ", ".join(f"{key}: {value}" for key, value in _pins(workflow) if value)
        raise Refused(f"the workflow file decides that already ({says}), and '{choice}' is not it", remedy=_FILE)
    if choice == HERE:
        _require_here(workflow, checkout.branch)
    elif branch and (why := why_no_branch(branch)):
        raise Refused(
            f"'{branch}' cannot be the name of a branch: {why}", remedy=f"choose {ISOLATED}, {HERE}, or another name"
        )
    return replace(workflow, worktree=mode, branch=branch)


def _require_here(workflow: Workflow, here: str) -> None:
    """Raise Refused if the branch that the user is on cannot be the one that was chosen by 'here'."""
    other = f"choose {ISOLATED} or a name, or switch to a branch of your own first"
    if not here:
        raise Refused(f"'{HERE}' is the branch that you are on, and HEAD is detached: you are on none", remedy=other)
    if here in PROTECTED:
        raise Refused(f"'{HERE}' is {here}, and no workflow is worked on directly there", remedy=other)
    if workflow.branch and workflow.branch != here:
        raise Refused(f"'{HERE}' is {here}, and the workflow file says branch: {workflow.branch}", remedy=_FILE)


_FILE: Final = "leave --branch out, or change the file"


def _pins(workflow: Workflow) -> tuple[tuple[str, str], ...]:
    return ("branch", workflow.branch), ("worktree", workflow.worktree)


def _undecided(path: str, here: str) -> BranchUndecided:
    own = f"hotl/{slug_of(path)}"
    choices = (
        (ISOLATED, f"a new branch {own}, made from {here} (recommended)"),
        (HERE, f"the branch {here} itself, which you are on"),
        (NAME, "a new branch of that name; `branch: NAME` in the workflow file says the same"),
    )
    words = "".join(f"\n       {name}: {what}" for name, what in choices)
    return BranchUndecided(
        f"you are on {here}, and the workflow file does not say where to work. Choose one:{words}",
        choices=choices,
        remedy=f"add --branch {ISOLATED}, --branch {HERE} or --branch NAME",
    )


def why_it_stays(checkout: Checkout, start: str) -> str:
    """Why the user's checkout is not put on a branch that begins at *start*; empty if it can be."""
    if checkout.head != start:
        return f"it is at {checkout.head[:12]}, and the work starts from {start[:12]}"
    if blocking := not_ours(checkout.dirty):
        return f"there are changes in no commit: {few(blocking)}"
    return ""
