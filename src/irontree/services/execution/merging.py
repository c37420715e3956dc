"""What became of a request to merge: its merge is the acceptance, by whoever merged it (ruling R15).

People say no by a review that asks for changes, CI by a check that fails: both are the context of the next attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from irontree.app import App
from irontree.domain.events import CheckupAcceptRecorded
from irontree.domain.state import Phase, TaskState
from irontree.errors import EnvironmentRefused, RemoteFailed
from irontree.ports import CommitCheck, PullRequest, Remark, Review
from irontree.services.execution.checkup import Decider, send_back
from irontree.services.execution.preflight import block
from irontree.services.execution.publication import MERGED_WITHOUT
from irontree.services.execution.record import record
from irontree.services.execution.refs import merged_ref
from irontree.services.execution.requests import STATUS_NAME, has_merged
from irontree.services.execution.verify import Subject, check, failed
from irontree.services.world import World, read_world

REQUEST_CLOSED: Final = "request-closed"
NO_REVIEW_TEXT: Final = "asks for changes, without saying which"


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a request cannot be merged as it is: a person's review, or a check of CI that failed."""

    by: str
    note: str = ""
    check: CommitCheck | None = None


def settle_requests(app: App) -> None:
    """Look at every open request, and record what became of it. The caller holds the driver lock, and delivers.

    What the forge cannot show now is looked at the next time.
    """
    for state in read_world(app).states.values():
        if not is_proposed(state):
            continue
        try:
            settle_request(app, state)
        except (RemoteFailed, EnvironmentRefused) as error:
            app.progress.note(f"the request of #{state.issue_number} could not be looked at: {error.message}")


def is_proposed(state: TaskState) -> bool:
    """Whether it waits for the merge of its request."""
    return state.phase is Phase.PENDING and state.request is not None and state.problem is None


def settle_request(app: App, state: TaskState) -> TaskState | None:
    """Record a merge, a close or an objection; None if there is nothing new. Raises RemoteFailed."""
    world = read_world(app)
    app.repository.base(world.plan(state).policy.publish)  # the forge of plain files sees a merge only as fetched
    request = app.forge().read_pull_request(state.request or 0)
    if request is None or (request.state == "closed" and not request.merged):
        return _closed(app, state, request)
    if request.merged:
        return _merged(app, world, state, request)
    checks = _of_ci(app.forge().commit_checks(request.head_sha))
    objection = objection_to(request, app.forge().reviews(request.number), checks)
    if objection:
        return _sent_back(app, state, request, objection)
    if request.draft and not any(check.state == "pending" for check in checks):
        app.forge().edit_pull_request(request.number, draft=False)
    return None


def objection_to(request: PullRequest, reviews: Sequence[Review], checks: Sequence[CommitCheck]) -> Objection | None:
    """The newest word of each person with write access about the newest commit, then what CI says of it (R15, R20)."""
    words = [review for review in reviews if review.trusted and review.commit in (request.head_sha, "")]
    newest = {review.author: review for review in words if review.verdict != "commented"}
    said_no = [review for review in newest.values() if review.verdict == "changes_requested"]
    if said_no:
        authors = dict.fromkeys(review.author for review in said_no)
        remarks = [line for review in words if review.author in authors for line in _lines(review)]
        return Objection(", ".join(authors), "\n".join(remarks) or NO_REVIEW_TEXT)
    red = next((check for check in checks if check.state == "failure"), None)
    return Objection("CI", check=red) if red else None


def _of_ci(checks: Sequence[CommitCheck]) -> tuple[CommitCheck, ...]:
    return tuple(check for check in checks if check.name != STATUS_NAME)


def _lines(review: Review) -> list[str]:
    return [*filter(None, [review.body.strip()]), *(_line(remark) for remark in review.remarks if remark.trusted)]


def _line(remark: Remark) -> str:
    place = f"{remark.path}:{remark.line}: " if remark.path and remark.line else ""
    return f"- {place or (f'{remark.path}: ' if remark.path else '')}{remark.body.strip()}"


def _sent_back(app: App, state: TaskState, request: PullRequest, objection: Objection) -> TaskState:
    """The request is a draft again until the next attempt is verified."""
    with suppress(RemoteFailed):
        app.forge().edit_pull_request(request.number, draft=True)
    if objection.check is None:
        return send_back(app, state.issue_number, Decider(objection.by, objection.note))
    return _red(app, state, objection.check)


def _red(app: App, state: TaskState, red: CommitCheck) -> TaskState:
    world = read_world(app)
    subject = _subject(world, state)
    report = app.results.load(state.issue_number, subject.anchor) or check(app, subject, subject.anchor)
    meta = {"by": "CI", "failed_check": f"{red.name} (CI)", "output": red.excerpt or red.summary}
    return failed(app, subject, report, retryable=state.attempt_count <= state.max_retry_count, meta=meta)


def _merged(app: App, world: World, state: TaskState, request: PullRequest) -> TaskState:
    """The merge is what everybody has: that commit is the evidence, if the target has it, and it has what was verified.

    What people add to verified work is theirs to answer for; what replaces it is asked about.
    """
    plan, anchor = world.plan(state), state.anchor or ""
    where = plan.policy.publish
    sha, branch = request.merge_sha or request.head_sha, where.target_branch
    if not app.repository.contains(app.repository.base(where), sha):
        return block(
            app,
            state,
            "merged-elsewhere",
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
    app.repository.keep(sha, merged_ref(state))
    meta: dict[str, object] = {"by": request.merged_by or "somebody on the forge", "channel": "merge"}
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


def _closed(app: App, state: TaskState, request: PullRequest | None) -> TaskState:
    what = "was closed without being merged" if request else "is gone"
    return block(
        app,
        state,
        REQUEST_CLOSED,
        f"request #{state.request} {what}",
        remedy="if its work goes on, say so: it is proposed again; else take the task out of its document",
    )


def _subject(world: World, state: TaskState) -> Subject:
    return Subject(state, world.plan(state), world.node(state), state.anchor or "")
