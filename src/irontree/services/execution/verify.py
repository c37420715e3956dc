"""The repository's own checks at exactly the task's commit, the verdict, and publication (protocol, phase 5)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from irontree.app import App
from irontree.domain.checks import (
    CheckReport,
    Failed,
    Passed,
    Pending,
    ReviewCheck,
    complaint_of,
    coverage,
    excerpt,
    fingerprint,
    judge,
    left_to_people,
)
from irontree.domain.events import (
    CheckupPreflightBlocked,
    CheckupUnblocked,
    Reported,
    RunCompleted,
    VerifyFailedRetryable,
    VerifyFailedTerminal,
    VerifyPassed,
    VerifyPendingAcceptance,
    VerifyPublicationFailed,
    verified_at,
)
from irontree.domain.halt import AGENT_ASKS, SECRET_IN_COMMIT
from irontree.domain.plan import Plan
from irontree.domain.secrets import AddedSecret, added_secrets
from irontree.domain.state import Phase, TaskState
from irontree.domain.text import few
from irontree.domain.values import NOT_APPLICABLE
from irontree.domain.workflow.step import APPROVED_ITSELF, NO_VERIFY
from irontree.errors import EnvironmentRefused, NotEligible
from irontree.ports import Stream
from irontree.services.execution.checking import Subject, check
from irontree.services.execution.infrastructure import stop_at_infrastructure
from irontree.services.execution.publication import (
    Never,
    NotNow,
    Promotion,
    Proposed,
    Publication,
    PublishedCommit,
    RedAtMerge,
    promote,
    propose_commit,
    proposes,
    publish_commit,
)
from irontree.services.execution.review import NoVerdict, review, took_of
from irontree.services.execution.trial import stop_if_red_without_work
from irontree.services.loops.funds import calls_agent, require_funds
from irontree.services.record import read_world, record
from irontree.services.views.history import last_of
from irontree.services.views.report import NOT_PROMOTED, report_path, write_report
from irontree.services.work.preflight import ANSWER_IT, block, require_sound, stop_before_verify, try_again_at


def verify(app: App, issue_number: int, *, note: str = "") -> TaskState:
    """Check the issue's commit and record one of the outcomes A to E, or a block; returns the state after it.

    Results stored for the same commit and commands are reused: then only publication is left. The caller holds the
    driver lock. Raises NotEligible if nothing is committed or no budget is left, Cancelled when asked to stop.
    """
    world = read_world(app)
    state = world.state(issue_number)
    if state.phase is not Phase.COMMITTED:
        look = f"`irontree show issue-{issue_number}`"
        raise NotEligible(f"issue-{issue_number} is {state.phase}; there is nothing to verify", remedy=look)
    require_sound(state)
    plan, node = world.plan(state), world.node(state)
    if calls_agent(world, state):
        require_funds(app, world, state)
    stopped = stop_before_verify(app, world, state) or stop_at_infrastructure(app, state)
    if stopped:
        return stopped
    anchor = _anchor(app, plan, state)
    subject = Subject(state, plan, node, anchor, note or _note_before(app, state, anchor))
    try:
        report = check(app, subject, subject.anchor)
        if not plan.policy.reviewers_of(node):
            return _conclude(app, subject, report)
        reviewed = review(app, state, plan, node, report)
        if isinstance(reviewed, NoVerdict):
            return _not_reviewed(app, state, reviewed)
        return _conclude(app, replace(subject, reviewers=tuple(took_of(reviewed))), reviewed)
    except EnvironmentRefused as error:
        return block(app, state, "workspace-not-ready", error.message, remedy=error.remedy or "")


def _not_reviewed(app: App, state: TaskState, found: NoVerdict) -> TaskState:
    later = try_again_at(app, state, found.retry_at) if found.waits else None
    meta = {"reviewers": [dict(found.took)]} if found.took else {}
    return block(app, state, found.check, found.reason, remedy=found.remedy, not_before=later, more=meta)


def _conclude(app: App, subject: Subject, report: CheckReport) -> TaskState:
    state = subject.state
    covered = coverage(subject.node, subject.plan.policy, report.cited)
    step = subject.node.step
    verdict = judge(
        report, covered, attempt=state.attempt_count, max_retry=state.max_retry_count, of_step=step is not None
    )
    if isinstance(verdict, Passed) and state.adds_nothing and not step:
        verdict = Pending((_nothing_added(app, state),))
    if isinstance(verdict, Failed):
        if red := stop_if_red_without_work(app, state, subject.plan.policy, verdict.check):
            return red
        said = _said_instead(app, state)
        return _asked(app, subject, report, said) if said else failed(app, subject, report, retryable=verdict.retryable)
    if secrets := unknown_secrets(app, subject):
        return stop_before_publication(app, subject, secrets)
    if report.protected and subject.plan.policy.protected == "ask":
        others = verdict.reasons if isinstance(verdict, Pending) else ()
        verdict = Pending((report.protected_words, *others))
    match verdict:
        case Pending() | Passed() if proposes(subject.plan) and state.has_code:
            reasons = verdict.reasons if isinstance(verdict, Pending) else ()
            return _proposed(app, subject, report, (*reasons, *_red_before(app, state)))
        case Pending():
            return _pending(app, subject, report, (*verdict.reasons, *_red_before(app, state)))
        case Passed() if state.has_code:
            return _published(app, subject, report)
        case Passed():
            return _passed_without_code(app, subject, report)


def _said_instead(app: App, state: TaskState) -> str:
    """What the agent left instead of a change, where it ended by itself: repeating would leave the same."""
    completed = last_of(app.log.read(state.issue_number), "run_completed")
    unchanged = completed is not None and completed.told.unchanged and completed.told.agent.ended == "exited"
    return completed.told.summary if completed and unchanged else ""


def _asked(app: App, subject: Subject, report: CheckReport, said: str) -> TaskState:
    """Put what the agent said to a person, once its checks fail without a change; the attempt is not used up."""
    failed = report.failed
    words = f"the agent changed nothing and said: “{textwrap.shorten(said, NOTE_SHOWN, placeholder='…')}”"
    reason = f"{words}; {complaint_of(failed)}" if failed else words
    found = {"failed_check": failed.check.shown, "output": excerpt(failed)} if failed else {}
    more = subject.took | {"summary": said} | found
    return block(app, subject.state, AGENT_ASKS, reason, remedy=ANSWER_IT, more=more)


def unknown_secrets(app: App, subject: Subject) -> tuple[AddedSecret, ...]:
    """What the work adds that looks like a secret, unless somebody answered that exactly this may be published."""
    state = subject.state
    if not state.began_from or not state.has_code:
        return ()
    texts, values = app.repository.texts, app.repository.secrets(subject.plan.policy.workspace)
    found = tuple(secret for text in texts(state.began_from, subject.anchor) for secret in added_secrets(*text, values))
    return () if _places(found) == _allowed(app.log.read(state.issue_number)) else found


def _allowed(stream: Stream) -> tuple[str, ...]:
    """The places of what, by somebody's answer, may be published; of this attempt's commit alone."""
    asked = allowed = tuple[str, ...]()
    for found in stream.records:
        match found.event:
            case RunCompleted():
                asked = allowed = ()
            case CheckupPreflightBlocked(blocking_check=check) if check == SECRET_IN_COMMIT:
                asked = found.told.reasons
            case CheckupUnblocked(resolution=resolution) if resolution != "retry":
                allowed = asked
    return allowed


def _places(found: Sequence[AddedSecret]) -> tuple[str, ...]:
    """Where they are, in as many lines as an event holds."""
    more = len(found) - MOST_PLACES
    return (*(one.words for one in found[:MOST_PLACES]), *((f"and {more} more",) if more > 0 else ()))


def stop_before_publication(app: App, subject: Subject, found: tuple[AddedSecret, ...]) -> TaskState:
    """Record that a person has to look at what may be a secret, before anything is pushed; its value is nowhere."""
    places = _places(found)
    return block(
        app,
        subject.state,
        SECRET_IN_COMMIT,
        f"what was added looks like a secret: {few(places)}",
        remedy="send it back with a note, or let it be published if it is none",
        more=subject.took | {"reasons": list(places)},
    )


def _nothing_added(app: App, state: TaskState) -> str:
    """That the attempt changed nothing, with the note that it was to answer, if it stands on earlier work."""
    if not state.has_code:
        return "the agent changed nothing, and the checks pass without a change"
    judged = last_of(app.log.read(state.issue_number), "verify_failed_retryable", "verify_failed_terminal")
    if judged is None or not judged.told.note:
        return "the agent changed nothing, and the checks pass at the commit that was there"
    return f"the agent changed nothing in answer to “{textwrap.shorten(judged.told.note, NOTE_SHOWN, placeholder='…')}”"


MOST_PLACES: Final = 40
NOTE_SHOWN: Final = 300
"""Characters."""


def failed(
    app: App, subject: Subject, report: CheckReport, *, retryable: bool, meta: dict[str, Any] | None = None
) -> TaskState:
    """Record outcome B or C; *meta* adds a user's note (R14), or the base for the next attempt."""
    meta = (meta or {}) | ({"fingerprint": fingerprint(report.failed)} if report.failed else {})
    if retryable:
        meta = subject.took | meta
        return record(app, subject.state, VerifyFailedRetryable, verify_anchor_sha=report.anchor, meta=meta)
    step = subject.node.step
    if step and not meta.get("note") and (why := step.used_up(subject.state.total_attempts)):
        meta["reason"] = why
    return _reported(app, subject, VerifyFailedTerminal, report, meta=meta)


def _pending(
    app: App, subject: Subject, report: CheckReport, reasons: tuple[str, ...], request: Proposed | None = None
) -> TaskState:
    """Record outcome D; with an open *request*, its merge is the acceptance (R15)."""
    meta: dict[str, Any] = {"reasons": list(reasons)}
    if request:
        asked = f"merge the request: {request.url}"
        meta = {"reasons": [asked, *reasons], "request": request.number, "request_url": request.url}
    return _reported(app, subject, VerifyPendingAcceptance, report, meta=meta)


def _red_before(app: App, state: TaskState) -> tuple[str, ...]:
    """CI's failure at the proposed commit, if this attempt was made because of it and changed nothing."""
    judged = last_of(app.log.read(state.issue_number), "verify_failed_retryable", "verify_failed_terminal")
    if judged is None or not judged.told.failed_at or not state.adds_nothing:
        return ()
    return (f"{judged.told.failed_check} failed at the commit that is proposed, and the agent found nothing to change",)


def _proposed(app: App, subject: Subject, report: CheckReport, reasons: tuple[str, ...]) -> TaskState:
    """Propose the commit; merging the request accepts the work, including all that only a person can judge (R15)."""
    outcome = propose_commit(app, read_world(app), subject.state, subject.plan, subject.node, report)
    if isinstance(outcome, Proposed):
        return _pending(app, subject, report, reasons, outcome)
    return _unpublished(app, subject, report, outcome)


def _unpublished(app: App, subject: Subject, report: CheckReport, outcome: NotNow | RedAtMerge | Never) -> TaskState:
    if not isinstance(outcome, NotNow):
        return not_publishable(app, subject, outcome)
    meta = {"reason": outcome.reason, **subject.meta}
    return record(app, subject.state, VerifyPublicationFailed, verify_anchor_sha=report.anchor, meta=meta)


def _published(app: App, subject: Subject, report: CheckReport) -> TaskState:
    outcome = publish(app, subject, report, with_notes=True)
    if isinstance(outcome, PublishedCommit):
        return _passed(app, subject, outcome, _with_reviews_of(app, outcome.report, report))
    return _unpublished(app, subject, report, outcome)


def _with_reviews_of(app: App, published: CheckReport, reviewed: CheckReport) -> CheckReport:
    """The results at a merge, with the reviews of the change that was merged."""
    if published.anchor == reviewed.anchor:
        return published
    said = tuple(result for result in reviewed.results if isinstance(result.check, ReviewCheck))
    report = published.model_copy(update={"results": (*published.results, *said), "cited": reviewed.cited})
    app.results.save(report)
    return report


def _passed_without_code(app: App, subject: Subject, report: CheckReport) -> TaskState:
    """Record that a step passes as it is: others may have done its work already, or it was only to be checked."""
    values = {"code_ref": NOT_APPLICABLE, "code_publication_state": NOT_APPLICABLE}
    return _recorded(app, subject, report, {"promotion": NOT_PROMOTED}, **values)


def _recorded(app: App, subject: Subject, report: CheckReport, told: dict[str, Any], **values: Any) -> TaskState:
    """Record outcome A; of a step also that nothing checked it, and that its gate needed no person."""
    step = subject.node.step
    meta = {
        **told,
        **({"reasons": [NO_VERIFY]} if step and not step.checks and not report.results else {}),
        **({"gate": APPROVED_ITSELF} if step and step.gate == "human" else {}),
    }
    return _reported(app, subject, VerifyPassed, report, meta=meta, **values)


def _passed(app: App, subject: Subject, published: PublishedCommit, report: CheckReport) -> TaskState:
    promotion = published.promotion
    meta = {
        "promotion": promotion.why,
        **({"docs_commit": promotion.tip} if promotion.document else {}),
        **({"warnings": published.warnings} if published.warnings else {}),
    }
    values = {"code_ref": published.sha, "code_publication_state": "published", "promoted_doc": promotion.document}
    return _recorded(app, subject, report, meta, **values)


def publish(app: App, subject: Subject, report: CheckReport, *, with_notes: bool = False) -> Publication:
    """Publish the checked commit; merges are checked with the same commands.

    *with_notes* adds notes for the project's documents on top. An acceptance commits nothing (R14).
    """
    state, plan, node = subject.state, subject.plan, subject.node

    def on_top(checked: CheckReport) -> Promotion:
        return promote(app, state, plan, node, checked) if with_notes else Promotion(checked.anchor, NOT_PROMOTED)

    return publish_commit(app, plan, state, report, lambda sha: check(app, subject, sha), on_top)


def not_publishable(app: App, subject: Subject, outcome: RedAtMerge | Never, **by: Any) -> TaskState:
    """Record why the checked commit cannot be published as it is (R14); *by* is who accepted it, in an event's keys."""
    state, more = subject.state, subject.took | by
    if isinstance(outcome, Never):
        return block(app, state, outcome.check, outcome.reason, remedy=outcome.remedy, more=more)
    if outcome.target_alone_red:
        reason = f"the checks fail on {subject.plan.policy.publish.target_branch} without this change too"
        return block(app, state, "target-broken", reason, more=more)
    return failed(app, subject, outcome.report, retryable=state.may_retry, meta={**by, "base_sha": outcome.tip})


def _reported(
    app: App, subject: Subject, kind: type[Reported], report: CheckReport, *, meta: dict[str, Any], **values: Any
) -> TaskState:
    """Record an outcome that has a report, then write the report."""
    covered = coverage(subject.node, subject.plan.policy, report.cited)
    to_judge = tuple(human.criterion.text for human in left_to_people(covered))
    path = report_path(app, report, to_judge, subject.note)
    meta = {**meta, **subject.meta}
    values |= {"verify_anchor_sha": report.anchor, "report_path": path}
    state = record(app, subject.state, kind, meta=meta, **values)
    write_report(app, state, subject.plan, subject.node)
    return state


def _note_before(app: App, state: TaskState, anchor: str) -> str:
    """The note given when this commit was verified but not published: only publication is repeated (outcome E)."""
    failed_before = app.log.read(state.issue_number).records[-1]
    same = verified_at(failed_before.event) == anchor
    return failed_before.told.verifier_note if same else ""


def _anchor(app: App, plan: Plan, state: TaskState) -> str:
    """The task's commit or, if nothing changed, the commit that the attempt started from."""
    if state.commit and state.has_code:
        return state.commit
    return state.base_sha or app.repository.base(plan.policy.publish)
