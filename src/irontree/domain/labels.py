"""Labels are a function of the state (ruling R16): nothing moves them, they are set to what the state says."""

from __future__ import annotations

from typing import Final

from irontree.domain.state import Phase, TaskState

STAGE_TASK: Final = "stage:task"
STAGE_RUN: Final = "stage:run"
STAGE_VERIFY: Final = "stage:verify"
STAGE_DONE: Final = "stage:done"
PENDING: Final = "pending-acceptance"
ADOPTED: Final = "iron-tree:adopted"
NEEDS_BREAKDOWN: Final = "iron-tree:needs-breakdown"

COLORS: Final[dict[str, str]] = {
    ADOPTED: "0E8A16",
    NEEDS_BREAKDOWN: "D93F0B",
    STAGE_TASK: "FBCA04",
    STAGE_RUN: "1D76DB",
    STAGE_VERIFY: "5319E7",
    STAGE_DONE: "0E8A16",
    PENDING: "FBCA04",
}
"""All seven are created on first use (contract, labels)."""
MANAGED: Final = frozenset({STAGE_TASK, STAGE_RUN, STAGE_VERIFY, STAGE_DONE, PENDING, NEEDS_BREAKDOWN})
"""The labels that follow the state; `iron-tree:adopted` stays once it is set, every other one belongs to people.

An issue that needs a breakdown is not taken in, so no state calls for that label."""

_BY_STAGE: Final = {
    "definition": STAGE_TASK,
    "decompose": STAGE_TASK,
    "run": STAGE_RUN,
    "verify": STAGE_VERIFY,
    "checkup": STAGE_DONE,
    "done": STAGE_DONE,
}


def labels_for(state: TaskState) -> frozenset[str]:
    """The managed labels that this state calls for; a detour keeps the label of where the issue halted."""
    at = state
    while at.before:
        at = at.before
    approved = state.approvals > 0 and at.current_stage == "definition"
    stage = STAGE_RUN if approved else _BY_STAGE[at.current_stage]
    waits = {PENDING} if state.phase is Phase.PENDING else set()
    return frozenset({stage} | waits | ({ADOPTED} if state.adopted else set()))
