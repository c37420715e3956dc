"""The open questions of a repository: who asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from irontree.app import App
from irontree.services.loops.loop import Loop, newest_over_each, skipped, still_open
from irontree.services.world import World

if TYPE_CHECKING:
    from irontree.services.hints import OpenQuestion


def given_up(loops: Sequence[Loop], world: World) -> frozenset[str]:
    """Those, and tasks whose newest loop was stopped: a person has said so, and nothing of them waits."""
    stopped = (key for key, loop in newest_over_each(loops).items() if loop.entity.status == "cancelled")
    return skipped(loops, world) | frozenset(stopped)


def list_questions(app: App, world: World, loops: Sequence[Loop]) -> tuple[OpenQuestion, ...]:
    """Those of issues first, lowest number first, then those of loops; *loops* are all, also those that have ended."""
    alive, nobodys = still_open(loops), given_up(loops, world)
    states = sorted(world.states.values(), key=lambda state: state.issue_number)
    asking = [state for state in states if state.task_key not in nobodys and world.halt_of(state)]
    if not asking and not alive:
        return ()
    from irontree.services.open_questions import asked_about, asked_by  # noqa: PLC0415  (most often nothing is asked)

    of_issues = (asked_about(app, world, alive, state) for state in asking)
    return (*filter(None, of_issues), *filter(None, (asked_by(app, loop) for loop in alive)))
