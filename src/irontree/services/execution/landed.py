"""Work that is published already though the log still has it wait for acceptance: a kill came in between (R11, R14).

Who pushed it, or merged it by hand, cannot be told from git, so a person says it again: acceptance finds it there and
records it. Any other answer would give up, or do again, what everybody has. What is proposed has its request to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from irontree.app import App
from irontree.domain.state import Phase, TaskState
from irontree.errors import AnswerRefused, EnvironmentRefused, RemoteFailed
from irontree.services.execution.merging import is_proposed
from irontree.services.world import World


def require_not_landed(app: App, world: World, state: TaskState) -> None:
    """Raise AnswerRefused if the commit that waits is on its target, fetched now; as last fetched if it is away."""
    fetch_targets(app, world, (state,))
    for number, what, way_on in landed(app, world, (state,)):
        raise AnswerRefused(f"issue-{number}: {what}; only acceptance is left", remedy=way_on)


def fetch_targets(app: App, world: World, states: Iterable[TaskState]) -> None:
    """Fetch the targets of what waits for acceptance; one that is away stays as last fetched.

    The caller holds the driver lock.
    """
    waiting = (world.plan(state).policy.publish for state in states if waits_with_commit(world, state))
    for where in {(policy.remote, policy.target_branch): policy for policy in waiting}.values():
        with suppress(RemoteFailed, EnvironmentRefused):
            app.repository.base(where)


def landed(app: App, world: World, states: Iterable[TaskState]) -> Iterator[tuple[int, str, str]]:
    """Issue number, what is the matter, and what to do, of those that wait though their target has their commit.

    As last fetched.
    """
    for state in states:
        if not waits_with_commit(world, state) or state.anchor is None:
            continue
        where = world.plan(state).policy.publish
        if app.repository.has_published(state.anchor, where):
            what = f"{state.anchor[:12]} waits for acceptance, but {where.target_branch} has it already"
            yield state.issue_number, what, _way_on(state)


def waits_with_commit(world: World, state: TaskState) -> bool:
    """Whether acceptance would publish a commit."""
    if state.phase is not Phase.PENDING or state.problem or not state.has_code or is_proposed(state):
        return False
    return state.task_key in world.plans and state.task_key not in world.cancelled


def _way_on(state: TaskState) -> str:
    return (
        f"`irontree checkup accept issue-{state.issue_number}` records that; what is to be different goes into its "
        "document then"
    )
