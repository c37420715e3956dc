"""Decisions that only people decide whom the forge knows by name, and more than one where that was approved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from irontree.app import App
from irontree.domain.gates import APPROVES_RULES, GATE_OF, Gate
from irontree.domain.halt import Choice
from irontree.domain.state import TaskState
from irontree.domain.waiting import TIMER
from irontree.errors import AnswerRefused, ApprovalRefused
from irontree.services.questions import Question
from irontree.services.world import World, read_world

FORM: Final = "form"
"""The channel of Prefect's forms."""


def gate_at(world: World, question: Question, choice: Choice | None = None) -> Gate | None:
    """The gate of the plan in force (ruling R6); None where anybody who may answer decides, and for a loop's own.

    With *choice*, all that this answer has to pass; nothing stops one that lets nothing go on.
    """
    plan = world.plans.get(question.task_key or "")
    gates = plan.policy.gates if plan and question.issue_number is not None else None
    if gates is None or (choice and not choice.permits):
        return None
    return gates.of_choice(question.rule.reason, choice.name) if choice else gates.of(question.rule.reason)


def requesters(app: App, world: World, state: TaskState) -> frozenset[str]:
    """Who asked for the work: whoever wrote the issue, and whoever approved its plan, if that is a login.

    Raises RemoteFailed if the forge does not say.
    """
    issue, plan = app.forge().read_issue(state.issue_number), world.plans.get(state.task_key)
    names = (issue.author if issue else "", plan.approved_by if plan else "")
    return frozenset(name for name in names if name)


def require_gate(app: App, question: Question, choice: Choice, voters: tuple[str, ...]) -> None:
    """Raise AnswerRefused unless enough people say so; *voters* are accounts that the forge has vouched for.

    Time is no person: what only has to wait, an outage, goes on by itself.
    """
    world = read_world(app)
    gate = gate_at(world, question, choice)
    if gate is None or app.origin.channel == TIMER:
        return
    if not voters:
        raise AnswerRefused(
            f"the gate “{_name_of(question, choice)}” counts only comments on the issue: {gate.words} decide there, "
            "and this form or command does not know who you are",
            remedy=f"comment `{choice.usage()}` on issue #{question.issue_number}",
        )
    counted = counted_at(app, world, question, gate, voters)
    if len(counted) < gate.approvers:
        raise AnswerRefused(f"{len(counted)} of {gate.approvers} have said so: {', '.join(counted) or 'nobody'}")


def require_no_gate(app: App, keys: Iterable[str]) -> None:
    """Raise ApprovalRefused where a form would approve, outside its issue, what a gate of approvals guards.

    The form knows nobody by name. Tasks that are done or cancelled have nothing to pass any more.
    """
    if app.origin.channel != FORM:
        return
    world = read_world(app)
    left = (key for key in keys if key in world.plans and key not in world.cancelled and not world.is_done(key))
    for key in left:
        gates = world.plans[key].policy.gates
        if gates and gates.approval:
            raise ApprovalRefused(
                f"{key} has the gate “approval”: {gates.approval.words} decide, and this form "
                "does not know who you are",
                remedy=f"{_asked_there(world.states.get(key))}approve it with `irontree task` where .mino/ is",
            )


def _asked_there(state: TaskState | None) -> str:
    return f"answer in a comment on issue #{state.issue_number} once it asks, or " if state else ""


def _name_of(question: Question, choice: Choice) -> str:
    return "approval" if choice.name == APPROVES_RULES else GATE_OF[question.rule.reason]


def counted_at(app: App, world: World, question: Question, gate: Gate, voters: tuple[str, ...]) -> tuple[str, ...]:
    """Those of *voters* that count."""
    asked = requesters(app, world, world.state(question.issue_number or 0)) if gate.not_requester else ()
    return gate.counted(voters, asked)


def gate_words(app: App, world: World, question: Question) -> str:
    """Who decides, where, and who has said so already; empty without a gate."""
    gate = gate_at(world, question)
    if gate is None:
        return ""
    commands = ", ".join(
        f"`{choice.usage()}`" for choice in question.rule.choices if choice.permits and not choice.special
    )
    words = f"only comments on the issue count for {commands}: {gate.words} decide"
    cursor = app.deliveries.load(question.issue_number or 0)
    said = cursor.voters if cursor.voted_on == question.key else ()
    return f"{words}; {len(said)} of {gate.approvers} have: {', '.join(said)}" if said else words
