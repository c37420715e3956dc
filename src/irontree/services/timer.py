"""A block that time alone lifts is lifted for who takes single steps, too; a flow's run does it by itself."""

from __future__ import annotations

import math
from dataclasses import replace

from irontree.app import App
from irontree.domain.halt import RULE
from irontree.domain.state import TaskState
from irontree.domain.waiting import TIMER, time_left
from irontree.errors import Cancelled, NotEligible
from irontree.services.answers import Answer, answer_issue
from irontree.services.questions import question_about
from irontree.services.world import read_world


def let_time_pass(app: App, state: TaskState, seconds: float) -> TaskState:
    """The issue once the time it waits for has come, which may be *seconds* away; as it is if it waits for none.

    Raises NotEligible if that is longer, saying until when and what to do; Cancelled when asked to stop meanwhile.
    """
    left = time_left(state.not_before, app.clock.now()) if state.problem is None else None
    if left is None:
        return state
    name = f"issue-{state.issue_number}"
    if left.total_seconds() > seconds:
        raise NotEligible(
            f"{name} waits until {state.not_before} ({state.blocking_check})",
            remedy=f"the same with `--wait {math.ceil(left.total_seconds())}` waits for that, and "
            f"`irontree checkup unblock {name}` goes on now",
        )
    if left:
        app.progress.note(f"{name} waits until {state.not_before} ({state.blocking_check})")
        if app.cancel.wait(left.total_seconds()):
            raise Cancelled(f"{name} still waits until {state.not_before}")
    return _lifted(app, state)


def _lifted(app: App, waited: TaskState) -> TaskState:
    """The timer's answer, unless a person was faster."""
    with app.driver.hold(f"issue-{waited.issue_number}, timer"):
        state = read_world(app).state(waited.issue_number)
        if state.sequence != waited.sequence:
            return state
        key = question_about(state, RULE["blocked"]).key
        by_timer = replace(app, origin=replace(app.origin, actor=TIMER, channel=TIMER))
        return answer_issue(by_timer, state.issue_number, Answer("go-on", by=TIMER, question=key))
