"""One attempt: a coding agent changes the code in the private workspace, and the change is committed (phase 4)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import Final

from irontree.app import App
from irontree.domain.agents import AgentSpec, Member
from irontree.domain.attempt import AttemptEvidence, AttemptOutcome, FailureClass, outcome_of, stopped_by
from irontree.domain.budgets import Allowance
from irontree.domain.checks import truncate
from irontree.domain.events import IssueEvent, Record, RunCommitFailed, RunCompleted, RunInterrupted, RunStarted
from irontree.domain.halt import AGENT_ASKS
from irontree.domain.ids import run_token
from irontree.domain.instructions import ASSIGNED, instructions_for
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.spec import MAX_BYTES
from irontree.domain.state import Phase, TaskState
from irontree.domain.text import one_line
from irontree.domain.timestamps import moment
from irontree.domain.values import NOT_APPLICABLE
from irontree.domain.workflow.checkout import HOME
from irontree.errors import EnvironmentRefused, GitFailed, IrontreeError, NoSuchBranch, NotEligible, RemoteFailed
from irontree.files import disk_errors, read_beneath, remove_beneath
from irontree.ports import AgentResult, AgentTask, CommitRefused, Committed, Stream, Workspace
from irontree.services.execution.publication import base_of_request, patiently, proposes
from irontree.services.execution.trial import stop_before_first_attempt, top_level
from irontree.services.loops.funds import require_funds, tell_warnings, usage_in
from irontree.services.record import (
    World,
    commit_ref,
    read_world,
    record,
    result_in,
    run_message,
    salvage_ref,
    transcript_folder,
)
from irontree.services.views.history import last_of, time_of
from irontree.services.views.workflow_run import show_runs
from irontree.services.work.preflight import (
    ANSWER_IT,
    GIVE_ACCESS,
    NO_ACCESS,
    block,
    block_for,
    require_runnable,
    require_sound,
    stop_at_foreign_branch,
    stop_before_run,
    stop_without_dependency,
    try_again_at,
)
from irontree.services.work.prompts import REPORT_FILE, PromptedAttempt, task_prompt, told_now

_TURNED_AWAY: Final[frozenset[FailureClass]] = frozenset({"rate_limited", "unreachable", "not_authenticated", "asks"})
"""After these failures the agent ended by itself, so what it wrote is complete; after a kill that is unknown."""


def salvaged_work(app: App, state: TaskState) -> str | None:
    """The commit with the work of the newest attempt turned away since the last completed one; None if none."""
    refs = (record.told.salvage_ref for record in _turned_away(app.log.read(state.issue_number)))
    ref = next(refs, None)
    return app.repository.read_ref(ref) if ref else None


def _turned_away(stream: Stream) -> Iterator[Record[IssueEvent]]:
    since = takewhile(lambda record: record.event.event != "run_completed", reversed(stream.records))
    for entry in since:
        told = entry.told
        turned_away = entry.event.event == "run_interrupted" and told.agent.failure in _TURNED_AWAY
        if turned_away and told.salvage_ref:
            yield entry


@dataclass(frozen=True, slots=True)
class _RunningAttempt:
    """What one attempt works with: *before* is the state that it began from, *tree_of* the commit with its files.

    That is None if it began with the files of *base*.
    """

    before: TaskState
    state: TaskState
    plan: Plan
    node: PlanNode
    base: str
    workspace: Workspace
    allowance: Allowance = field(default_factory=Allowance)
    tree_of: str | None = None

    @property
    def author(self) -> AgentSpec:
        """The agent that works on it."""
        return self.plan.policy.author_of(self.node)


def run(app: App, issue_number: int) -> TaskState:
    """Make one attempt at the issue, or record why none may start; returns the state. The caller holds the driver lock.

    Raises NotEligible, with nothing written, if the issue may not run now or no budget is left for it.
    """
    world = read_world(app)
    state = world.state(issue_number)
    require_runnable(world, state)
    funds = require_funds(app, world, state)
    _respect_foreign_lock(app)
    stopped = stop_before_run(app, world, state)
    if stopped:
        return stopped
    app.run_lock.write(state.task_key, issue_number)
    try:
        after = _attempt(app, world, state, funds.allowance(state))
    finally:
        app.run_lock.remove()
    tell_warnings(app, funds, after)
    return after


def recover(app: App, issue_number: int) -> TaskState:
    """Settle an interrupted attempt by evidence (R11); returns the state. The caller holds the driver lock.

    If our own commit is found by ref or token, run_completed is recorded. Otherwise run_interrupted gives the attempt
    back, and what differs from the base is kept under a salvage ref.
    """
    world = read_world(app)
    state = world.state(issue_number)
    if state.phase is not Phase.RUNNING:
        return state
    require_sound(state)
    app.children.kill_leftovers()
    attempt = _cut_off_attempt(app, world, state)
    sha, seen = _own_commit(app, attempt), _last_seen(app, attempt)
    if sha:
        meta = {"recovered": True, **seen}
        return _completed(app, attempt, sha, seen=meta)
    return _interrupted(app, attempt, "the attempt was cut off", seen)


def _attempt(app: App, world: World, ready: TaskState, allowance: Allowance) -> TaskState:
    plan, node, salvaged = world.plan(ready), world.node(ready), salvaged_work(app, ready)
    try:
        workspace = app.repository.workspace("run", plan.policy.workspace)
        base = _base(app, plan, node, ready, salvaged)
        fork_point = _fork_point(app, plan, base)
    except (EnvironmentRefused, RemoteFailed) as error:
        return block_for(app, ready, error)
    if stopped := (
        stop_at_foreign_branch(app, world, ready, fork_point)
        or stop_without_dependency(app, world, ready, base)
        or stop_before_first_attempt(app, world, ready, fork_point)
    ):
        return stopped
    token = run_token(ready.issue_number, ready.approved_revision, ready.sequence + 1)
    author = plan.policy.author_of(node)
    meta = {
        "base_sha": base,
        **({"fork_point": fork_point} if fork_point != base else {}),
        "token": token,
        **({"member": author.name} if isinstance(author, Member) else {}),
    }
    state = record(app, ready, RunStarted, attempt_count=ready.attempt_count + 1, meta=meta)
    if node.step:
        show_runs(app, read_world(app), (state,))
    tree_of = _earlier_tree(ready, base, salvaged)
    attempt = _RunningAttempt(ready, state, plan, node, base, workspace, allowance, tree_of)
    try:
        workspace.prepare(
            base,
            tree_of=attempt.tree_of,
            owner=f"issue-{state.issue_number}",
            published=fork_point,
            cancel=app.cancel,
        )
        result = _call_agent(app, world, attempt)
    except IrontreeError as error:  # the agent's program was not started
        return _could_not_work(app, attempt, error, NOT_STARTED)
    return _settle(app, attempt, result)


def _earlier_tree(state: TaskState, base: str, salvaged: str | None) -> str | None:
    """What was *salvaged*, or the previous attempt's commit, if it was made on *base*.

    On any other base it would undo the work of others.
    """
    if base != state.base_sha:
        return None
    return salvaged or (state.commit if state.has_code else None)


def _base(app: App, plan: Plan, node: PlanNode, state: TaskState, salvaged: str | None) -> str:
    """The base of the commit to replace, or of the *salvaged* work (R5); for a first attempt, the target's tip.

    Proposed work, and commits that others put on its branch, are not replaced: the attempt builds on them.
    """
    if proposes(plan):
        return base_of_request(app, plan, state, node)
    if (state.has_code or salvaged) and state.base_sha:
        return state.base_sha
    return patiently(app, lambda: app.repository.base(plan.policy.publish))


def _fork_point(app: App, plan: Plan, base: str) -> str:
    """The newest commit of the target in the history of *base*: that one itself, unless it is unpublished work.

    A target that is gone is found at publication. Raises RemoteUnavailable.
    """
    where = plan.policy.publish
    if not app.repository.has_published(base, where):
        with suppress(NoSuchBranch):
            patiently(app, lambda: app.repository.base(where))
    return app.repository.fork_point(base, where) or base


def _call_agent(app: App, world: World, attempt: _RunningAttempt) -> AgentResult:
    state = attempt.state
    spec, allowance = attempt.author, attempt.allowance
    goes_on = attempt.tree_of not in (None, state.commit)
    for_attempt = PromptedAttempt(state, top_level(attempt.workspace.path), goes_on)
    task = AgentTask(
        issue_number=state.issue_number,
        task_key=state.task_key,
        attempt=state.attempt_count,
        prompt=task_prompt(app, world, attempt.plan, attempt.node, for_attempt),
        workspace=attempt.workspace.path,
        transcript=transcript_folder(app, state),
        allowance=allowance,
    )
    spec = spec.model_copy(update={"wall_seconds": allowance.seconds(spec.wall_seconds)})
    return app.agent(spec).attempt(task, cancel=app.cancel, progress=app.progress)


def _settle(app: App, attempt: _RunningAttempt, result: AgentResult) -> TaskState:
    """Decide by the agent's claim, how it ended and what is in the workspace; the checks judge the result (R11)."""
    seen = AttemptEvidence(result.ended, result.exit_code, result.claim, result.failure)
    if stopped := stopped_by(seen):
        return _stopped(app, attempt, result, stopped)
    told = _report(app, attempt)
    message = run_message(attempt.state, attempt.node, attempt.plan.policy.publish.subject)
    try:
        made = attempt.workspace.commit(message, base=attempt.base, without=_not_its_work(attempt))
    except EnvironmentRefused as error:
        return _could_not_work(app, attempt, error, _observed(result))
    if isinstance(made, CommitRefused):
        return _commit_refused(app, attempt, made, _observed(result))
    changes = made is not None and _adds(app, attempt, made)
    outcome = outcome_of(seen, changed=changes)
    if outcome.then != "verify":
        changed = "nothing more" if made else "nothing"
        reason = _with_last_words(f"the agent changed {changed} and {outcome.reason}", result)
        return _interrupted(app, attempt, reason, _observed(result))
    observed = _observed(result, unchanged=not changes) | _beside(app, attempt, made) | told
    return _completed(app, attempt, made.sha if made else _work_beneath(attempt.state), seen=observed)


def _report(app: App, attempt: _RunningAttempt) -> dict[str, object]:
    """What the agent says for its report, taken out of the workspace: text by the names that its form asks for."""
    plan, node = attempt.plan, attempt.node
    if not plan.policy.instructions:
        return {}
    now = told_now(plan, node, app.log.read(attempt.state.issue_number))
    asked = (now, instructions_for(plan.policy.instructions, ASSIGNED, node.type))
    names = dict.fromkeys(name for told in asked if told for name in told.said_by_agent)
    folder = attempt.workspace.path
    data = read_beneath(folder, REPORT_FILE, _REPORT_BYTES)
    with disk_errors(folder / REPORT_FILE):
        remove_beneath(folder, REPORT_FILE)
    try:
        said = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    pairs = ((name, said.get(name)) for name in names) if isinstance(said, dict) else ()
    found = {name: value.strip()[:_REPORT_CHARACTERS] for name, value in pairs if isinstance(value, str)}
    return {"report": found} if found else {}


_REPORT_BYTES: Final = 64 * 1024
_REPORT_CHARACTERS: Final = 1000


def _not_its_work(attempt: _RunningAttempt) -> tuple[str, ...]:
    """The folder of runs, whose commands `hotl-rt` believes; of a step also its workflow file, which people approve."""
    return (attempt.plan.spec_path, HOME) if attempt.node.step else (HOME,)


def _work_beneath(state: TaskState) -> str:
    """What an attempt that changed nothing leaves: its base, if that holds earlier work which the target lacks."""
    return state.base_sha if state.base_sha and state.base_sha != state.fork_point else NOT_APPLICABLE


def _stopped(app: App, attempt: _RunningAttempt, result: AgentResult, outcome: AttemptOutcome) -> TaskState:
    """Give the attempt back, and let a user or a timer decide when to try again (R12)."""
    state = _interrupted(app, attempt, outcome.reason, _observed(result))
    if outcome.then == "give_back":
        return state
    reason = _with_last_words(outcome.reason, result)
    later = try_again_at(app, state, result.retry_at) if outcome.then == "wait" else None
    more = {"summary": _last_words(result)} if outcome.check == AGENT_ASKS else {}
    remedy = _REMEDIES.get(outcome.check, "")
    return block(app, state, outcome.check, reason, remedy=remedy, not_before=later, more=more)


def _with_last_words(reason: str, result: AgentResult) -> str:
    """Add the program's last message, which usually explains why an attempt produced nothing."""
    said = (result.claim.words if result.claim else "") or result.output_tail.strip().rpartition("\n")[2]
    return f"{reason}: {one_line(said)[:_LAST_WORDS]}" if said else reason


def _last_words(result: AgentResult) -> str:
    """What the program said at its end, or the end of what it printed."""
    return (result.claim.words if result.claim else "") or result.output_tail.strip()[-_LAST_PRINTED:]


_LAST_WORDS: Final = 300
_LAST_PRINTED: Final = 2000
_REMEDIES: Final = {
    "agent-not-started": "install the agent, or correct agent.command in .mino/config.yml",
    "agent-sandbox": "use ours: install bubblewrap, and approve again; or correct agent.arguments in .mino/config.yml",
    NO_ACCESS: GIVE_ACCESS,
    AGENT_ASKS: ANSWER_IT,
}


def _adds(app: App, attempt: _RunningAttempt, made: Committed) -> bool:
    """Whether the attempt differs from the commit that it began with, or replaces."""
    began_with = attempt.tree_of or (attempt.before.commit if attempt.before.has_code else None)
    if began_with is None:
        return True
    app.repository.keep(made.sha, commit_ref(attempt.state), source=attempt.workspace)
    return bool(app.repository.changed_files(began_with, made.sha))


def _completed(app: App, attempt: _RunningAttempt, code_ref: str, *, seen: Mapping[str, object]) -> TaskState:
    if code_ref != NOT_APPLICABLE:
        app.repository.keep(code_ref, commit_ref(attempt.state), source=attempt.workspace)
    return record(
        app,
        attempt.state,
        RunCompleted,
        code_ref=code_ref,
        code_publication_state=NOT_APPLICABLE if code_ref == NOT_APPLICABLE else "local_only",
        meta=dict(seen),
    )


def _beside(app: App, attempt: _RunningAttempt, made: Committed | None) -> dict[str, object]:
    """The paths that the commit leaves out: of hooks, under `.mino/`, and the workflow file itself."""
    left = made.dropped if made else tuple(path for path in _not_its_work(attempt) if _is_changed(app, attempt, path))
    return {"dropped": list(left)} if left else {}


def _is_changed(app: App, attempt: _RunningAttempt, path: str) -> bool:
    """Whether the file at *path* is not as it was before the attempt."""
    with suppress(EnvironmentRefused):  # no text, or outside the repository
        before = app.repository.document_at(attempt.base, path)
        return (before.text.encode() if before else None) != read_beneath(attempt.workspace.path, path, MAX_BYTES + 1)
    return False


def _commit_refused(
    app: App, attempt: _RunningAttempt, refused: CommitRefused, seen: Mapping[str, object]
) -> TaskState:
    kept = attempt.workspace.salvage(attempt.base, salvage_ref(attempt.state))
    state = record(
        app,
        attempt.state,
        RunCommitFailed,
        attempt_count=attempt.state.attempt_count - 1,
        meta={"reason": "git refused the commit", "output": truncate(refused.output), **seen},
    )
    if _is_refused_again(app, attempt, kept):
        return block(app, state, "commit-refused", "git refused the same change twice", remedy=_LOOK_AT_HOOKS)
    return state


_LOOK_AT_HOOKS = "look at what git said and at the repository's hooks, then go on"


def _is_refused_again(app: App, attempt: _RunningAttempt, kept: str | None) -> bool:
    """Whether exactly this change was refused last time: repeating cannot cure that (R12)."""
    if kept is None or attempt.before.last_event != "run_commit_failed":
        return False
    earlier = app.repository.read_ref(salvage_ref(attempt.before))
    return earlier is not None and not app.repository.changed_files(earlier, kept)


def _interrupted(app: App, attempt: _RunningAttempt, reason: str, seen: Mapping[str, object]) -> TaskState:
    ref = salvage_ref(attempt.state)
    kept = attempt.workspace.salvage(attempt.base, ref)
    return record(
        app,
        attempt.state,
        RunInterrupted,
        attempt_count=attempt.state.attempt_count - 1,
        meta={"reason": reason} | ({"salvage_ref": ref} if kept else {}) | dict(seen),
    )


def _could_not_work(app: App, attempt: _RunningAttempt, error: IrontreeError, seen: Mapping[str, object]) -> TaskState:
    """The workspace could not be prepared, or the agent's adapter failed: give the attempt back and ask.

    A killed git process raises no question: the attempt is repeated a few times (R12).
    """
    state = _interrupted(app, attempt, error.message, seen)
    if app.cancel.is_set() or (isinstance(error, GitFailed) and error.killed):
        return state
    return block(app, state, "workspace-not-ready", error.message, remedy=error.remedy or "")


def _cut_off_attempt(app: App, world: World, state: TaskState) -> _RunningAttempt:
    plan = world.plan(state)
    workspace = app.repository.workspace("run", plan.policy.workspace)
    base = state.base_sha or app.repository.base(plan.policy.publish)
    return _RunningAttempt(state, state, plan, world.node(state), base, workspace)


def _own_commit(app: App, attempt: _RunningAttempt) -> str | None:
    kept = app.repository.read_ref(commit_ref(attempt.state))
    if kept or not attempt.state.run_token:
        return kept
    return app.repository.find_token(attempt.state.run_token, base=attempt.base, source=attempt.workspace)


def _respect_foreign_lock(app: App) -> None:
    holder = app.run_lock.foreign()
    if holder:
        raise NotEligible(
            f"another tool holds .mino/run.lock: {holder}",
            remedy="wait for it, or remove .mino/run.lock once you are sure that nothing runs",
        )


NOT_STARTED: Final[Mapping[str, object]] = {"agent": {"ended": "not_started"}}


def _last_seen(app: App, attempt: _RunningAttempt) -> dict[str, object]:
    """What is known of an interrupted agent: its result as stored by its adapter, or else its maximum duration."""
    kept = result_in(transcript_folder(app, attempt.state))
    if usage := usage_in(kept):
        return {"seconds": kept.get("seconds"), "agent": usage}
    begun = moment(time_of(last_of(app.log.read(attempt.state.issue_number), "run_started")))
    passed = (app.clock.now() - begun).total_seconds() if begun else math.inf
    return {"seconds": round(max(0.0, min(passed, attempt.author.wall_seconds)), 3)}


def _observed(result: AgentResult, *, unchanged: bool = False) -> dict[str, object]:
    """What is recorded of the agent; of one that left everything *unchanged*, its last words in any case."""
    agent = {"ended": result.ended, "exit_code": result.exit_code, **_claimed(result), **asdict(result.usage)}
    words = _last_words(result) if unchanged else result.claim.words if result.claim else ""
    return {
        "seconds": round(result.seconds, 3),
        "agent": {key: value for key, value in agent.items() if value not in (None, (), [])},
        **({"summary": words} if words else {}),
        **({"unchanged": True} if words and unchanged else {}),
    }


def _claimed(result: AgentResult) -> dict[str, object]:
    """What the agent says of itself: claims, which the report sets against what was observed."""
    claim = result.claim
    claimed: dict[str, object] = {"claims_success": claim.ok, "claims": claim.kind} if claim else {}
    return claimed | {"failure": result.failure, "session": result.session, "denied": list(result.denied)}
