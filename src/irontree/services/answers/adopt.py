"""Existing issues are taken in, to wait for their approval; those that have to be split first get their label."""

from __future__ import annotations

from contextlib import suppress

from irontree.app import App
from irontree.domain.commands import Issues, OpenIssues
from irontree.domain.plan import Plan
from irontree.domain.state import COLORS, NEEDS_BREAKDOWN, Phase
from irontree.errors import Busy, NeedsBreakdown, NotEligible, RemoteFailed
from irontree.ports import Issue, Label
from irontree.services.execution.publish import publish
from irontree.services.execution.recovery import settle_leftovers
from irontree.services.loops.choice import refuse_beside_loop
from irontree.services.proposals.adoption import adopted_plan, clash, number_of, plan_for, state_of, why_not
from irontree.services.proposals.issues import resolve
from irontree.services.proposals.proposal import Proposal
from irontree.services.record.world import World, read_world


def adopt(app: App, number: int) -> Plan:
    """Take one issue in, and stop there: it waits for its approval (protocol, `adopt issue-N`).

    Taken in anew if it was adopted before and its text changed; asking twice is no new work. The caller holds the
    driver lock. Raises NotEligible for an issue that cannot be taken in; one that is composite gets its label. Raises
    Busy while a loop is at work: its issue would begin anew under it.
    """
    refuse_beside_loop(app)
    settle_leftovers(app)
    world = read_world(app)
    issue = require_adoptable(app, world, number)
    plan = plan_for(app, world, issue)
    if problem := clash(app, world, plan):
        raise NotEligible(problem.reason, remedy=problem.remedy)
    state = state_of(world, number)
    if state and state.phase is not Phase.ADOPTED and state.approved_revision == plan.spec_revision:
        raise NotEligible(
            f"issue-{number} is adopted already: it is {state.phase}",
            remedy=f"`irontree task #{number}` works on it; edit the issue to have it taken in anew",
        )
    save_adopted(app, plan)
    publish(app, plan)
    app.repository.back_up()
    return plan


def require_adoptable(app: App, world: World, number: int) -> Issue:
    """The issue, if it can be taken in; raises NotEligible, after labelling one that has to be split first."""
    issue = app.forge().read_issue(number)
    if issue is None:
        raise NotEligible(f"there is no issue #{number} here", remedy="look at the number again")
    problem = why_not(app, world, issue)
    if problem is None:
        return issue
    if problem.composite:
        mark_composite(app, number)
    raise NotEligible(problem.reason, remedy=problem.remedy)


def mark_composite(app: App, number: int) -> None:
    """Set the label that asks for splitting; that it cannot be set changes nothing (contract, labels)."""
    try:
        app.forge().ensure_labels([Label(NEEDS_BREAKDOWN, COLORS[NEEDS_BREAKDOWN])])
        app.forge().set_labels(number, add=[NEEDS_BREAKDOWN])
    except RemoteFailed as error:
        app.progress.note(f"warning: #{number} has no label {NEEDS_BREAKDOWN}: {error.message}")


def save_adopted(app: App, *plans: Plan) -> None:
    """Write the plan of each issue before its stream; safe to call again after a crash at any point (ruling R6)."""
    world = read_world(app)
    for plan in plans:
        in_force = adopted_plan(world, number_of(plan))
        if in_force is None or not _adds_nothing(in_force, plan):
            app.plans.save(plan)


def _adds_nothing(in_force: Plan, plan: Plan) -> bool:
    """Whether text, settings and being approved or not are the same; when, by whom and for a loop or not may differ.

    Compared with the plan in force alone: a text that was in force once has to be saved again.
    """
    different = ("adoption", "approval", "loop_mode")
    same = in_force.model_dump(exclude={*different}) == plan.model_dump(exclude={*different})
    return same and bool(in_force.approval) == bool(plan.approval)


def resolve_to_approve(app: App, intent: Issues | OpenIssues, words: str) -> Proposal:
    """`resolve`, and a named issue that is composite gets its label; raises as `resolve` does.

    While somebody else has the driver lock the label waits for another time (contract, labels; ruling R3).
    """
    try:
        return resolve(app, intent, words)
    except NeedsBreakdown as error:
        with suppress(Busy), app.driver.hold(f"#{error.number}, label"):
            mark_composite(app, error.number)
        raise
