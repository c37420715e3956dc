"""Budgets for who only looks: where nothing has a limit, nothing is counted, and what counts is not even loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from irontree.app import App
from irontree.services.world import NOTHING_OVERSPENT, World

if TYPE_CHECKING:
    from irontree.domain.ledger import Budget
    from irontree.services.loops.loop import Loop


def shown_budgets(app: App, world: World, loops: Sequence[Loop]) -> tuple[Budget, ...]:
    """Those of open loops, the day, and issues that are worked on; *loops* are all."""
    if not world.limited:
        return ()
    from irontree.services.loops.funds import read_funds  # noqa: PLC0415  (see above)

    return read_funds(app, world, loops).shown()


def overspent(app: App, world: World, loops: Sequence[Loop], keys: Iterable[str]) -> Mapping[str, str]:
    """The tasks whose next step would call an agent that nothing is left for, and why, in words."""
    if not world.limited:
        return NOTHING_OVERSPENT
    from irontree.services.loops.funds import read_funds  # noqa: PLC0415  (see above)

    return read_funds(app, world, loops).overspent(keys)
