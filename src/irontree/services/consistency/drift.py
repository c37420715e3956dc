"""Changes that users made to issues on the forge: reported, then reset or asked about; never believed (R9, R16).

An issue that was closed, reopened after it was done, or deleted is blocked until a user decides. Labels that follow the
state are reset and reported. An edited title or text, or a deleted question of ours, is reported until `irontree
checkup repair` restores it. The text of an adopted issue is its approval: see `changed_outside`.

`drifted_issues` is cheap enough to run every minute; `reconcile` examines, records and reports what it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from irontree.app import App
from irontree.domain.events import ExternalCloseDetected, TaskReapprovalRequired
from irontree.domain.external import CLOSED, DELETED, MERGE_CHECKS, ExternalEvent, IssuePresence, detect
from irontree.domain.ids import adopted_digest
from irontree.domain.issues import Issue
from irontree.domain.machine import LEGAL
from irontree.domain.state import ADOPTED, MANAGED, Phase, TaskState, labels_for
from irontree.errors import RemoteFailed
from irontree.ports import EffectLedger
from irontree.services.consistency.audit import AuditFinding
from irontree.services.delivery.comments import comment_marker
from irontree.services.delivery.deliver import due_comments
from irontree.services.delivery.issue_text import is_own_text, own_words, put_current, text_digest
from irontree.services.record import World, read_world, record
from irontree.services.work.preflight import block, changed_since_approval

EDITED: Final = "its title or text was edited on the forge"
UNASKED: Final = "our comment that asks something was deleted"
_PUT_RIGHT: Final = {
    EDITED: "its document is authoritative: change that instead; `irontree checkup repair` puts the issue back",
    UNASKED: "`irontree checkup repair` posts it again",
}


def _change(state: TaskState, what: str, then: str) -> AuditFinding:
    """A change made to this issue on the forge, and what follows from it."""
    return AuditFinding(f"issue-{state.issue_number}", what, then)


@dataclass(frozen=True, slots=True)
class Outside:
    """Changes made on the forge; *unseen* are issues that it does not show and that no user decided about."""

    changes: tuple[AuditFinding, ...]
    unseen: tuple[int, ...] = ()


def look_outside(app: App, world: World, named: int | None = None) -> Outside:
    """Compare every issue with the forge; returns new changes. Those that stop the work are recorded in the log, once.

    The caller holds the driver lock and delivers afterwards. An issue that cannot be read is left alone. So are all if
    the forge shows none of several, which means another account or place, not deletion; only for the issue that a user
    *named* is that believed.
    """
    wanted = [state for state in world.states.values() if state.task_key not in world.cancelled]
    looked = [(state, _read(app, state)) for state in wanted if state.problem is None]
    read = [(state, seen) for state, seen in looked if not isinstance(seen, RemoteFailed)]
    believed, unseen = read, tuple[int, ...]()
    if len(read) > 1 and not any(issue for _, issue in read):
        believed = [(state, issue) for state, issue in read if state.issue_number == named]
        unseen = tuple(s.issue_number for s, _ in read if s.issue_number != named and _is_missed(app, s))
    changes = tuple(change for state, issue in believed for change in _compare(app, world, state, issue))
    return Outside(changes, unseen)


def _read(app: App, state: TaskState) -> Issue | RemoteFailed | None:
    try:
        return app.forge().read_issue(state.issue_number)
    except RemoteFailed as error:
        app.progress.note(f"#{state.issue_number} could not be read: {error.message}")
        return error


def changed_outside(app: App, world: World, state: TaskState) -> str | None:
    """What differs on the forge from the approved text of an issue that was there before; None of all other issues.

    That text is what was approved, so a change requires a new approval (R7).
    """
    asked_already = "task_reapproval_required" not in LEGAL[state.phase] or not _has_approved_text(state)
    if not state.adopted or state.done or asked_already or state.task_key not in world.plans:
        return None
    return changed_since_approval(app, world, state)


def _compare(app: App, world: World, state: TaskState, issue: Issue | None) -> Iterator[AuditFinding]:
    if state.phase is Phase.RUNNING:
        return
    try:
        found = tuple(_contradictions(app, state, issue))
        yield from found
        if issue is not None and not found and not state.done:
            yield from _edits(app, world, state, issue)
    except RemoteFailed as error:
        app.progress.note(f"#{state.issue_number} could not be compared: {error.message}")


def _contradictions(app: App, state: TaskState, issue: Issue | None) -> Iterator[AuditFinding]:
    """Changes that stop the work."""
    seen: IssuePresence = issue.state if issue else "gone"
    if seen == "closed" and _is_merged(app, state):
        return
    ledger = app.deliveries.load(state.issue_number)
    found = _found(app, state, seen)
    if found and ledger.sequence >= state.sequence:  # else we may not have opened or closed it yet
        _record(app, state, found)
        yield _change(state, found.reason, found.remedy)
    elif seen == "gone" and _waits_for_forge(state, ledger):
        app.deliveries.save(state.issue_number, replace(ledger, sequence=state.sequence, failures=()))
        yield _change(state, DELETED.reason, "it is done: nothing more is posted there")
    elif state.done and seen == "closed" and not ledger.closed:
        app.deliveries.save(state.issue_number, replace(ledger, closed=True))


def _is_merged(app: App, state: TaskState) -> bool:
    """Whether our own pull request closed it: then it is no close from outside, but accepted or asked about (R15)."""
    if state.phase not in (Phase.PENDING, Phase.VERIFIED) and state.blocking_check not in MERGE_CHECKS:
        return False
    request = app.forge().read_pull_request(state.request) if state.request else None
    return request is not None and request.merged


def _is_missed(app: App, state: TaskState) -> bool:
    """Whether its deletion would have a consequence."""
    return bool(_found(app, state, "gone")) or _waits_for_forge(state, app.deliveries.load(state.issue_number))


def _waits_for_forge(state: TaskState, ledger: EffectLedger) -> bool:
    """Whether a finished issue only has effects on the forge left."""
    return state.done and (bool(ledger.failures) or ledger.sequence < state.sequence)


def _found(app: App, state: TaskState, seen: IssuePresence) -> ExternalEvent | None:
    """What contradicts the log and is not recorded yet."""
    was_closed = app.deliveries.load(state.issue_number).closed
    return detect(state, seen, was_closed=was_closed, records=app.log.read(state.issue_number).records)


def _record(app: App, state: TaskState, found: ExternalEvent) -> None:
    if found is CLOSED:
        record(app, state, ExternalCloseDetected, meta={"reason": found.reason, "remedy": found.remedy})
    else:
        block(app, state, found.check, found.reason, remedy=found.remedy)


def _edits(app: App, world: World, state: TaskState, issue: Issue) -> Iterator[AuditFinding]:
    """Changes that do not stop the work, except to the text of an adopted issue."""
    if changed := changed_outside(app, world, state):
        record(app, state, TaskReapprovalRequired, meta={"reason": changed})
        yield _change(state, changed, "approve it as it is now, or take the change back")
        return
    ledger = app.deliveries.load(state.issue_number)
    if ledger.sequence >= state.sequence and not ledger.failures:  # else our own effects are still due
        yield from set_labels_back(app, state, issue)
        yield from _notice(app, world, state, issue, ledger)


def set_labels_back(app: App, state: TaskState, issue: Issue) -> Iterator[AuditFinding]:
    """Reset the labels that follow the state; yields what was different (R16)."""
    wanted, present = labels_for(state), frozenset(issue.labels)
    lost, foreign = sorted(wanted - present), sorted((present & MANAGED) - wanted)
    if not lost and not foreign:
        return
    app.forge().set_labels(state.issue_number, add=lost, remove=foreign)
    what = [*(f"the label {name} was removed" for name in lost), *(f"the label {name} was set" for name in foreign)]
    yield _change(state, f"{' and '.join(what)} by hand", "labels follow the work: it was set back")


def _notice(app: App, world: World, state: TaskState, issue: Issue, ledger: EffectLedger) -> Iterator[AuditFinding]:
    """Report new changes, and store those that remain."""
    is_ours = not state.adopted and state.task_key in world.plans
    text = text_digest(issue.title, issue.body) if is_ours else ""
    ours = not text or _is_as_written(app, world, state, issue, ledger)
    found = (*(() if ours else (EDITED,)), *((UNASKED,) if is_question_deleted(app, state) else ()))
    now = replace(ledger, text=text if ours else ledger.text, noticed=found)
    if now != ledger:
        app.deliveries.save(state.issue_number, now)
    for what in found:
        if what not in ledger.noticed:
            yield _change(state, what, _PUT_RIGHT[what])


def _is_as_written(app: App, world: World, state: TaskState, issue: Issue, ledger: EffectLedger) -> bool:
    """Whether title and text are ours; what stands between our markers is put right without a word."""
    title, body = own_words(app, world, state)
    if app.preferences().keeps_current:
        put_current(app, issue.number, issue.body, body)
    if not ledger.text:
        return is_own_text(issue, title, body)
    return text_digest(issue.title, issue.body).startswith(ledger.text)  # earlier versions kept 8 digits of it


def is_question_deleted(app: App, state: TaskState) -> bool:
    """Whether the comment for the newest event was posted and is gone.

    Earlier comments may be deleted. Those of an older tool have no marker of ours (`restored_from`).
    """
    stream = app.log.read(state.issue_number)
    newest = next((about for _, about in due_comments(stream) if about.event.sequence == state.sequence), None)
    if newest is None or newest.told.restored_from:
        return False
    marker = comment_marker(state.issue_number, newest, state.renewed_from)
    return not any(comment.ours and marker in comment.body for comment in app.forge().comments(state.issue_number))


# --- Issues that differ from the log on the forge, found with a few listings


_FOLLOWS = MANAGED | {ADOPTED}


def drifted_issues(app: App) -> frozenset[int]:
    """Numbers of issues that others closed, reopened, deleted, edited or labelled.

    Effects of ours that are still due are no difference. Only reads, and takes no lock. Raises RemoteFailed.
    """
    before = _settled(app)
    open_now = _open_issues(app, [state for state, _ in before])
    stays = _settled(app)  # our own changes in the meantime do not count
    return frozenset(
        state.issue_number
        for state, ledger in before
        if (state, ledger) in stays and _differs(state, ledger, open_now.get(state.issue_number))
    )


def _settled(app: App) -> list[tuple[TaskState, EffectLedger]]:
    return [(state, ledger) for state, ledger in _ledgers(app, read_world(app)) if _is_told(state, ledger)]


def _ledgers(app: App, world: World) -> Iterator[tuple[TaskState, EffectLedger]]:
    for state in world.states.values():
        if state.problem is None and state.task_key not in world.cancelled and state.phase is not Phase.RUNNING:
            yield state, app.deliveries.load(state.issue_number)


def _is_told(state: TaskState, ledger: EffectLedger) -> bool:
    """Whether all effects were delivered; for a finished issue, also whether it was seen closed."""
    return ledger.sequence >= state.sequence and not ledger.failures and (ledger.closed or not state.done)


def _open_issues(app: App, states: list[TaskState]) -> Mapping[int, Issue]:
    """The open issues with any of the labels that these states require."""
    labels = sorted({min(labels_for(state) & MANAGED) for state in states})
    return {issue.number: issue for label in labels for issue in app.forge().open_issues(label)}


def _differs(state: TaskState, ledger: EffectLedger, shown: Issue | None) -> bool:
    if state.done or shown is None:
        return state.done is (shown is not None)
    return frozenset(shown.labels) & _FOLLOWS != labels_for(state) or _is_edited(state, ledger, shown)


def _is_edited(state: TaskState, ledger: EffectLedger, shown: Issue) -> bool:
    if state.adopted:
        approved = state.issue_digest or state.approved_digest or state.approved_revision
        return _has_approved_text(state) and not adopted_digest(shown.title, shown.body).startswith(approved)
    is_ours = text_digest(shown.title, shown.body).startswith(ledger.text)
    return bool(ledger.text) and not is_ours and EDITED not in ledger.noticed


def _has_approved_text(state: TaskState) -> bool:
    """Whether the text of an issue that was there before is approved: an adopted one may still wait for that."""
    return bool(state.approvals or state.issue_digest)
