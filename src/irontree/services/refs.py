"""Names under `refs/irontree/` and the trailers by which our commits are found again (design, section 4; R11)."""

from __future__ import annotations

from irontree.domain.state import TaskState

RUN_TRAILER = "Irontree-Run"
MERGE_TRAILER = "Irontree-Merge"


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


def run_message(state: TaskState, title: str) -> str:
    """The commit message of an attempt (contract, `[run] #N: summary`) with its token."""
    return f"[run] #{state.issue_number}: {title}\n\n{RUN_TRAILER}: {state.run_token}\n"


def merge_message(state: TaskState, target: str) -> str:
    """The message of a merge with the moved target."""
    return f"Merge {target} into #{state.issue_number}\n\n{MERGE_TRAILER}: {state.run_token}\n"
