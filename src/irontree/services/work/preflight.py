"""Whether an attempt may start: the task is still as approved, it is its turn, and no rule stops it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from datetime import datetime
from difflib import unified_diff
from typing import Any, Final

from irontree.app import App
from irontree.domain.agents import AgentSpec
from irontree.domain.budgets import unreadable
from irontree.domain.decide import may_start, next_try, step_for
from irontree.domain.documents import read_document
from irontree.domain.events import CheckupPreflightBlocked, TaskReapprovalRequired
from irontree.domain.halt import SAME_FAILURE
from irontree.domain.ids import adopted_digest, digest_of
from irontree.domain.plan import Adoption, ExecutionPolicy, Plan, PlanNode, PublishPolicy
from irontree.domain.spec import reads_as
from irontree.domain.state import Phase, TaskState
from irontree.domain.timestamps import utc_text
from irontree.errors import (
    FORGE_FAILED,
    ConfigRefused,
    EnvironmentRefused,
    NotEligible,
    PublicationRefused,
    RemoteFailed,
    RemoteUnavailable,
    RequirementsRefused,
)
from irontree.ports import Blocker, Forge, RepositoryFacts
from irontree.services.record import World, approved_plan, is_approved_for, record
from irontree.services.views.history import step_command
from irontree.services.views.overview import waits_for


def is_changed(app: App, node: PlanNode, state: TaskState) -> bool:
    """Whether the task's own text differs from what its stream was approved for (staleness is per node, R7)."""
    earlier = approved_plan(app, state)
    known = next((known for known in earlier.nodes if known.task_key == node.task_key), node) if earlier else node
    return known.digest != node.digest


def is_as_approved(app: App, world: World, state: TaskState) -> bool:
    """Whether nothing differs from the approval any more; False if the forge cannot be read."""
    plan = world.plan(state)
    if plan.approval is None or is_changed(app, world.node(state), state):
        return False
    try:
        return not _change(app, world, state)
    except FORGE_FAILED:
        return False


def changed_since_approval(app: App, world: World, state: TaskState) -> str | None:
    """What differs from the approved plan, as text; None if nothing does (R6, R7).

    A missing document is no change, nor is an issue that cannot be read now.
    """
    try:
        return _change(app, world, state)
    except FORGE_FAILED as error:
        app.progress.note(f"#{state.issue_number} could not be compared with what was approved: {error.message}")
        return None


def _change(app: App, world: World, state: TaskState) -> str | None:
    plan, node = world.plan(state), world.node(state)
    if plan.imported:
        return "its approval came with an archive, and does not count here"
    try:
        policy = app.policy(plan.policy.publish)
    except ConfigRefused as error:
        return f"the configuration cannot be read: {error.message}"
    if policy.digest != plan.policy.digest:
        return "the configuration (commands, agent, workspace, publication or budgets) is not the approved one"
    if plan.adoption and not is_approved_for(app, state, plan):  # re-adopting it was cut short, perhaps before that
        return f"#{plan.adoption.issue_number} was adopted again"
    if there := existing_issue(plan, node):
        return _edited(app, there.issue_number, there.digest or digest_of(plan))
    return _document_change(app, world, plan, node)


def existing_issue(plan: Plan, node: PlanNode) -> Adoption | None:
    """The issue that *node* was before any plan: adopted, or divided by the plan's document; None of all others."""
    return plan.adoption or (plan.divides if plan.divides and node.task_key == plan.nodes[0].task_key else None)


def _edited(app: App, number: int, approved: str) -> str | None:
    """The change if title or body of that issue differ from *approved* (a digest); one that is gone has not changed."""
    issue = app.forge().read_issue(number)
    if issue is None or adopted_digest(issue.title, issue.body) == approved:
        return None
    return f"title or text of #{number} is not what was approved"


def _document_change(app: App, world: World, plan: Plan, node: PlanNode) -> str | None:
    document = app.repository.root / plan.spec_path
    if not document.is_file():
        return None
    data = document.read_bytes()
    if reads_as(data, plan.source):
        return None
    try:
        read = read_document(data, plan.spec_path, known_issues=world.known_issues)
        if read.divides != (plan.divides.issue_number if plan.divides else None):
            return f"{plan.spec_path} names another issue as `Parent:` now, or none"
        nodes = read.under(plan.nodes[0]).nodes if plan.divides else read.nodes
    except RequirementsRefused as error:
        return f"{plan.spec_path} can no longer be read: {error.problems[0]}"
    return _difference(plan, node, {found.task_key: found for found in nodes})


def _difference(plan: Plan, approved: PlanNode, now: Mapping[str, PlanNode]) -> str | None:
    spec_path = plan.spec_path
    if approved.task_key not in now:
        return None if approved.task_key in plan.kept else f"“{approved.title}” is no longer in {spec_path}"
    if now[approved.task_key].digest != approved.digest:
        return f"“{approved.title}” in {spec_path} is not what was approved"
    return None


def diff_of(plan: Plan, source: str, policy: ExecutionPolicy) -> str:
    """A unified diff of the text and settings of *plan* against *source* and *policy*."""
    texts = (
        (plan.spec_path, plan.source, source),
        (".mino/config.yml (what is approved of it)", _shown(plan.policy), _shown(policy)),
    )
    lines = (
        line
        for name, before, now in texts
        for line in unified_diff(before.splitlines(), now.splitlines(), name, name, "approved", "now", lineterm="")
    )
    return "\n".join(lines)


def _shown(policy: ExecutionPolicy) -> str:
    return policy.model_dump_json(indent=2)


# --- The readiness gate before an attempt (protocol, phase 3)


FREE_TRANSITIONS = 3
NO_ACCESS = "agent-not-authenticated"
GIVE_ACCESS = (
    "log in with the agent's own program, or name the variable with its key under agent.environment in "
    ".mino/config.yml; then go on"
)
ANSWER_IT = "answer it with a note, which the next attempt is given, or let it try again"
STALE_LOCK = "stale-run-lock"
BRANCH_APPEARED = "branch-appeared"
"""The branch that the first publication makes is there, with work of others."""
_FREE_CHECKS = {
    "run_interrupted": "run-interrupted",
    "run_commit_failed": "commit-refused",
    "verify_publication_failed": "publication-refused",
}


def require_sound(state: TaskState) -> None:
    """Raise NotEligible for an issue whose log cannot be trusted: no event could be appended after the work."""
    if state.problem:
        raise NotEligible(
            f"issue-{state.issue_number}: {state.problem}",
            remedy=state.way_out,
        )


def require_agent(spec: AgentSpec) -> None:
    """Raise ConfigRefused if no agent can be started: there is no command, or its program is not on PATH.

    A program named with a folder may be relative to the workspace, and one in a container is in its image: only the
    first attempt can tell.
    """
    if spec.program is None:
        raise ConfigRefused(
            "agent.command is empty: no agent would do the work",
            remedy="name a program in .mino/config.yml, or install an agent and type `irontree init`",
        )
    if spec.place.container is None and "/" not in spec.program and shutil.which(spec.program) is None:
        raise ConfigRefused(
            f"{spec.program}, the program of the {spec.known_as}, is not on PATH",
            remedy="install it, or name another in .mino/config.yml",
        )


def require_runnable(world: World, state: TaskState) -> None:
    """Raise NotEligible, saying what to do first, unless an attempt may start (contract, eligibility)."""
    require_sound(state)
    world.require_wanted(state)
    node = world.node(state)
    where = f"issue-{state.issue_number} ({state.task_key})"
    if node.executability != "executable":
        raise NotEligible(f"{where} is a container and is never run", remedy="run its children")
    if state.phase is not Phase.READY:
        step = step_for(world.scope((state.task_key,)), state)
        command = step_command(step, state.issue_number) if step else f"irontree show issue-{state.issue_number}"
        raise NotEligible(f"{where} is {state.phase}", remedy=f"`{command}`")
    if not state.started and not may_start(world.scope(()), state):
        waiting = waits_for(world, state.task_key)
        raise NotEligible(f"{where} depends on {', '.join(waiting)}, not done yet", remedy=_first(world, waiting))


def blockers(app: App, world: World, state: TaskState) -> tuple[Blocker, ...]:
    """What prevents an attempt now, on this machine or in the repository; writes nothing."""
    policy = world.plan(state).policy
    return blockers_of(app, policy) or _without_access(app, policy.author_of(world.node(state)), state)


def _without_access(app: App, agent: AgentSpec, state: TaskState) -> tuple[Blocker, ...]:
    """The agent itself reports that it has no access to its service. Asked last, because this takes a second.

    Not asked after a user unblocked the issue: they may know better, and the attempt will tell.
    """
    if state.last_event == "checkup_unblocked":
        return ()
    said = app.agent(agent).no_access()
    return (Blocker(NO_ACCESS, f"the agent has no access to its service: {said}", GIVE_ACCESS),) if said else ()


def blockers_of(app: App, policy: ExecutionPolicy) -> tuple[Blocker, ...]:
    """What prevents work with these settings."""
    found = app.repository.preflight(policy.publish, policy.workspace)
    return (*found, *(app.places.blockers(policy.place)))


def stop_before_run(app: App, world: World, state: TaskState) -> TaskState | None:
    """Record why no attempt may start, if there is a reason; None if the runway is clear."""
    stopped = (
        stop_before_verify(app, world, state)
        or _stop_at_same_failure(app, world, state)
        or _stop_at_stale_lock(app, state)
    )
    if stopped:
        return stopped
    plan = world.plans[state.task_key]
    if unread := unreadable_budget(plan.policy, world.node(state)):
        return block(app, state, "budget-unreadable", unread, remedy=_READABLE)
    found = blockers(app, world, state) or _refused_by_forge(app, world, plan, state)
    if found:
        return block(app, state, found[0].check, found[0].message, remedy=found[0].remedy)
    return None


def tracker_blockers(facts: RepositoryFacts) -> Iterator[Blocker]:
    """What on the forge prevents work on issues, each with its remedy."""
    name = facts.full_name
    if facts.archived:
        yield Blocker("forge-archived", f"{name} is archived", "unarchive it in its settings")
    if not facts.has_issues:
        yield Blocker("forge-issues", f"{name} has no issues", "enable them in its settings")
    if not facts.can_write:
        remedy = "use a token with write access (docs/forges.md)"
        yield Blocker("forge-access", f"{facts.account} may not write to {name}", remedy)
    for scope in facts.lacking_scopes:
        yield Blocker("forge-token", f"the token lacks the scope {scope}", "make another with it (docs/forges.md)")


def forge_blockers(forge: Forge, facts: RepositoryFacts, publish: PublishPolicy) -> Iterator[Blocker]:
    """The same, and what prevents the publication of code. Asks about the branch alone."""
    name, branch = facts.full_name, publish.target_branch
    yield from tracker_blockers(facts)
    if facts.empty:
        yield Blocker("forge-empty", f"{name} has no commit yet", f"push {branch} to it")
    if publish.mode == "pull_request" and not facts.has_pull_requests:
        yield Blocker(
            "forge-pull-requests",
            f"{name} takes no pull requests",
            "enable them in its settings, or set publish.mode: direct in .mino/config.yml and approve that",
        )
    pushes = publish.pushes and bool(publish.remote) and facts.can_write and not facts.empty
    if pushes and not forge.may_push(branch):
        yield Blocker(
            "forge-protected",
            f"{branch} of {name} is protected: {facts.account} may not push to it",
            "set publish.mode: pull_request in .mino/config.yml and approve that, or let the account push there",
        )


def _refused_by_forge(app: App, world: World, plan: Plan, state: TaskState) -> tuple[Blocker, ...]:
    """Asked before the first attempt of all; later ones show by themselves whether their code is taken.

    A forge that does not answer now prevents nothing. Not asked after a user unblocked the issue: they may know
    better, since no forge tells everything.
    """
    if state.last_event == "checkup_unblocked" or any(each.runs_started for each in world.states.values()):
        return ()
    try:
        forge = app.forge()
        return tuple(forge_blockers(forge, forge.about(), plan.policy.publish))
    except FORGE_FAILED:
        return ()


_READABLE: Final = "limit what can be read under budgets in .mino/config.yml (time always can), or choose another agent"


def stop_without_dependency(app: App, world: World, state: TaskState, base: str) -> TaskState | None:
    """Ask before work starts from *base* if what it depends on was published and is not there; once per fact."""
    policy = world.plan(state).policy.publish
    for needed in _needed(world, state.task_key):
        commit = world.landed(needed)
        if not commit or world.plan(needed).policy.publish != policy or app.repository.contains(base, commit):
            continue
        what, remedy = taken_back(commit, policy)
        reason = f"this depends on issue-{needed.issue_number}: {what}"
        if not any(one.told.reason == reason for one in app.log.read(state.issue_number).records):
            return block(app, state, "dependency-gone", reason, remedy=remedy)
    return None


def stop_at_foreign_branch(app: App, world: World, state: TaskState, base: str) -> TaskState | None:
    """Ask before work starts from *base* if somebody else has made the branch that was to be made."""
    found = foreign_branch(app, world, state, base)
    return block(app, state, BRANCH_APPEARED, found[0], remedy=found[1]) if found else None


def foreign_branch(app: App, world: World, state: TaskState, tip: str) -> tuple[str, str] | None:
    """What is wrong and what to do if a branch of the plan's own is at *tip*, and nothing of ours went there yet.

    None if that is no work of others, if nothing was to be made, or if it was asked before: then the branch is taken
    like any other one that moves.
    """
    policy = world.plan(state).policy.publish
    if policy.branch_from is None or app.repository.contains(policy.branch_from, tip):
        return None
    if any(world.landed(each) for each in world.states.values() if world.publishes_to(each, policy)):
        return None
    branch, is_there = policy.target_branch, bool(policy.remote) and app.repository.has_published(tip, policy)
    where = f"on {policy.remote}" if is_there else "here"
    reason = f"{branch} was to be made from {policy.branch_from[:12]}, but it is {where} with other work: {tip[:12]}"
    records = app.log.read(state.issue_number).records
    if any(getattr(one.event, "blocking_check", None) == BRANCH_APPEARED for one in records):
        return None
    gone = (
        f"`git push {policy.remote} --delete {branch} && git fetch --prune {policy.remote}`"
        if is_there
        else f"`git branch --move {branch} another-name`"
    )
    return reason, f"go on to do this work on top of what is there; or, if nobody needs that, {gone} first"


def _needed(world: World, key: str) -> Iterator[TaskState]:
    """The tasks that this one depends on, and their parts."""
    left, seen = list(world.nodes[key].depends_on), set[str]()
    while left:
        if (needed := left.pop()) not in seen:
            seen.add(needed)
            left += world.children.get(needed, ())
            if needed in world.states:
                yield world.states[needed]


def taken_back(commit: str, policy: PublishPolicy) -> tuple[str, str]:
    """The message and remedy for a published commit that its target has no more."""
    branch, where = policy.target_branch, f" of {policy.remote}" if policy.remote else ""
    remedy = (
        f"if that was not meant, bring it back (`git merge {commit[:12]}` on {branch}, `git push`); if it was, go on "
        "without it, or have its task done again (change its text, approve with --reopen-changed)"
    )
    return f"{commit[:12]} was published to {branch}{where} and is not there now", remedy


def unreadable_budget(policy: ExecutionPolicy, node: PlanNode) -> str:
    """Why the usage that the task has for a limit cannot be measured, as text; empty if all of it can."""
    agents = ((agent.adapter, unreadable(policy.budgets, agent.adapter)) for agent in policy.called_for(node))
    found = (
        f"{adapter} agents do not report how much of it they use: {', '.join(units)}"
        for adapter, units in agents
        if units
    )
    return next((f"there is a budget, and {words}" for words in found), "")


def stop_before_verify(app: App, world: World, state: TaskState) -> TaskState | None:
    """Record that the approval no longer fits (R6) or that free transitions repeat (R12); None if neither."""
    changed = changed_since_approval(app, world, state)
    if changed:
        return record(app, state, TaskReapprovalRequired, meta={"reason": changed})
    if state.free_streak >= FREE_TRANSITIONS and state.free_event:
        reason = f"{state.free_event.replace('_', ' ')} {state.free_streak} times in a row{_last_time(app, state)}"
        outage = state.free_event == "verify_publication_failed"
        not_before = try_again_at(app, state) if outage else None
        return block(app, state, _FREE_CHECKS[state.free_event], reason, not_before=not_before)
    return None


def _last_time(app: App, state: TaskState) -> str:
    """The reason that the last of these events gave."""
    records = app.log.read(state.issue_number).records
    said = [one.told.reason for one in records if one.event.event == state.free_event and one.told.reason]
    return f"; the last time: {said[-1]}" if said else ""


def block(
    app: App,
    state: TaskState,
    check: str,
    reason: str,
    *,
    remedy: str = "",
    not_before: datetime | None = None,
    more: Mapping[str, Any] | None = None,
) -> TaskState:
    """Record a block that the user must clear before this issue can continue, or that a timer clears.

    *more* is added to its `meta:`.
    """
    later = utc_text(not_before) if not_before else ""
    if later and not remedy:
        remedy = f"nothing: it is tried again after {later}; an answer before that counts too"
    meta = {"reason": reason, "remedy": remedy, "not_before": later}
    given = {key: text for key, text in meta.items() if text or key == "reason"} | dict(more or {})
    return record(app, state, CheckupPreflightBlocked, blocking_check=check, meta=given)


def block_for(app: App, state: TaskState, error: EnvironmentRefused | RemoteFailed | ConfigRefused) -> TaskState:
    """Record the error that prevented a step as a block; for an outage, one that a timer clears."""
    later = try_again_at(app, state, error.not_before) if isinstance(error, RemoteUnavailable) else None
    return block(app, state, check_of(error), error.message, remedy=error.remedy or "", not_before=later)


def try_again_at(app: App, state: TaskState, announced: datetime | None = None) -> datetime:
    """When a timer lifts this issue's block; *announced* is the time that the other side named."""
    return next_try(app.clock.now(), state.waits, announced)


def check_of(error: EnvironmentRefused | RemoteFailed | ConfigRefused) -> str:
    """The blocking check for an error that prevented a step."""
    match error:
        case ConfigRefused():
            return "configuration"
        case PublicationRefused():
            return error.reason
        case RemoteUnavailable():
            return "remote-unavailable"
        case RemoteFailed():
            return "remote-refused"
        case _:
            return "workspace-not-ready"


def repeated_failure(world: World, state: TaskState) -> str | None:
    """Text saying that as many attempts as approved failed in the same way (docs/decisions/0012-same-failure.md)."""
    limit = world.plan(state).policy.same_failure
    if limit is None or state.same_failures < limit:
        return None
    return state.repeated_failure


def _stop_at_same_failure(app: App, world: World, state: TaskState) -> TaskState | None:
    """Ask before another attempt is used up on the same failure."""
    reason = repeated_failure(world, state)
    if reason is None:
        return None
    remedy = "compare them; go on with a note for the next attempt, or put right what no attempt can"
    return block(app, state, SAME_FAILURE, reason, remedy=remedy)


def _stop_at_stale_lock(app: App, state: TaskState) -> TaskState | None:
    """A user has to confirm that another tool's old lock may be overridden (contract, run lock; R3)."""
    holder = app.run_lock.stale()
    if holder is None:
        return None
    reason = f"another tool left .mino/run.lock behind long ago: {holder}"
    return block(
        app,
        state,
        STALE_LOCK,
        reason,
        remedy="make sure that none of its processes is running; to go on removes the file",
    )


def _first(world: World, waiting: tuple[str, ...]) -> str:
    known = [world.states[key].issue_number for key in waiting if key in world.states]
    return f"run issue-{min(known)} first" if known else "publish its dependencies first"
