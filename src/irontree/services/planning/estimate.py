"""How often the agent is called until what is approved is done, and at most (rulings, Command line)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from irontree.domain.legal import held
from irontree.domain.plan import ExecutionPolicy, PlanNode
from irontree.domain.state import Phase, TaskState

_WITH_WORK: Final = frozenset({Phase.COMMITTED, Phase.PENDING})
"""There is a commit: the agent is called again only if that fails."""
Estimated = tuple[PlanNode, ExecutionPolicy, TaskState | None]
"""A task, the settings that it is approved with, and where it goes on; None for one that begins, or begins again."""


def estimate(tasks: Iterable[Estimated]) -> str:
    """Say how often the agent is called, and the bounds of it."""
    calls = [(policy, _calls(policy, state)) for node, policy, state in tasks if node.executability == "executable"]
    first, most = sum(first for _, (first, _) in calls), sum(most for _, (_, most) in calls)
    if not most:
        return "the agent is not called: nothing is left for it to do"
    hours = sum(most * policy.agent.wall_seconds for policy, (_, most) in calls) / 3600
    called = {0: "not called", 1: "called once"}.get(first, f"called {first} times")
    return f"the agent is {called} if every first attempt passes, and at most {most} times ({hours:,.0f} h)"


def _calls(policy: ExecutionPolicy, state: TaskState | None) -> tuple[int, int]:
    """How often it is called for one task if the next attempt passes, and at most without a person's word."""
    if state is None:
        return 1, 1 + policy.max_retry_count
    now = held(state)
    if now.done or now.phase is Phase.VERIFIED:
        return 0, 0
    left = max(now.total_attempts - now.attempt_count, 0) + (now.phase is Phase.RUNNING)
    return 0 if now.phase in _WITH_WORK else min(left, 1), left
