"""What people did to issues on the forge: noticed, told, and set back or asked about; never believed (R9, R16).

Closed, opened again after done, gone: the issue is blocked with its reason until a person decides. Labels that
follow the state are set back and told. An edited title or text, a deleted question of ours: told until they are put
right by `irontree checkup repair`. The text of an adopted issue is its approval: see `changed_outside`.

To be asked every minute, however many issues there are: what it finds `reconcile` looks at, records and tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from irontree.app import App
from irontree.domain.events import ExternalCloseDetected, TaskReapprovalRequired
from irontree.domain.external import CLOSED, DELETED, MERGE_CHECKS, ExternalEvent, IssuePresence, detect
from irontree.domain.ids import adopted_revision
from irontree.domain.machine import LEGAL
from irontree.domain.state import ADOPTED, MANAGED, Phase, TaskState, labels_for
from irontree.errors import RemoteFailed
from irontree.ports import EffectLedger, Issue
from irontree.services.consistency.audit import AuditFinding
from irontree.services.delivery.comments import comment_marker
from irontree.services.delivery.deliver import due_comments
from irontree.services.execution.publish import issue_body
from irontree.services.record import World, read_world, record
from irontree.services.work.preflight import block, changed_since_approval

EDITED: Final = "its title or text was edited on the forge"
UNASKED: Final = "our comment that asks something was deleted"
_PUT_RIGHT: Final = {
    EDITED: "what counts is its document: change that instead; `irontree checkup repair` puts the issue back",
    UNASKED: "`irontree checkup repair` posts it again",
}


def _change(state: TaskState, what: str, then: str) -> AuditFinding:
    """Something that was done outside to this issue, and what follows from it."""
    return AuditFinding(f"issue-{state.issue_number}", what, then)


@dataclass(frozen=True, slots=True)
class Outside:
    """What was done outside; *unseen* are issues that the forge does not show and no user decided about."""

    changes: tuple[AuditFinding, ...]
    unseen: tuple[int, ...] = ()


def look_outside(app: App, world: World, named: int | None = None) -> Outside:
    """Compare every issue with the forge; what is new. What stops the work is recorded in the log, once.

    The caller holds the driver lock, and delivers afterwards. An issue that the forge cannot show is left alone, and
    so are all where it shows none of several: that is another account or another place, not deletion. Of
    one that a person *named* it is believed even then.
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
    """What differs on the forge from what was approved of an adopted issue; None if nothing, or it is not adopted.

    The text of such an issue is what was approved, so its change asks for approval again (R7).
    """
    asked_already = "task_reapproval_required" not in LEGAL[state.phase] or not state.approvals
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
    """What stops the work."""
    seen: IssuePresence = issue.state if issue else "gone"
    if seen == "closed" and _is_merged(app, state):
        return
    ledger = app.deliveries.load(state.issue_number)
    found = _found(app, state, seen)
    if found and ledger.sequence >= state.sequence:  # else it may be we who have not opened or closed it yet
        _record(app, state, found)
        yield _change(state, found.reason, found.remedy)
    elif seen == "gone" and _waits_for_forge(state, ledger):
        app.deliveries.save(state.issue_number, replace(ledger, sequence=state.sequence, failures=()))
        yield _change(state, DELETED.reason, "it is done: nothing more is told there")
    elif state.done and seen == "closed" and not ledger.closed:
        app.deliveries.save(state.issue_number, replace(ledger, closed=True))


def _is_merged(app: App, state: TaskState) -> bool:
    """Whether our own request closed it, which is its acceptance or asked about: no close from outside (R15)."""
    if state.phase not in (Phase.PENDING, Phase.VERIFIED) and state.blocking_check not in MERGE_CHECKS:
        return False
    request = app.forge().read_pull_request(state.request) if state.request else None
    return request is not None and request.merged


def _is_missed(app: App, state: TaskState) -> bool:
    """Whether something follows from it, if the issue is gone."""
    return bool(_found(app, state, "gone")) or _waits_for_forge(state, app.deliveries.load(state.issue_number))


def _waits_for_forge(state: TaskState, ledger: EffectLedger) -> bool:
    """Whether all that is left to do for a finished issue is to tell it."""
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
    """What does not stop the work, but for an adopted issue's own text."""
    if changed := changed_outside(app, world, state):
        record(app, state, TaskReapprovalRequired, meta={"reason": changed})
        yield _change(state, changed, "approve it as it is now, or take the change back")
        return
    ledger = app.deliveries.load(state.issue_number)
    if ledger.sequence >= state.sequence and not ledger.failures:  # else it is ours to catch up
        yield from set_labels_back(app, state, issue)
        yield from _notice(app, world, state, issue, ledger)


def set_labels_back(app: App, state: TaskState, issue: Issue) -> Iterator[AuditFinding]:
    """Set the labels that follow the state to what it says; what was different (R16)."""
    wanted, present = labels_for(state), frozenset(issue.labels)
    lost, foreign = sorted(wanted - present), sorted((present & MANAGED) - wanted)
    if not lost and not foreign:
        return
    app.forge().set_labels(state.issue_number, add=lost, remove=foreign)
    what = [*(f"the label {name} was removed" for name in lost), *(f"the label {name} was set" for name in foreign)]
    yield _change(state, f"{' and '.join(what)} by hand", "labels follow the work: it was set back")


def _notice(app: App, world: World, state: TaskState, issue: Issue, ledger: EffectLedger) -> Iterator[AuditFinding]:
    """Tell what is new, and remember what stands."""
    is_ours = not state.adopted and state.task_key in world.plans
    text = adopted_revision(issue.title, issue.body) if is_ours else ""
    ours = not text or text == (ledger.text or adopted_revision(*own_words(app, world, state)))
    found = (*(() if ours else (EDITED,)), *((UNASKED,) if is_question_deleted(app, state) else ()))
    now = replace(ledger, text=text if ours else ledger.text, noticed=found)
    if now != ledger:
        app.deliveries.save(state.issue_number, now)
    for what in found:
        if what not in ledger.noticed:
            yield _change(state, what, _PUT_RIGHT[what])


def own_words(app: App, world: World, state: TaskState) -> tuple[str, str]:
    """Title and body of a published issue, rendered from the plan that its stream was approved with."""
    plan = app.plans.load(state.approved_revision) or world.plan(state)
    node = next((node for node in plan.nodes if node.task_key == state.task_key), None) or world.node(state)
    numbers = {key: known.issue_number for key, known in world.states.items()}
    return node.title, issue_body(app, plan, node, numbers)


def is_question_deleted(app: App, state: TaskState) -> bool:
    """Whether the comment that the newest event calls for was posted, and is not there any more.

    Earlier comments may be deleted. Those of an older tool have no marker of ours (`restored_from`).
    """
    stream = app.log.read(state.issue_number)
    newest = next((about for _, about in due_comments(stream) if about.event.sequence == state.sequence), None)
    if newest is None or newest.told.restored_from:
        return False
    marker = comment_marker(state.issue_number, newest, state.renewed_from)
    return not any(comment.ours and marker in comment.body for comment in app.forge().comments(state.issue_number))


# --- Issues that the forge shows otherwise than the log, found by a few listings


_FOLLOWS = MANAGED | {ADOPTED}


def drifted_issues(app: App) -> frozenset[int]:
    """Numbers of issues that were closed, opened again, deleted, edited or labelled by others than us.

    What is ours to tell the forge yet is no disagreement. Reads only, and takes no lock. Raises RemoteFailed.
    """
    before = _settled(app)
    open_now = _open_issues(app, [state for state, _ in before])
    stays = _settled(app)  # what we did meanwhile was done by none of the others
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
    """Whether the forge was told all of it; of what is done, whether it was seen closed too."""
    return ledger.sequence >= state.sequence and not ledger.failures and (ledger.closed or not state.done)


def _open_issues(app: App, states: list[TaskState]) -> Mapping[int, Issue]:
    """What is open under any label that these states call for."""
    labels = sorted({min(labels_for(state) & MANAGED) for state in states})
    return {issue.number: issue for label in labels for issue in app.forge().open_issues(label)}


def _differs(state: TaskState, ledger: EffectLedger, shown: Issue | None) -> bool:
    if state.done or shown is None:
        return state.done is (shown is not None)
    return frozenset(shown.labels) & _FOLLOWS != labels_for(state) or _is_edited(state, ledger, shown)


def _is_edited(state: TaskState, ledger: EffectLedger, shown: Issue) -> bool:
    text = adopted_revision(shown.title, shown.body)
    if state.adopted:
        return bool(state.approvals) and text != state.approved_revision
    return bool(ledger.text) and text != ledger.text and EDITED not in ledger.noticed
