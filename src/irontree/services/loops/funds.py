"""What agents may still spend: limits as approved, usage as recorded in the log (protocol, Budgets)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from irontree.app import App
from irontree.domain import typed
from irontree.domain.budgets import UNITS, Allowance, BudgetPolicy, Unit
from irontree.domain.ids import parse_issue
from irontree.domain.loop import LoopEntity
from irontree.domain.meta import Took
from irontree.domain.spending import Budget, Ledger, Spending, ledger_of, review_spending, spendings_of, taken
from irontree.domain.state import Phase, TaskState
from irontree.domain.timestamps import stamped
from irontree.errors import NotEligible
from irontree.services.loops.loop import Loop, read_loops, still_open
from irontree.services.record import (
    NOTHING_OVERSPENT,
    World,
    plans_folder,
    read_world,
    reports,
    requests_folder,
    result_in,
)


@dataclass(frozen=True, slots=True)
class Funds:
    """The ledger of a repository at one moment, and the newest open loop over each task."""

    world: World
    now: datetime
    ledger: Ledger = field(default_factory=Ledger)
    loops: Mapping[str, Loop] = field(default_factory=dict)
    limited: bool = False
    """Whether there is any limit; if not, nothing was counted."""
    _sums: dict[tuple[BudgetPolicy, str], tuple[Budget, ...]] = field(default_factory=dict, repr=False, compare=False)
    """Budgets shared by the tasks of one policy and loop, summed once."""

    def of_issue(self, state: TaskState) -> tuple[Budget, ...]:
        """Every limit that applies to the next agent call for that issue; empty if none was approved."""
        policy = _policy(self.world, state.task_key)
        return (*self._own(state), *self._shared(policy, self.loops.get(state.task_key))) if policy else ()

    def of_loop(self, loop: Loop) -> tuple[Budget, ...]:
        """The limits of the loop and of the day, as approved for the first of its tasks that has any."""
        policies = (_policy(self.world, key) for key in loop.keys)
        policy = next(filter(None, policies), None)
        return self._shared(policy, loop) if policy else ()

    def of_day(self, policy: BudgetPolicy) -> tuple[Budget, ...]:
        """Today's limits."""
        zone = ZoneInfo(policy.time_zone)
        return self.ledger.of_day(policy, self.now.astimezone(zone).date(), zone)

    def shown(self) -> tuple[Budget, ...]:
        """The budgets in a listing: those of open loops, of the day, and of issues that have started."""
        if not self.limited:
            return ()
        loops = {loop.id: loop for loop in self.loops.values()}.values()
        begun = sorted((s for s in self.world.states.values() if s.started), key=lambda state: state.issue_number)
        policies = [plan.policy.budgets for plan in self.world.plans.values() if plan.policy.budgets]
        found = (
            *(budget for loop in loops for budget in self.of_loop(loop)),
            *(budget for policy in policies[-1:] for budget in self.of_day(policy)),
            *(budget for state in begun for budget in self._own(state)),
        )
        return tuple(dict.fromkeys(found))

    def over(self, state: TaskState) -> Budget | None:
        """The first limit that keeps agents from working on that issue; None if none does."""
        return next((budget for budget in self.of_issue(state) if budget.over), None)

    def allowance(self, state: TaskState) -> Allowance:
        """What the next agent call for that issue may use: the least that any limit leaves."""
        return _least(self.of_issue(state))

    def stopping(self, keys: Iterable[str], words: str) -> tuple[Budget, ...]:
        """All budgets used up for the issue that *words*, the detail of a decision about these tasks, refers to.

        The budget that it names comes first; the others are asked about once that one is extended.
        """
        states = (self.world.states[key] for key in keys if key in self.world.states)
        used_up = ([budget for budget in self.of_issue(state) if budget.over] for state in states)
        found = next(budgets for budgets in used_up if any(budget.words == words for budget in budgets))
        return tuple(sorted(found, key=lambda budget: budget.words != words))

    def overspent(self, keys: Iterable[str]) -> Mapping[str, str]:
        """The tasks whose next step would call an agent without budget left, each with the reason."""
        if not self.limited:
            return NOTHING_OVERSPENT
        states = (self.world.states[key] for key in keys if key in self.world.states)
        calling = [state for state in states if calls_agent(self.world, state)]
        return {state.task_key: over.words for state in calling if (over := self.over(state))}

    def _own(self, state: TaskState) -> tuple[Budget, ...]:
        """The limits of the issue alone."""
        policy = _policy(self.world, state.task_key)
        return self.ledger.of_issue(policy, state.issue_number) if policy else ()

    def _shared(self, policy: BudgetPolicy, loop: Loop | None) -> tuple[Budget, ...]:
        """The limits of the loop and of the day."""
        group = (policy, loop.id if loop else "")
        if group not in self._sums:
            self._sums[group] = (*(self._of_loop(policy, loop) if loop else ()), *self.of_day(policy))
        return self._sums[group]

    def _of_loop(self, policy: BudgetPolicy, loop: Loop) -> tuple[Budget, ...]:
        states = (self.world.states.get(key) for key in loop.entity.task_keys)
        issues = frozenset(state.issue_number for state in states if state)
        return self.ledger.of_loop(policy, loop.id, began=_began(loop.entity), issues=issues)


def read_funds(app: App, world: World, loops: Sequence[Loop] | None = None) -> Funds:
    """The present funds; *loops* are all, if already read. Without a budget nothing more is read."""
    if not world.limited:
        return Funds(world, app.clock.now())
    loops = read_loops(app)[0] if loops is None else loops
    extensions = (extension for loop in loops for extension in loop.extensions)
    ledger = ledger_of(_spendings(app, world), extensions)
    newest = {key: loop for loop in still_open(loops) for key in loop.keys}
    return Funds(world, app.clock.now(), ledger, newest, limited=True)


def require_funds(app: App, world: World, state: TaskState) -> Funds:
    """The present funds. Raises NotEligible, with a remedy, if none are left for an agent to work on this issue."""
    funds = read_funds(app, world)
    over = funds.over(state)
    if over:
        loop = funds.loops.get(state.task_key)
        raise NotEligible(
            f"no agent may work on issue-{state.issue_number}: {over.words}",
            remedy=_way_on(over, loop.id if loop else ""),
        )
    return funds


def require_funds_of_today(app: App, world: World, policy: BudgetPolicy | None, deed: str) -> Allowance:
    """What an agent may use of today's budget under *policy*. Raises NotEligible, naming its *deed*, if it is spent."""
    if policy is None:
        return Allowance()
    loops = read_loops(app)[0]
    extensions = (extension for loop in loops for extension in loop.extensions)
    funds = Funds(world, app.clock.now(), ledger_of(_spendings(app, world), extensions), limited=True)
    today = funds.of_day(policy)
    over = next((budget for budget in today if budget.over), None)
    if over:
        raise NotEligible(f"no agent may {deed}: {over.words}", remedy=_way_on(over, ""))
    return _least(today)


def tell_warnings(app: App, before: Funds, state: TaskState) -> None:
    """Report each limit of this issue of which four fifths are spent now but were not *before*."""
    if not before.limited:
        return
    warned = {(budget.scope, budget.unit) for budget in before.of_issue(state) if budget.warns}
    for budget in read_funds(app, read_world(app)).of_issue(state):
        if budget.warns and (budget.scope, budget.unit) not in warned:
            app.progress.note(f"budget: {budget.words}")


def _began(entity: LoopEntity) -> str:
    """The earliest time in the entity: if the clock was set back since, what the loop spent still counts."""
    return min((entity.created_at, *(taken.iso for taken in entity.transitions)))


def _way_on(over: Budget, loop_id: str) -> str:
    if loop_id:
        return f"`{typed.resume(loop_id)}` asks whether to allow more"
    raised = "raise it under budgets in .mino/config.yml and approve that"
    return f"wait until {over.until}, or {raised}" if over.until else raised


def calls_agent(world: World, state: TaskState) -> bool:
    """Whether this issue's next step calls an agent: an attempt, or a verification with reviewers."""
    plan = world.plans.get(state.task_key)
    asks = plan is not None and state.has_code and bool(plan.policy.reviewers_of(world.node(state)))
    return state.phase is Phase.READY or (state.phase is Phase.COMMITTED and asks)


def _least(budgets: Sequence[Budget]) -> Allowance:
    least = {unit: min((_leaves(budget) for budget in budgets if budget.unit == unit), default=None) for unit in UNITS}
    return Allowance(least["money"], least["tokens"], least["time"])


def _leaves(budget: Budget) -> int:
    """What the budget leaves for one call; the limit of an attempt starts anew with each."""
    return budget.limit if budget.scope == "attempt" else budget.left


def _policy(world: World, task_key: str) -> BudgetPolicy | None:
    plan = world.plans.get(task_key)
    return plan.policy.budgets if plan else None


def _spendings(app: App, world: World) -> Iterator[Spending]:
    """All spending: of every stream, including archived ones, of reviews, planning and requests.

    A review whose rounds are stored counts by these, because the log holds only completed reviews.
    """
    rounds = tuple(_reviewing(app))
    kept = {spending.place for spending in rounds}
    yield from (spending for spending in _in_log(app, world) if spending.place not in kept)
    yield from rounds
    yield from _beside_tasks(app)


def _in_log(app: App, world: World) -> Iterator[Spending]:
    for own in world.spendings.values():
        yield from own
    for name in app.log.archives():
        yield from spendings_of(app.log.read_archived(name).records)


def _beside_tasks(app: App) -> Iterator[Spending]:
    """Spending by planners and by requests to agents, which no issue's log holds.

    A round without a result was cut off; its usage is unknown.
    """
    planning = (("planning", folder) for folder in sorted(plans_folder(app).glob("*/*")))
    asking = ((folder.parts[-3], folder) for folder in sorted(requests_folder(app).glob("*/*/*")))
    for what, folder in (*planning, *asking):
        time = stamped(folder.parent.name)
        if folder.is_dir() and time:
            took = _took(folder)
            yield Spending(0, f"{what} at {time}", time, 0, took["money"], took["tokens"], took["time"])


def _reviewing(app: App) -> Iterator[Spending]:
    """Spending by reviewers, by round: interrupted ones are in no event. Without a result the usage is unknown.

    None is looked for below the folder of an attempt, where the agents of an earlier version could write.
    """
    kept = reports(app)
    for folder in sorted((*kept.glob("issue-*/reviews-*/*/*"), *kept.glob("issue-*/issue-*/reviews-*/*/*"))):
        reviewer, _, stamp = folder.parent.name.rpartition("-")
        place = folder.relative_to(kept).parts
        number, time = parse_issue(place[0]), stamped(stamp)
        if folder.is_dir() and number and time:
            took = _took(folder)
            yield review_spending(number, reviewer, time, "/".join(place[:-2]), took)


def _took(folder: Path) -> dict[Unit, int | None]:
    """What the agent with this transcript used."""
    result = result_in(folder)
    return taken(Took(usage_in(result)), result.get("seconds"))


def usage_in(result: Mapping[str, Any]) -> dict[str, Any]:
    """How the agent ended and what it used, in the form of `meta.agent`; only what is known."""
    usage = result.get("usage")
    found = {"ended": result.get("ended"), **(usage if isinstance(usage, dict) else {})}
    return {key: value for key, value in found.items() if value is not None}
