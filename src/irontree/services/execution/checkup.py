"""Acceptance, aggregation, finalization and unblocking (protocol, phase 6; R13, R14)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from irontree.app import App
from irontree.domain.events import (
    CheckupAcceptPublicationFailed,
    CheckupAcceptRecorded,
    CheckupAggregateRecorded,
    CheckupDone,
    CheckupUnblocked,
    Resolution,
)
from irontree.domain.state import Phase, TaskState
from irontree.domain.text import shell_path
from irontree.domain.values import NOT_APPLICABLE
from irontree.errors import EnvironmentRefused, IllegalTransition, NotEligible
from irontree.services.execution.checking import Subject, check
from irontree.services.execution.publication import OVERTAKEN, Never, NotNow, PublishedCommit, RedAtMerge
from irontree.services.execution.verify import (
    failed,
    not_publishable,
    publish,
    stop_before_publication,
    unknown_secrets,
)
from irontree.services.record import World, read_world, record, snapshot
from irontree.services.views.history import results_at
from irontree.services.work.preflight import require_sound


@dataclass(frozen=True, slots=True)
class Decider:
    """The deciding user or timer, and the accompanying note."""

    by: str
    note: str = ""
    reviews: tuple[str, ...] = ()
    """The ids of the forge's reviews that made this decision."""
    allowed: tuple[str, ...] = ()
    """The rules for the agent that this answer added to the approved ones."""
    red_before: tuple[str, ...] = ()
    """The ways to fail without any work that this answer accepts."""

    def meta(self) -> dict[str, Any]:
        """The keys for the event's `meta:`."""
        return {
            "by": self.by,
            **({"note": self.note} if self.note else {}),
            **({"reviews": list(self.reviews)} if self.reviews else {}),
            **({"allowed": list(self.allowed)} if self.allowed else {}),
            **({"red_before": list(self.red_before)} if self.red_before else {}),
        }


def accept(app: App, issue_number: int, decider: Decider) -> TaskState:
    """Accept exactly the pending anchor: publish it and record who accepted. The caller holds the driver lock.

    Commits nothing. If it cannot be published now, the issue stays pending; a problem that only more work can solve (a
    conflict, checks that fail together with newly published work) is recorded as such (R14). Raises NotEligible unless
    the issue is pending.
    """
    world = read_world(app)
    state = _require(world, issue_number, Phase.PENDING, "nothing waits for acceptance")
    subject = _pending_subject(world, state)
    if subject.plan.imported:
        what = f"#{issue_number}" if subject.plan.adoption else subject.plan.spec_path
        raise NotEligible(
            f"the approval of issue-{issue_number} came with an archive, and does not count here",
            remedy=f"approve it here first: `irontree task {shell_path(what)}`",
        )
    if not state.has_code:
        return _accepted(app, state, NOT_APPLICABLE, decider.meta())
    try:
        return _publish_accepted(app, subject, decider)
    except EnvironmentRefused as error:
        return _still_pending(app, state, decider, error.message, error.remedy or "")


def _publish_accepted(app: App, subject: Subject, decider: Decider) -> TaskState:
    state, report = subject.state, check(app, subject, subject.anchor)
    if report.failed:
        return _still_pending(app, state, decider, f"{report.failed.check.complaint} at this commit now")
    if secrets := unknown_secrets(app, subject):  # it waits since an earlier version, which did not look
        return stop_before_publication(app, subject, secrets)
    outcome = publish(app, subject, report)
    accepted_by = replace(decider, note="").meta()  # a note with a failure would say that somebody sent it back
    match outcome:
        case PublishedCommit():
            warned = {"warnings": outcome.warnings} if outcome.warnings else {}
            return _accepted(app, state, outcome.sha, decider.meta() | {"accepted_sha": subject.anchor} | warned)
        case RedAtMerge(target_alone_red=True):
            branch = subject.plan.policy.publish.target_branch
            return _still_pending(app, state, decider, f"the checks fail on {branch} without this change too")
        case RedAtMerge():
            return not_publishable(app, subject, outcome, **accepted_by)
        case Never() if outcome.check in OVERTAKEN:
            return not_publishable(app, subject, outcome, **accepted_by)
        case Never():
            return _still_pending(app, state, decider, outcome.reason, outcome.remedy)
        case NotNow():
            return _still_pending(app, state, decider, outcome.reason)


def send_back(app: App, issue_number: int, decider: Decider) -> TaskState:
    """Record pending work as failed, with the user's note as context (R14). Raises NotEligible without either."""
    world = read_world(app)
    state = _require(world, issue_number, Phase.PENDING, "nothing waits for acceptance")
    if not decider.note:
        raise NotEligible(
            f"sending issue-{issue_number} back needs a note", remedy="say what the next attempt should change"
        )
    return fail_pending(app, world, state, decider.meta())


def fail_pending(app: App, world: World, state: TaskState, meta: dict[str, Any]) -> TaskState:
    """Record that a pending acceptance failed after all; *meta* says who decided this and why."""
    subject = _pending_subject(world, state)
    # Use the stored results: nothing is verified again only to be sent back.
    report = results_at(app, state.issue_number, subject.anchor) or check(app, subject, subject.anchor)
    return failed(app, subject, report, retryable=state.may_retry, meta=meta)


def aggregate(app: App, issue_number: int, decider: Decider | None = None) -> TaskState:
    """Complete a container by its children (B11, contract). Raises NotEligible unless all are done by evidence.

    *decider* is who found that they reach its goal, if somebody was asked.
    """
    world = read_world(app)
    state, children = require_parts_done(world, issue_number)
    meta = {"children": list(children)} | (decider.meta() if decider else {})
    return record(app, state, CheckupAggregateRecorded, meta=meta)


def require_parts_done(world: World, issue_number: int) -> tuple[TaskState, tuple[str, ...]]:
    """The container and the keys of its parts. Raises NotEligible unless all are done by evidence."""
    state = _require(world, issue_number, Phase.CONTAINER, "only a container that waits is aggregated")
    children = world.children.get(state.task_key, ())
    waiting = [key for key in children if not world.is_done(key)]
    if waiting or not children:
        why = f"{', '.join(waiting)} not done" if waiting else "it has no children"
        raise NotEligible(
            f"issue-{issue_number} cannot be aggregated: {why}",
            remedy="finish its children first" if waiting else "break it down in its document",
        )
    return state, children


def finalize(app: App, issue_number: int) -> TaskState:
    """Record that the issue is done by its evidence. Raises NotEligible, changing nothing, if there is none."""
    state = _require(read_world(app), issue_number, Phase.VERIFIED, "there is no completion evidence yet")
    return record(
        app,
        state,
        CheckupDone,
        completion_basis=state.completion_basis,
        code_publication_state=state.code_publication_state,
        code_ref=state.code_ref,
    )


def unblock(
    app: App, issue_number: int, resolution: Resolution, decider: Decider, *, extra_attempts: int = 0
) -> TaskState:
    """Clear a block or a terminal failure: resume, verify the same commit again, or retry (R13).

    The caller holds the driver lock. Raises NotEligible unless the issue is blocked or failed and *resolution* is
    possible there.
    """
    state = read_world(app).state(issue_number)
    require_sound(state)
    if state.phase not in (Phase.BLOCKED, Phase.TERMINAL):
        look = f"`irontree show issue-{issue_number}`"
        raise NotEligible(f"issue-{issue_number} is {state.phase}; there is nothing to unblock", remedy=look)
    try:
        return record(
            app,
            state,
            CheckupUnblocked,
            **_restored(state, resolution),
            max_retry_count=state.max_retry_count + extra_attempts,
            cleared_sequence=state.sequence,
            resolution=resolution,
            extra_attempts=extra_attempts,
            by=decider.by,
            reason=decider.note or None,
            meta=decider.meta(),
        )
    except IllegalTransition as error:
        raise NotEligible(error.message, remedy="choose another answer, or allow more attempts") from error


def _restored(state: TaskState, resolution: Resolution) -> dict[str, Any]:
    """The common keys of the state from here on."""
    code_ref = state.commit
    if resolution == "verify":
        return _work_keys("verify", code_ref)
    if resolution == "retry":
        # After a conflict the next attempt starts from the target's tip: it keeps no commit of its own.
        return _work_keys("run", None if state.blocking_check in OVERTAKEN else code_ref)
    back = state.before or state
    return snapshot(back) | {"approval_state": back.approval_state}


def _work_keys(stage: str, code_ref: str | None) -> dict[str, Any]:
    return {
        "current_stage": stage,
        "next_stage": "verify",
        "workflow_entry_state": "ready_to_start",
        "code_publication_state": "local_only",
        "code_ref": code_ref,
    }


def _accepted(app: App, state: TaskState, code_ref: str, meta: dict[str, Any]) -> TaskState:
    publication = NOT_APPLICABLE if code_ref == NOT_APPLICABLE else "published"
    return record(app, state, CheckupAcceptRecorded, code_ref=code_ref, code_publication_state=publication, meta=meta)


def _still_pending(app: App, state: TaskState, decider: Decider, reason: str, remedy: str = "") -> TaskState:
    way = f"{remedy.removesuffix(', then go on')}, then accept again"
    meta = {**decider.meta(), "reason": reason} | ({"remedy": way} if remedy else {})
    return record(app, state, CheckupAcceptPublicationFailed, meta=meta)


def _pending_subject(world: World, state: TaskState) -> Subject:
    """The pending event's anchor, as the user saw it. Raises NotEligible if it is not the newest commit (R14)."""
    if state.anchor is None or (state.has_code and state.commit != state.anchor):
        raise NotEligible(
            f"issue-{state.issue_number}: the pending commit is no longer the newest", remedy="verify it again first"
        )
    return Subject(state, world.plan(state), world.node(state), state.anchor)


def _require(world: World, issue_number: int, phase: Phase, otherwise: str) -> TaskState:
    state = world.state(issue_number)
    require_sound(state)
    look = f"`irontree show issue-{issue_number}`"
    if state.done:
        raise NotEligible(f"issue-{issue_number} is done already", remedy=look)
    if state.phase is not phase:
        raise NotEligible(f"issue-{issue_number} is {state.phase}: {otherwise}", remedy=look)
    return state
