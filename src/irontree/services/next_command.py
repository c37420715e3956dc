"""What to type next where nobody is at work: of a repository, and of one issue, by one rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from irontree.app import App
from irontree.domain.decide import Halt, Step, decide, step_for
from irontree.domain.state import TaskState
from irontree.services.listed_questions import given_up
from irontree.services.loops.limited import overspent
from irontree.services.loops.loop import Loop, loop_of, still_open
from irontree.services.overview import SERVING
from irontree.services.world import World


def next_command(app: App, world: World, loops: Sequence[Loop]) -> str:
    """What lets the work go on: the newest open loop, else a single step; empty for none. *loops* are all."""
    alive = still_open(loops)
    if alive:
        return _resume(app, alive[-1].id)
    keys, unpaid = _wanted(app, world, loops)
    decision = decide(world.scope(keys, overspent=unpaid))
    return "" if isinstance(decision, Halt) else _step(world, decision)


def next_command_about(app: App, world: World, loops: Sequence[Loop], state: TaskState) -> str:
    """What to type next for this issue, else for the one whose turn it is; empty if that is nobody's command.

    An issue of an open loop goes on with its loop: by itself while that is at work, else when it is resumed. None of
    what a person skipped or stopped is named, nor what no agent may work on.
    """
    loop_id = loop_of(still_open(loops), state.task_key)
    if loop_id:
        return "" if world.halt_of(state) else _resume(app, loop_id)
    keys, unpaid = _wanted(app, world, loops)
    wanted = state.task_key in keys and state.task_key not in unpaid
    step = step_for(world.scope((state.task_key,)), state) if wanted else None
    return _step(world, step) if step else next_command(app, world, loops)


def goes_on(app: App) -> bool:
    """Whether a loop goes on here by itself: it is at work, or its flows are served from a terminal."""
    return bool(app.lease.holder() or app.alive(SERVING).holder())


def _wanted(app: App, world: World, loops: Sequence[Loop]) -> tuple[list[str], Mapping[str, str]]:
    """The tasks that nobody has given up, and which of them no agent may work on."""
    nobodys = given_up(loops, world)
    keys = [key for key in world.states if key not in nobodys]
    return keys, overspent(app, world, loops, keys)


def _resume(app: App, loop_id: str) -> str:
    return "" if goes_on(app) else f"irontree task resume {loop_id}"


def _step(world: World, step: Step) -> str:
    from irontree.services.hints import step_command  # noqa: PLC0415  (most often nothing is to be typed)

    return step_command(step, world.states[step.task_key].issue_number)
