"""Publishing a verified commit: pushed to its target, or proposed as a pull request (R11)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final, TypeVar

from irontree.app import App
from irontree.domain.checks import CheckReport, CheckResult, coverage
from irontree.domain.comments import decide_promotion, document_name, short_title
from irontree.domain.external import MERGED_WITHOUT
from irontree.domain.plan import Plan, PlanNode, PublishPolicy, Shell
from irontree.domain.state import TaskState
from irontree.errors import (
    FORGE_FAILED,
    Cancelled,
    EnvironmentRefused,
    NoSuchBranch,
    PublicationRefused,
    RemoteFailed,
    RemoteUnavailable,
)
from irontree.ports import CommitRefused, Committed, Document, Moved, Published, PullRequest, Rewritten
from irontree.services.delivery.requests import STATUS_NAME, of_ci
from irontree.services.record import (
    World,
    closing_policy,
    docs_ref,
    docs_trailer,
    merge_message,
    merge_ref,
    read_world,
    request_branch,
    summary,
)
from irontree.services.views.report import changed_files
from irontree.services.work.preflight import BRANCH_APPEARED, foreign_branch


@dataclass(frozen=True, slots=True)
class Promotion:
    """What happened to the notes, and why. *tip* is what is published: the checked commit, or that of its notes."""

    tip: str
    why: str
    document: str | None = None
    warning: str | None = None


def promote(app: App, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport) -> Promotion:
    """Commit notes on top of the commit that *report* is about, if any are worth it. Publishes nothing.

    A commit made before a crash is found by its ref and reused; one without a ref was never published.
    """
    setup, changed = plan.policy.workspace.setup, changed_files(app, state)
    decision = decide_promotion(plan.policy.promotion.mode, node, setup, changed)
    if not decision.yes:
        return Promotion(report.anchor, decision.why)
    known = app.repository.read_ref(docs_ref(state, report.anchor))
    if known:
        return Promotion(known, decision.why, app.repository.changed_files(report.anchor, known)[0])
    try:
        return _committed(app, state, plan, node, report, decision.why)
    except EnvironmentRefused as error:
        return _without(report, decision.why, error.message)


def _committed(app: App, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport, why: str) -> Promotion:
    document = _document(app, state, plan, node, report)
    workspace = app.repository.workspace("run", plan.policy.workspace)
    title = summary(short_title(node.title))
    message = f"docs(issue-{state.issue_number}): {title} integration notes\n\n{docs_trailer(state)}\n"
    match workspace.commit_document(document, message, base=report.anchor):
        case Committed() as made:
            app.repository.keep(made.sha, docs_ref(state, report.anchor), source=workspace)
            return Promotion(made.sha, why, made.files[0])
        case CommitRefused() as refused:
            return _without(report, why, f"git refused the commit: {refused.output.strip()}")
        case None:
            return _without(report, why, f"git sees no change in {document.path}; is the folder ignored?")


def _document(app: App, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport) -> Document:
    """The new document, or the existing one with an update at its end; it is never overwritten.

    Text by authors without write access stays on the issue (R20).
    """
    path = f"{plan.policy.promotion.docs_path}/{document_name(node.title, state.issue_number)}"
    there = app.repository.document_at(report.anchor, path)
    text = app.renderer.render(
        "reports/notes.md",
        number=state.issue_number,
        title=node.title,
        date=app.stamp()[:10],
        anchor=report.anchor,
        update=there is not None,
        environment=report.versions,
        setup=plan.policy.workspace.setup,
        checks=tuple(result.check.run for result in report.results if isinstance(result.check, Shell)),
        criteria=() if node.outsider else tuple(criterion.text for criterion in node.criteria),
        files=changed_files(app, state),
    )
    return Document(there.path, f"{there.text.rstrip()}\n\n{text}") if there else Document(path, text)


def _without(report: CheckReport, why: str, problem: str) -> Promotion:
    return Promotion(report.anchor, why, warning=f"promotion_failed: {problem}")


T = TypeVar("T")

ROUNDS: Final = 3
BRANCH_MOVED: Final = "request-branch-moved"
OVERTAKEN: Final = frozenset({"merge-conflict", "target-rewritten", BRANCH_MOVED, MERGED_WITHOUT, BRANCH_APPEARED})
"""Blocking checks after which the work is done again, on top of the target as it is then."""
BACKOFF_SECONDS: Final = (1.0, 3.0)


@dataclass(frozen=True, slots=True)
class PublishedCommit:
    """The target has `sha`, the checked commit, and *promotion* on top of it; `report` holds the results."""

    sha: str
    report: CheckReport
    promotion: Promotion
    warning: str | None = None

    @property
    def warnings(self) -> list[str]:
        """The warnings of the publication and of the notes."""
        return [warning for warning in (self.warning, self.promotion.warning) if warning]


@dataclass(frozen=True, slots=True)
class RedAtMerge:
    """The checks fail on the merge with the target's *tip*; `target_alone_red` if they fail without our change too."""

    report: CheckReport
    tip: str
    target_alone_red: bool


@dataclass(frozen=True, slots=True)
class NotNow:
    """The remote did not answer, or kept moving: nothing is lost, try again later."""

    reason: str


@dataclass(frozen=True, slots=True)
class Never:
    """Repeating cannot cure it; `check` is the blocking check."""

    check: str
    reason: str
    remedy: str = ""


Publication = PublishedCommit | RedAtMerge | NotNow | Never
RunChecks = Callable[[str], CheckReport]
OnTop = Callable[[CheckReport], Promotion]


def publish_commit(
    app: App, plan: Plan, state: TaskState, report: CheckReport, run_checks: RunChecks, on_top: OnTop
) -> Publication:
    """Publish `report.anchor`, or a merge of it with the moved target that passes *run_checks* as well.

    What *on_top* adds to the checked commit is published with it, in one push.
    """
    report = _merge_before_a_crash(app, plan, state, report, run_checks) or report
    onto = state.base_sha or None
    for _ in range(ROUNDS):
        try:
            pushed, promotion = _publish(app, plan, report.anchor, on_top(report), onto)
        except RemoteUnavailable as error:
            return NotNow(error.message)
        except PublicationRefused as error:
            return Never(error.reason, error.message, error.remedy or "")
        if isinstance(pushed, Published):
            return PublishedCommit(report.anchor, report, promotion, pushed.warning)
        if pushed.tip and (found := foreign_branch(app, read_world(app), state, pushed.tip)):
            return Never(BRANCH_APPEARED, *found)
        if isinstance(pushed, Rewritten):
            return _rewritten(plan, pushed)
        onto = pushed.tip
        merged = _merge(app, plan, state, report.anchor, pushed.tip)
        if merged is None:
            return _conflict(plan, pushed.tip)
        report = run_checks(merged)
        if report.failed:
            configured = plan.node(state.task_key).is_checked_as_configured
            alone = configured and _is_red_alone(plan, report, pushed.tip, run_checks)
            return RedAtMerge(report, pushed.tip, target_alone_red=alone)
    return NotNow(f"{plan.policy.publish.target_branch} moved {ROUNDS} times while this was being published")


def _publish(
    app: App, plan: Plan, anchor: str, promotion: Promotion, onto: str | None
) -> tuple[Published | Moved | Rewritten, Promotion]:
    """Publish what *promotion* put on top of *anchor* or, if that is refused, *anchor* alone: notes cost no work."""
    publish = partial(app.repository.publish, onto=onto)
    try:
        return patiently(app, partial(publish, promotion.tip, plan.policy.publish)), promotion
    except PublicationRefused as error:
        if promotion.tip == anchor:
            raise
        pushed = patiently(app, partial(publish, anchor, plan.policy.publish))
        return pushed, Promotion(anchor, promotion.why, warning=f"promotion_failed: {error.message}")


def patiently(app: App, action: Callable[[], T]) -> T:
    """Talk to a remote; retry transient failures with growing pauses before any event is written (R12).

    Raises Cancelled when asked to stop meanwhile.
    """
    for pause in BACKOFF_SECONDS:
        try:
            return action()
        except RemoteUnavailable as error:
            app.progress.note(f"{error.message}; trying again in {pause:.0f} s")
            if app.cancel.wait(pause):
                raise Cancelled(f"stopped while waiting for the remote: {error.message}") from error
    return action()


def _merge_before_a_crash(
    app: App, plan: Plan, state: TaskState, report: CheckReport, run_checks: RunChecks
) -> CheckReport | None:
    """The passed results of a merge that this attempt made, and perhaps published, before a crash; else None."""
    workspace, token = app.repository.workspace("run", plan.policy.workspace), state.run_token
    merged = app.repository.find_token(token, base=report.anchor, source=workspace) if token else None
    if merged is None or app.repository.lacking((merged,)):
        return None
    found = run_checks(merged)
    return None if found.failed else found


def _is_red_alone(plan: Plan, at_merge: CheckReport, tip: str, run_checks: RunChecks) -> bool:
    """Whether the repository's own checks fail without the change too; the task's own are expected to fail there."""
    if not _is_the_repositorys(plan, at_merge.failed):
        return False
    return _is_the_repositorys(plan, run_checks(tip).failed)


def _is_the_repositorys(plan: Plan, result: CheckResult | None) -> bool:
    commands = [*plan.policy.checks, *(check for row in plan.policy.detection for check in row.commands)]
    return result is not None and result.command in {check.run for check in commands}


def _merge(app: App, plan: Plan, state: TaskState, ours: str, tip: str) -> str | None:
    """The merge with *tip*, None on a conflict; one made before a crash is found by its ref and reused."""
    ref = merge_ref(state, tip)
    known = app.repository.read_ref(ref)
    if known:
        return known
    workspace = app.repository.workspace("run", plan.policy.workspace)
    app.progress.note(f"{plan.policy.publish.target_branch} has moved: merging")
    merged = workspace.merge(ours, tip, merge_message(state, plan.node(state.task_key), plan.policy.publish))
    if merged:
        app.repository.keep(merged, ref, source=workspace)
    return merged


def _rewritten(plan: Plan, found: Rewritten) -> Never:
    """The outcome for a target that was taken back: to publish would bring back what was removed from its history."""
    branch, lost = plan.policy.publish.target_branch, found.lost[:12]
    if found.tip is None:
        return Never(
            "target-gone",
            f"{branch} was deleted on {plan.policy.publish.remote}; this work stands on {lost}, which was there",
            f"`git push {plan.policy.publish.remote} {lost}:refs/heads/{branch}` if it is to be there, then go on",
        )
    return Never(
        "target-rewritten",
        f"the history of {branch} was rewritten: {lost}, on which this work stands, is not in it any more",
        f"go on to let the agent redo it on top of {branch} as it is now",
    )


def _conflict(plan: Plan, tip: str) -> Never:
    branch = plan.policy.publish.target_branch
    return Never(
        "merge-conflict",
        f"the change conflicts with what is now on {branch}",
        f"go on to let the agent redo it on top of {branch}, or merge it by hand (its tip is {tip[:12]})",
    )


# --- `publish.mode: pull_request`: a verified commit is proposed on its own branch


"""The name of our own commit status, which appears beside those of CI."""

_LOOK_AT_FORGE: Final = "look at the branch and its requests on the forge, put that right, then go on"


@dataclass(frozen=True, slots=True)
class Proposed:
    """The commit is the newest of an open or merged pull request."""

    number: int
    url: str


def proposes(plan: Plan) -> bool:
    """Whether code of this plan goes to a branch of its own."""
    return not plan.policy.publish.pushes


def branch_policy(plan: Plan, state: TaskState, node: PlanNode) -> PublishPolicy:
    """The policy for pushing this task's commits to its branch."""
    return plan.policy.publish.on_branch(request_branch(plan, state, node))


def base_of_request(app: App, plan: Plan, state: TaskState, node: PlanNode) -> str:
    """The base of an attempt: the tip of the task's branch, with what others pushed there; else the target's tip.

    A branch left over from a merge is not continued. A commit that was neither pushed nor merged is replaced on its own
    base. Raises RemoteFailed.
    """
    try:
        tip = patiently(app, lambda: app.repository.base(branch_policy(plan, state, node), own=True))
    except NoSuchBranch:  # nothing was proposed yet, or the branch was deleted
        tip = ""
    asked = tip or state.request is not None
    last = patiently(app, lambda: newest_request(app, plan, state, node)) if asked else None
    merged = last if last and last.merged else None

    def has_left(sha: str) -> bool:
        if merged and has_merged(app, plan, state, node, merged, sha):
            return True
        return app.repository.contains(tip, sha)

    if state.commit and state.has_code and state.base_sha and not has_left(state.commit):
        return state.base_sha
    return tip if tip and not merged else patiently(app, lambda: app.repository.base(plan.policy.publish))


def has_merged(app: App, plan: Plan, state: TaskState, node: PlanNode, request: PullRequest, sha: str) -> bool:
    """Whether the merge of *request* brought *sha* to the target: in its history, squashed, or with equal content.

    Others may have added to its branch, or put other work there. Raises RemoteFailed.
    """
    if app.repository.lacking((request.head_sha,)):
        with suppress(NoSuchBranch):  # deleted, as forges do after a merge
            patiently(app, lambda: app.repository.base(branch_policy(plan, state, node), own=True))
    if app.repository.contains(request.head_sha, sha):
        return True
    merge, target = request.merge_sha or request.head_sha, app.repository.base(plan.policy.publish)
    same = app.repository.contains(target, merge) and not app.repository.changed_files(sha, merge)
    return same or app.repository.contains(target, sha)


def propose_commit(
    app: App, world: World, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport
) -> Proposed | NotNow | Never:
    """Push the verified commit to its branch, and ensure one open request for it; repeating this changes nothing.

    If one was merged before the log could name it, that request is returned (R9). What may have been opened although no
    answer came is looked for before anything is sent again.
    """

    def is_taken(request: PullRequest | None) -> bool:
        return request is not None and request.merged and has_merged(app, plan, state, node, request, report.anchor)

    def ensured() -> PullRequest:
        there = newest_request(app, plan, state, node) if next(earlier_tries) else last
        if there and is_taken(there):
            return there
        return _have_request(app, world, state, plan, node, report, there)

    earlier_tries = count()
    try:
        last = patiently(app, lambda: newest_request(app, plan, state, node))
        if last and is_taken(last):
            return Proposed(last.number, last.url)
        where = branch_policy(plan, state, node)
        pushed = patiently(app, lambda: app.repository.publish(report.anchor, where))
        if not isinstance(pushed, Published):
            return _left(last, where.target_branch) if last and last.merged else _moved(where.target_branch)
        request = patiently(app, ensured)
    except RemoteUnavailable as error:
        return NotNow(error.message)
    except PublicationRefused as error:
        return Never(error.reason, error.message, error.remedy or "")
    except RemoteFailed as error:
        return Never("request-refused", error.message, error.remedy or _LOOK_AT_FORGE)
    _say_verified(app, report)
    return Proposed(request.number, request.url)


def newest_request(app: App, plan: Plan, state: TaskState, node: PlanNode) -> PullRequest | None:
    """The newest request to merge this task's branch into the target, an open one first; other targets do not count."""
    found = app.forge().find_pull_requests(request_branch(plan, state, node))
    ours = [request for request in found if request.base_branch == plan.policy.publish.target_branch]
    return next((request for request in ours if request.state == "open"), ours[-1] if ours else None)


def _have_request(
    app: App, world: World, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport, there: PullRequest | None
) -> PullRequest:
    """The open request of the branch, *there* or a new one; a draft until CI, where there is some, has ended (R15).

    A forge refuses a second open request of a branch: then the first is looked for, whose answer may have been lost.
    """
    forge, body = app.forge(), _body(app, world, state, plan, node, report)
    if there is None or there.state != "open":
        branch, target = request_branch(plan, state, node), plan.policy.publish.target_branch
        title, draft = summary(node.title), _waits_for_ci(app, state)
        try:
            return forge.create_pull_request(head=branch, base=target, title=title, body=body, draft=draft)
        except RemoteFailed:
            there = newest_request(app, plan, state, node)
            if there is None or there.state != "open":
                raise
    return there if there.body == body else forge.edit_pull_request(there.number, body=body)


def _waits_for_ci(app: App, state: TaskState) -> bool:
    """Whether the request has to be a draft at first: a prefix that goes a second later would only be noise."""
    try:
        return has_ci(app, state)
    except RemoteUnavailable:
        raise
    except RemoteFailed:  # checks may not be ours to read; the request can be opened nevertheless
        return True


def has_ci(app: App, state: TaskState) -> bool:
    """Whether CI checked the commit underneath, so that it can be expected to check this work too (R15)."""
    return state.base_sha is None or bool(of_ci(app.forge().commit_checks(state.base_sha)))


def _body(app: App, world: World, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport) -> str:
    parent, covered = world.states.get(node.parent or ""), coverage(node, plan.policy, report.cited)
    return app.renderer.render(
        "issues/request.md",
        number=state.issue_number,
        node=node,
        parent=f"#{parent.issue_number}" if parent else None,
        coverage=covered,
        closes=closing_policy(app, node) == "auto",
    )


def _say_verified(app: App, report: CheckReport) -> None:
    """Set a status beside those of CI, for readers of the request; a failure to set it is ignored."""
    with suppress(*FORGE_FAILED):
        said = f"{len(report.results)} checks passed at this commit"
        app.forge().set_commit_status(report.anchor, name=STATUS_NAME, state="success", description=said)


def _left(request: PullRequest, branch: str) -> Never:
    return Never(
        "request-branch-left",
        f"{branch} is what was left of request #{request.number}, which was merged",
        "delete that branch on the remote, then go on: the new work is proposed from where the target is now",
    )


def _moved(branch: str) -> Never:
    return Never(
        BRANCH_MOVED,
        f"someone else pushed to {branch}, and this work is not based on it",
        "go on to let the agent redo it on top of what is there",
    )
