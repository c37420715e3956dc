"""What happened to a pull request: its merge is the acceptance (R15); that of abandoned work is closed (R7, R14).

Work is abandoned if a changed text replaced its stream, if its document was approved without it, or if a user skipped
it in its loop. This is derived from the log, and done where it has not been done yet, like any effect (R9).

Users object with a review that requests changes, CI with a failed check: both are context for the next attempt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from irontree.app import App
from irontree.domain.checks import fingerprint_of
from irontree.domain.comments import is_marked
from irontree.domain.events import CheckupAcceptRecorded, IssueEvent, Record
from irontree.domain.external import (
    MERGE_CHECKS,
    MERGED_BY_AGENT,
    MERGED_ELSEWHERE,
    MERGED_MEANWHILE,
    MERGED_WITHOUT,
    REQUEST_CLOSED,
)
from irontree.domain.machine import held
from irontree.domain.state import Phase, TaskState
from irontree.errors import FORGE_FAILED, LogDamaged
from irontree.ports import CommitCheck, PullRequest, Remark, Review, Stream
from irontree.services.delivery.comments import comment_marker, post_once
from irontree.services.delivery.requests import ask_people, of_ci
from irontree.services.execution.approved_merges import accepted_by, merge_where_approved
from irontree.services.execution.checkup import Decider, fail_pending, send_back
from irontree.services.execution.publication import has_ci, has_merged
from irontree.services.loops.loop import read_loops, skipped
from irontree.services.record import World, merged_ref, read_world, record
from irontree.services.work.preflight import block

_RENEWED: Final = "its text was changed and approved anew, and the work begins again"
_CANCELLED: Final = "its document was approved without it"
_SKIPPED: Final = "its task was skipped"


def withdraw_requests(app: App, world: World, skipped: Collection[str]) -> None:
    """Close the open pull requests of abandoned work, with a comment that says why; *skipped* are task keys.

    What the forge cannot do now is done next time. The caller holds the driver lock.
    """
    for state in world.states.values():
        dropped = _CANCELLED if state.task_key in world.cancelled else _SKIPPED if state.task_key in skipped else ""
        given_up = _given_up(state, dropped)
        ledger = app.deliveries.load(state.issue_number)
        if state.problem or given_up == ledger.withdrawn:
            continue
        try:
            for number, why, marker in _requests(app, state, dropped):
                _withdraw(app, state, number, why, marker)
        except (*FORGE_FAILED, LogDamaged) as error:
            app.progress.note(f"an old request of #{state.issue_number} could not be closed: {error.message}")
        else:
            app.deliveries.save(state.issue_number, replace(ledger, withdrawn=given_up))


def _given_up(state: TaskState, dropped: str) -> str:
    """A name for what was abandoned of an issue: its earlier stream, and the request of a task that was *dropped*."""
    request = str(state.request) if state.request and dropped else ""
    return f"{state.renewed_from} {request}".strip()


def _requests(app: App, state: TaskState, dropped: str) -> Iterator[tuple[int, str, str]]:
    """The number and reason of each request to close, with the marker of our comment."""
    streams = [(app.log.read_archived(name), _RENEWED) for name in app.log.archives(state.issue_number)]
    if dropped and not state.done:
        streams.append((app.log.read(state.issue_number), dropped))
    for stream, why in streams:
        for number in dict.fromkeys(_named_in(stream)):
            yield number, why, comment_marker(state.issue_number, stream.records[-1], f"/request-{number}")


def _named_in(stream: Stream) -> Iterator[int]:
    waits = (record for record in stream.records if record.event.event == "verify_pending_acceptance")
    return (number for record in waits if (number := record.told.request) is not None)


def _withdraw(app: App, state: TaskState, number: int, why: str, marker: str) -> None:
    request = app.forge().read_pull_request(number)
    if request is None or request.state != "open":
        return
    said = f"Closed: issue #{state.issue_number} was given up as it was: {why}."
    post_once(app, number, f"{said}\n\n{marker}\n", marker)
    app.forge().edit_pull_request(number, state="closed")
    app.progress.note(f"request #{number} of #{state.issue_number} was closed: {why}")


# --- What happened to a pull request


VERIFIED_AGAIN: Final = frozenset({REQUEST_CLOSED, MERGED_MEANWHILE})
"""Blocking checks after which the same commit is verified again, and either proposed again or found merged."""
_SAYS_WHAT_TO_CHANGE: Final = ("changes_requested", "commented")
_HELD_UP: Final = {Phase.READY: "was sent back", Phase.TERMINAL: "had failed", Phase.BLOCKED: "was blocked"}
NO_REVIEW_TEXT: Final = "asks for changes, without saying which"


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a pull request cannot be merged as it is: a user's review, or a failed check of CI."""

    by: str
    note: str = ""
    reviews: tuple[str, ...] = ()
    check: CommitCheck | None = None


def settle_requests(app: App, world: World) -> tuple[TaskState, ...]:
    """Record what happened to every open pull request, and close those of abandoned work; returns the new states.

    What the forge cannot show now is checked next time. The caller holds the driver lock, and delivers.
    """
    settled = []
    skips = skipped(read_loops(app)[0], world) if any(s.request for s in world.states.values()) else frozenset[str]()
    for state in world.states.values():
        if state.task_key not in world.plans or state.task_key in world.cancelled:
            continue
        try:
            if state.is_proposed and (state.task_key not in skips or _is_merged(app, state)):
                settled.append(settle_request(app, world, state))
            elif _may_be_merged(app, state):
                settled.append(_ask_about_merge(app, state))
        except FORGE_FAILED as error:
            app.progress.note(f"the request of #{state.issue_number} could not be read: {error.message}")
    withdraw_requests(app, world, skips)
    return tuple(filter(None, settled))


def _is_merged(app: App, state: TaskState) -> bool:
    """Whether it was accepted after all; nothing else counts for skipped work."""
    request = app.forge().read_pull_request(state.request or 0)
    return request is not None and request.merged


def lift_draft(app: App, state: TaskState) -> None:
    """Mark the request of just verified work as ready to merge, unless there is CI, which may not have begun.

    If CI has checked the commit underneath, the next check of the request decides (R15). That was asked when it was
    opened, as a draft then. One that was ready before is a draft because its work was sent back.
    """
    if not state.is_proposed:
        return
    try:
        request = app.forge().read_pull_request(state.request or 0)
        if request and request.state == "open" and not (request.draft and _expects_ci(app, state, request)):
            _make_ready_where_due(app, state, request, of_ci(app.forge().commit_checks(request.head_sha)))
    except FORGE_FAILED as error:
        app.progress.note(f"the request of #{state.issue_number} is still a draft: {error.message}")


def _expects_ci(app: App, state: TaskState, draft: PullRequest) -> bool:
    was_ready = app.deliveries.load(state.issue_number).ready.split(" ")[0] == str(draft.number)
    return not was_ready or has_ci(app, state)


def _may_be_merged(app: App, state: TaskState) -> bool:
    """Whether its request should not be merged now, and no question about a merge has been asked yet.

    An issue that waits for verification finds the merge itself.
    """
    holds_still = state.phase in _HELD_UP
    worked_on = held(state).phase in (Phase.READY, Phase.COMMITTED, Phase.PENDING, Phase.TERMINAL)
    if state.request is None or state.problem or not (holds_still and worked_on):
        return False
    return _asked_about(app, state).isdisjoint(MERGE_CHECKS)


def _asked_about(app: App, state: TaskState) -> frozenset[str]:
    """What has been in the way since the work was last proposed, by its `blocking_check`."""
    records = reversed(app.log.read(state.issue_number).records)
    since = takewhile(lambda record: record.event.event != "verify_pending_acceptance", records)
    return frozenset(getattr(record.event, "blocking_check", None) or "" for record in since)


def _ask_about_merge(app: App, state: TaskState) -> TaskState | None:
    request = app.forge().read_pull_request(state.request or 0)
    if request is None or not request.merged:
        return None
    by = request.merged_by or "somebody"
    return block(
        app,
        state,
        MERGED_MEANWHILE,
        f"request #{request.number} was merged by {by}, though its work {_HELD_UP[state.phase]}",
        remedy="go on if the merge is your acceptance: the commit is verified again, and the merge found; if more "
        "work is needed, add it to its document and approve that",
    )


def settle_request(app: App, world: World, state: TaskState, accepted: Decider | None = None) -> TaskState | None:
    """Record a merge, a close or an objection; returns None if there is nothing new. Raises RemoteFailed.

    A merge by an agent's account accepts nothing, unless a person has *accepted* it (T3).
    """
    app.repository.base(world.plan(state).policy.publish)  # the forge of plain files sees a merge only as fetched
    request = app.forge().read_pull_request(state.request or 0)
    if request is None or (request.state == "closed" and not request.merged):
        return _closed(app, state, request, world.plan(state).policy.publish.target_branch)
    if request.merged:
        return _merged(app, world, state, request, accepted)
    checks = of_ci(app.forge().commit_checks(request.head_sha))
    records = app.log.read(state.issue_number).records
    unheard = [check for check in checks if (_named(check), request.head_sha) not in failures_heard(records)]
    objection = objection_to(request, app.forge().reviews(request.number), unheard, reviews_heard(records))
    if objection:
        return _sent_back(app, world, state, request, objection)
    _make_ready_where_due(app, state, request, checks)
    if merge_where_approved(app, state, world.plan(state), request, checks):
        return settle_request(app, world, state, accepted)
    return None


def _make_ready_where_due(app: App, state: TaskState, request: PullRequest, checks: Sequence[CommitCheck]) -> None:
    """Do so once per attempt, when CI has ended: whoever makes it a draft again has a reason. Then people are asked."""
    if any(check.state == "pending" for check in checks):
        return
    ledger = app.deliveries.load(state.issue_number)
    ready = f"{request.number} {state.run_sequence}"
    if ledger.ready != ready:
        if request.draft:
            app.forge().edit_pull_request(request.number, draft=False)
        app.deliveries.save(state.issue_number, replace(ledger, ready=ready))
    ledger = app.deliveries.load(state.issue_number)
    ask_people(app, state, read_world(app).plan(state).policy.publish, request, ledger)


def reviews_heard(records: Sequence[Record[IssueEvent]]) -> frozenset[str]:
    """The ids of reviews that sent work back; not every forge says which commit a review is about."""
    return frozenset(review for record in records for review in record.told.reviews)


def failures_heard(records: Sequence[Record[IssueEvent]]) -> frozenset[tuple[str, str]]:
    """CI's checks that sent work back, each with its commit: repeating them would give the same result."""
    return frozenset((told.failed_check, told.failed_at) for record in records if (told := record.told).failed_at)


def objection_to(
    request: PullRequest, reviews: Sequence[Review], checks: Sequence[CommitCheck], heard: Collection[str] = ()
) -> Objection | None:
    """What users with write access, or else CI, object to in the newest commit; None if nothing (R15, R20).

    Each user's newest review counts, once: *heard* are left out, and *checks* are those that have not objected yet. One
    that we handed in for a member of the team is no user's.
    """
    by_people = (review for review in reviews if review.trusted and not is_marked(review.body))
    about = [review for review in by_people if review.commit in (request.head_sha, "")]
    words = [review for review in about if review.id not in heard]
    newest = {review.author: review for review in words if review.verdict != "commented"}
    said_no = [review for review in newest.values() if review.verdict == "changes_requested"]
    if said_no:
        authors = dict.fromkeys(review.author for review in said_no)
        said = [review for review in words if review.author in authors and review.verdict in _SAYS_WHAT_TO_CHANGE]
        remarks = [line for review in said for line in _lines(review)]
        return Objection(", ".join(authors), "\n".join(remarks) or NO_REVIEW_TEXT, tuple(one.id for one in said))
    red = next((check for check in checks if check.state == "failure"), None)
    return Objection("CI", check=red) if red else None


def _lines(review: Review) -> list[str]:
    return [*filter(None, [review.body.strip()]), *(_line(remark) for remark in review.remarks if remark.trusted)]


def _line(remark: Remark) -> str:
    place = f"{remark.path}:{remark.line}: " if remark.path and remark.line else ""
    return f"- {place or (f'{remark.path}: ' if remark.path else '')}{remark.body.strip()}"


def _sent_back(app: App, world: World, state: TaskState, request: PullRequest, objection: Objection) -> TaskState:
    """Make the request a draft until the next attempt is verified, and record the objection."""
    with suppress(*FORGE_FAILED):
        app.forge().edit_pull_request(request.number, draft=True)
    if objection.check is None:
        return send_back(app, state.issue_number, Decider(objection.by, objection.note, objection.reviews))
    return _red(app, world, state, request, objection.check)


def _red(app: App, world: World, state: TaskState, request: PullRequest, red: CommitCheck) -> TaskState:
    output = red.excerpt or red.summary
    found = fingerprint_of((red.name, "CI"), output)
    where = request.head_sha
    meta = {"by": "CI", "failed_check": _named(red), "failed_at": where, "output": output, "fingerprint": found}
    return fail_pending(app, world, state, meta)


def _named(check: CommitCheck) -> str:
    return f"{check.name} (CI)"


def _merged(
    app: App, world: World, state: TaskState, request: PullRequest, accepted: Decider | None
) -> TaskState | None:
    """Record the merge as acceptance, if the target has its commit and that contains what was verified; else ask.

    Users answer for what they add to verified work; if they replaced it, they are asked about it.
    """
    plan, anchor = world.plan(state), state.anchor or ""
    where = plan.policy.publish
    sha, branch = request.merge_sha or request.head_sha, where.target_branch
    if not app.repository.contains(app.repository.base(where), sha):
        return block(
            app,
            state,
            MERGED_ELSEWHERE,
            f"request #{request.number} was merged, but not into {branch}: {sha[:12]} is not there",
            remedy=f"bring it to {branch}, then go on",
        )
    if not has_merged(app, plan, state, world.node(state), request, anchor):
        return block(
            app,
            state,
            MERGED_WITHOUT,
            f"request #{request.number} was merged without {anchor[:12]}, the commit that was verified: its branch "
            "was rewritten",
            remedy=f"go on to let the agent look at {branch} as it is now, and add what is missing",
        )
    by = accepted_by(app, plan, request, anchor)
    meta: dict[str, object] = {"by": by or "somebody on the forge", "channel": "merge"}
    if by != request.merged_by:
        meta["merged_by"] = request.merged_by
    if plan.policy.is_agents(by):
        if accepted is None:
            return _ask_who_accepts(app, state, request)
        meta = accepted.meta() | {"merged_by": request.merged_by}
    app.repository.keep(sha, merged_ref(state))
    if request.head_sha != anchor:
        meta["warnings"] = ["it was merged with commits that were not verified here"]
    return record(
        app,
        state,
        CheckupAcceptRecorded,
        code_ref=sha,
        code_publication_state="published",
        meta={**meta, "accepted_sha": state.anchor, "request": request.number},
    )


def _ask_who_accepts(app: App, state: TaskState, request: PullRequest) -> TaskState | None:
    """Ask once for each proposal: from then on it waits for a person's acceptance."""
    if MERGED_BY_AGENT in _asked_about(app, state):
        return None
    return block(
        app,
        state,
        MERGED_BY_AGENT,
        f"request #{request.number} was merged by {request.merged_by}, an agent's account: that accepts nothing",
        remedy="go on, then accept the work or send it back; to keep agents from merging, protect the branch",
    )


def _closed(app: App, state: TaskState, request: PullRequest | None, branch: str) -> TaskState:
    what = "is closed" if request else "is gone"
    return block(
        app,
        state,
        REQUEST_CLOSED,
        f"request #{state.request} {what}, and {branch} lacks its work",
        remedy="go on (`/continue` in a comment) to have it proposed again; to give the task up, take it out of its "
        "document",
    )
