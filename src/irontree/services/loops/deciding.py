"""What a loop does next, by the log as it is now (protocol, Decision Function)."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.decide import Decision, Scope, decide
from irontree.services.loops.funds import Funds, read_funds
from irontree.services.loops.loop import Loop, read_loop
from irontree.services.world import World, read_world


def next_decision(app: App, loop_id: str) -> Decision:
    """What this loop should do next."""
    world = read_world(app)
    return decide(scope_of(read_loop(app, loop_id), world, read_funds(app, world)))


def scope_of(loop: Loop, world: World, funds: Funds) -> Scope:
    """What the loop may touch."""
    return world.scope(loop.keys, loop.budget_left, funds.overspent(loop.keys))
