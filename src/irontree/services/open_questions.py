"""What an issue or a loop asks a person, with the commands that answer it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from irontree.app import App
from irontree.domain.budgets import EXAMPLES
from irontree.domain.state import Phase, TaskState
from irontree.errors import in_words
from irontree.services.gates import gate_words
from irontree.services.hints import OpenQuestion
from irontree.services.loops.loop import Loop, loop_of
from irontree.services.overview import title_of
from irontree.services.projections.history import request_url_of
from irontree.services.questions import question_about, question_of
from irontree.services.world import World


def asked_about(app: App, world: World, loops: Sequence[Loop], state: TaskState) -> OpenQuestion | None:
    """What this issue asks; None if nothing."""
    rule = world.halt_of(state)
    if rule is None:
        return None
    asks_approval = rule.reason == "reapproval_required"
    revision, unreadable = _revision_now(app, world, state) if asks_approval else (None, "")
    loop_id = loop_of(loops, state.task_key)
    gate = gate_words(app, world, question_about(state, rule, loop_id))
    return OpenQuestion(
        reason=rule.reason,
        number=state.issue_number,
        task_key=state.task_key,
        title=title_of(world, state.task_key),
        loop_id=loop_id,
        revision=revision,
        detail=state.problem or _blocking(state) or unreadable or _left_open(world, state),
        not_before=state.not_before,
        said=". ".join(filter(None, (_said(app, state), gate))),
        look=_look(world, state) if asks_approval else "",
        damaged=state.problem is not None,
        newer=state.newer,
        gated=bool(gate),
        special=() if asks_approval else _special(app, world, state),
    )


def _special(app: App, world: World, state: TaskState) -> tuple[str, ...]:
    from irontree.services.planning.leave import leave_choice  # noqa: PLC0415  (as below)

    return leave_choice(app, world, state)


def _blocking(state: TaskState) -> str | None:
    """The check, and when time lifts the block."""
    later = f", tried again after {state.not_before}" if state.not_before else ""
    return f"{state.blocking_check}{later}" if state.blocking_check else None


def asked_by(app: App, loop: Loop) -> OpenQuestion | None:
    """What the loop itself asks; of a budget, how much is spent, and in which unit it is answered. None if nothing."""
    asked = question_of(app, loop)
    if asked is None:
        return None
    if asked.budget is None:
        return OpenQuestion(reason=asked.rule.reason, loop_id=asked.loop_id)
    later = f", goes on by itself after {asked.not_before}" if asked.not_before else ""
    return OpenQuestion(
        reason=asked.rule.reason,
        loop_id=asked.loop_id,
        detail=f"{asked.detail}{later}",
        not_before=asked.not_before,
        amount=EXAMPLES[asked.budget.unit],
    )


def _said(app: App, state: TaskState) -> str:
    """What was recorded of a block: the name of a check alone says little to whoever has to put it right.

    Of work that is proposed, where its request is.
    """
    if state.phase not in (Phase.BLOCKED, Phase.PENDING) or state.problem:
        return ""
    stream = app.log.read(state.issue_number)
    if state.phase is Phase.PENDING:
        url = request_url_of(stream)
        return f"merge the request {url}: that accepts the work" if url else ""
    meta = next((record.meta for record in stream.records if record.event.sequence == state.sequence), {})
    return ". ".join(str(meta[key]).rstrip(".") for key in ("reason", "remedy") if meta.get(key))


def _left_open(world: World, state: TaskState) -> str:
    """What an adopted issue does not say; it is answered there, and nothing is approved before."""
    node = world.nodes.get(state.task_key)
    open_ones = node.open_questions if node and state.phase is Phase.ADOPTED else ()
    return f"its text leaves open: {'; '.join(open_ones)} (edit the issue, or add a comment)" if open_ones else ""


def _look(world: World, state: TaskState) -> str:
    plan = world.plans.get(state.task_key)
    if plan is None:
        return ""
    words = f"#{state.issue_number}" if plan.adoption else plan.spec_path
    return f"irontree task {shlex.quote(words)} --plan"


def _revision_now(app: App, world: World, state: TaskState) -> tuple[str | None, str]:
    """The revision that approving would approve; where that cannot be read, None and why."""
    plan = world.plans.get(state.task_key)
    if plan is None:
        return None, ""
    from irontree.services.planning.intake import UNREADABLE, name_to_approve  # noqa: PLC0415  (what few questions need)

    try:
        return name_to_approve(app, plan), ""
    except UNREADABLE as error:
        return None, in_words(error)
