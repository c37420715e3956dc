"""Names under `refs/irontree/` and the trailers by which our commits are found again (protocol, Files on disk; R11)."""

from __future__ import annotations

import re

from irontree.domain.plan import PlanNode
from irontree.domain.state import TaskState
from irontree.domain.task_types import TASK_TYPES

# What forges take for "this commit closes that issue": the word right before the reference.
_CLOSING_KEYWORD = re.compile(
    r"\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)):?\s+(?=\S*#\d|GH-\d|https?://)", re.IGNORECASE
)
_MENTION = re.compile(r"(?<![\w`])@(?=\w)")

BRIEF_CHARACTERS = 40
RUN_TRAILER = "Irontree-Run"
MERGE_TRAILER = "Irontree-Merge"
DOCS_TRAILER = "Irontree-Docs"


def attempt_name(state: TaskState) -> str:
    """What names this attempt for ever: its run_started's sequence, in a renewed stream after the archive's name."""
    return f"{state.renewed_from}/{state.run_sequence}" if state.renewed_from else str(state.run_sequence)


def commit_ref(state: TaskState) -> str:
    """The ref of the commit that this attempt makes."""
    return f"refs/irontree/issue-{state.issue_number}/{attempt_name(state)}"


def salvage_ref(state: TaskState) -> str:
    """The ref that keeps what a cut-off attempt left behind."""
    return f"refs/irontree/salvage/issue-{state.issue_number}/{attempt_name(state)}"


def merge_ref(state: TaskState, tip: str) -> str:
    """The ref of this attempt's merge with a target that moved to *tip*: the same tip, the same merge."""
    return f"refs/irontree/issue-{state.issue_number}/{attempt_name(state)}-merge-{tip[:12]}"


def merged_ref(state: TaskState) -> str:
    """The ref of the commit by which people merged this attempt."""
    return f"refs/irontree/issue-{state.issue_number}/{attempt_name(state)}-merged"


def docs_ref(state: TaskState, anchor: str) -> str:
    """The ref of the commit with notes on top of *anchor*: the same commit checked, the same notes."""
    return f"refs/irontree/issue-{state.issue_number}/{attempt_name(state)}-docs-{anchor[:12]}"


def docs_trailer(state: TaskState) -> str:
    """What tells that commit; not to be taken for the attempt's own, nor for a merge."""
    return f"{DOCS_TRAILER}: {state.run_token}/docs"


def request_branch(state: TaskState, node: PlanNode) -> str:
    """`{type}/{N}-{brief}`, the branch on which a task's commits are proposed (ruling R5).

    A stream that begins again, after its first one's branch may have been merged, has another.
    """
    again = f"-{state.approved_revision}" if state.renewed_from else ""
    brief = node.task_key[:BRIEF_CHARACTERS].strip("-")
    return f"{TASK_TYPES[node.type].branch_prefix}/{state.issue_number}-{brief}{again}"


def run_message(state: TaskState, title: str) -> str:
    """The commit message of an attempt (contract, `[run] #N: summary`) with its token."""
    return f"[run] #{state.issue_number}: {summary(title)}\n\n{RUN_TRAILER}: {state.run_token}\n"


def summary(title: str) -> str:
    """A title that closes no issue when its commit is pushed: only evidence does (contract, commit message)."""
    return _CLOSING_KEYWORD.sub(r"\1, see ", title)


def quiet(text: str) -> str:
    """A text in a request that closes no issue when it is merged, and calls nobody who is named in it."""
    return _MENTION.sub("@\N{ZERO WIDTH SPACE}", summary(text))


def merge_message(state: TaskState, target: str) -> str:
    """The message of a merge with the moved target."""
    return f"Merge {target} into #{state.issue_number}\n\n{MERGE_TRAILER}: {state.run_token}\n"
