"""Approving again: after a change, after a revert, or to permit what an agent was denied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from irontree.app import App
from irontree.domain.ids import digest_of
from irontree.domain.machine import held
from irontree.domain.permissions import PermissionRule
from irontree.domain.plan import ExecutionPolicy, Plan
from irontree.domain.state import Phase, TaskState
from irontree.errors import EnvironmentRefused, LogDamaged, NotEligible, Refused, RemoteFailed
from irontree.services.proposals.proposal import Proposal, propose_from, ways_to_approve
from irontree.services.proposals.sources import AdoptedSource, DocumentSource
from irontree.services.record import World, read_world
from irontree.services.views.history import rules_for_denied

ALLOW = "allow"
ASKS_FOR_PERMISSION = "acp"
"""The adapter of agents that ask for permission before they act."""


def offers_permission(app: App, world: World, state: TaskState) -> bool:
    """Whether the answer `allow` would help: no approved rule covers what was denied, and another attempt follows."""
    plan = world.plans.get(state.task_key)
    if plan is None or not _leads_to_an_attempt(state):
        return False
    author = plan.policy.author_of(world.node(state))
    if author != plan.policy.agent or author.adapter != ASKS_FOR_PERMISSION:  # a member's rules stand elsewhere
        return False
    rules = rules_for_denied(app.log.read(state.issue_number))
    return bool(_new(plan.policy, rules))


def permission_choice(app: App, world: World, state: TaskState) -> tuple[str, ...]:
    """The answer `allow`, if it would help."""
    return (ALLOW,) if offers_permission(app, world, state) else ()


def grant_permissions(app: App, issue_number: int) -> tuple[PermissionRule, ...]:
    """Add rules for what the last attempt was denied to the configuration and to the approved plans; returns them.

    Those are all plans in force whose settings are those of the configuration: a repository has one configuration, and
    the answer approves exactly these rules. The plans still name who approved the rest, as gates require; the answer's
    event names who granted the rules. Safe to repeat after a crash in between. The caller holds the driver lock. Raises
    NotEligible if no rule would help, or if other settings have changed since the approval.
    """
    world = read_world(app)
    state = world.state(issue_number)
    plan = world.plan(state)
    rules = rules_for_denied(app.log.read(issue_number))
    if not rules or not _leads_to_an_attempt(state):
        raise NotEligible(f"issue-{issue_number} was denied nothing that a rule would allow", remedy="answer otherwise")
    wanted, now = _with(plan.policy, rules), app.policy(plan.policy.publish)
    if now.digest not in (plan.policy.digest, wanted.digest):
        raise NotEligible(
            "the configuration changed since the approval in other ways than by these rules",
            remedy="approve that first, or put it back; the rules can be added by hand with it",
        )
    others = _as_configured(app, world, rules)
    others.pop(digest_of(plan), None)
    if now.digest != wanted.digest:
        app.allow(_new(now, rules))
    for approved in (*others.values(), plan):  # its own plan last: the rules are offered as long as it lacks them
        app.plans.save(approved.model_copy(update={"policy": _with(approved.policy, rules)}))
    return rules


def _leads_to_an_attempt(state: TaskState) -> bool:
    """Whether resuming means another attempt; a blocked issue may have a commit to verify instead."""
    match state.phase:
        case Phase.TERMINAL:
            return True
        case Phase.PENDING:
            return state.may_retry
        case _:
            return state.phase is Phase.BLOCKED and held(state).phase is Phase.READY and state.problem is None


def _as_configured(app: App, world: World, rules: Sequence[PermissionRule]) -> dict[str, Plan]:
    """The approved plans of unfinished work whose settings have not changed since, other than by *rules*.

    An answer that a crash cut short has added *rules* to the configuration, but perhaps not to all of these plans.
    """
    open_ones = (key for key in world.plans if key not in world.cancelled and not world.is_done(key))
    plans = {digest_of(world.plans[key]): world.plans[key] for key in open_ones}
    return {
        digest: plan
        for digest, plan in plans.items()
        if plan.approval
        and app.policy(plan.policy.publish).digest in (plan.policy.digest, _with(plan.policy, rules).digest)
    }


def _with(policy: ExecutionPolicy, rules: Sequence[PermissionRule]) -> ExecutionPolicy:
    agent = policy.agent
    permissions = (*agent.permissions, *_new(policy, rules))
    return policy.model_copy(update={"agent": agent.model_copy(update={"permissions": permissions})})


def _new(policy: ExecutionPolicy, rules: Sequence[PermissionRule]) -> tuple[PermissionRule, ...]:
    return tuple(rule for rule in rules if rule not in policy.agent.permissions)


# --- What approving again would do, and what its form offers (R7)


UNREADABLE: Final = (Refused, EnvironmentRefused, RemoteFailed, LogDamaged)
"""Errors that leave unknown what would be approved: document, settings, forge or plans cannot be read."""


def propose_again(app: App, plan: Plan) -> Proposal:
    """What approving again would do, for the document or the adopted issue as it is now.

    If the document is gone, the plan's text is used. Raises as `propose` does, and ApprovalRefused for an issue that
    cannot be approved.
    """
    if plan.adoption:
        return propose_from(app, AdoptedSource(plan), "", again=True)
    return propose_from(app, DocumentSource(plan.spec_path, plan.loop_mode, plan.source), "", again=True)


def special_choices(app: App, reason: str, task_key: str | None) -> tuple[str, ...]:
    """The special answers (`domain/halt.py`) that would help with the question about this task now."""
    world = read_world(app)
    plan = world.plans.get(task_key or "")
    if plan is None:
        return ()
    if reason != "reapproval_required":
        state = world.states.get(task_key or "")
        return permission_choice(app, world, state) if state else ()
    if plan.adoption:
        return ()
    try:
        return tuple(ways_to_approve(propose_again(app, plan)))
    except UNREADABLE:  # the form reports what is wrong with the document
        return ()
