"""The request to merge a plan's own branch as a whole, opened when its root is aggregated; and who is asked about one.

The event comes first (R9). The request is looked for by its branch before it is made, so a crash makes no second one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from irontree.app import App
from irontree.domain.plan import Plan, PublishPolicy
from irontree.domain.state import Phase, TaskState
from irontree.errors import FORGE_FAILED, RemoteFailed, RemoteUnavailable
from irontree.ports import CommitCheck, EffectLedger, PullRequest
from irontree.services.record import World, summary
from irontree.services.views.history import last_of

STATUS_NAME: Final = "irontree/verify"


def of_ci(checks: Sequence[CommitCheck]) -> tuple[CommitCheck, ...]:
    """The checks that are not our own status."""
    return tuple(check for check in checks if check.name != STATUS_NAME)


def propose_where_due(
    app: App, world: World, state: TaskState, ledger: EffectLedger
) -> tuple[EffectLedger, str | None]:
    """Ensure the request of a plan's own branch, and ask people about it; returns the ledger, and what failed."""
    plan = world.plans.get(state.task_key)
    if plan is None or not _is_due(app, state, plan, ledger):
        return ledger, None
    try:
        request = _request_of(app, world, state, plan)
        return (ask_people(app, state, plan.policy.publish, request, ledger) if request else ledger), None
    except FORGE_FAILED as error:
        asked = app.deliveries.load(state.issue_number).people_asked
        return replace(ledger, people_asked=asked), f"the branch could not be proposed: {error.message}"


def _is_due(app: App, state: TaskState, plan: Plan, ledger: EffectLedger) -> bool:
    """Whether the root of a plan with a branch of its own was aggregated since the last delivery that succeeded."""
    publish, node = plan.policy.publish, plan.node(state.task_key)
    if publish.mode != "pull_request" or publish.merge_into is None or node.parent:
        return False
    done = state.phase in (Phase.VERIFIED, Phase.DONE)
    aggregated = last_of(app.log.read(state.issue_number), "checkup_aggregate_recorded") if done else None
    return aggregated is not None and (aggregated.event.sequence > ledger.sequence or bool(ledger.failures))


def _request_of(app: App, world: World, state: TaskState, plan: Plan) -> PullRequest | None:
    """The request that has all work of the plan, made if there is none; `None` if there is nothing to merge."""
    publish, forge = plan.policy.publish, app.forge()
    into = str(publish.merge_into)
    commits = tuple(_landed(world, plan))
    there = publish.on_branch(into)
    if all(app.repository.has_published(commit, there) for commit in commits):
        return None
    found = _found(app, publish, commits)
    if found:
        return found
    parts = tuple(world.states[node.task_key] for node in plan.nodes if node.parent and node.task_key in world.states)
    node = plan.node(state.task_key)
    body = app.renderer.render(
        "issues/whole.md",
        number=state.issue_number,
        node=node,
        parts_done=tuple((part.issue_number, plan.node(part.task_key)) for part in parts),
    )
    try:
        return forge.create_pull_request(
            head=publish.target_branch, base=into, title=summary(node.title), body=body, draft=False
        )
    except RemoteFailed:  # its answer may have been lost
        if found := _found(app, publish, commits):
            return found
        raise


def _landed(world: World, plan: Plan) -> Iterator[str]:
    states = (world.states.get(node.task_key) for node in plan.nodes)
    return (commit for state in states if state and (commit := world.landed(state)))


def _found(app: App, publish: PublishPolicy, commits: tuple[str, ...]) -> PullRequest | None:
    """An open request of the branch, or one that was closed with all of this work: whoever closed it has a reason."""
    of_branch = app.forge().find_pull_requests(publish.target_branch)
    ours = [request for request in of_branch if request.base_branch == publish.merge_into]
    has_all = (r for r in reversed(ours) if all(app.repository.contains(r.head_sha, commit) for commit in commits))
    return next((request for request in ours if request.state == "open"), next(has_all, None))


def ask_people(
    app: App, state: TaskState, publish: PublishPolicy, request: PullRequest, ledger: EffectLedger
) -> EffectLedger:
    """Ask for reviews of a request and assign it, each once for each request; whoever takes that back has a reason.

    A refusal, such as of an account that is not there, stops nothing: it is a warning. Raises RemoteUnavailable.
    Returns the issue's *ledger* as it was written.
    """
    all_asked = str(request.number)
    if ledger.people_asked == all_asked or request.state != "open":
        return ledger
    forge, reviewers_asked = app.forge(), f"{all_asked} reviewers"
    due = (
        ("reviewers", forge.request_reviews, publish.reviewers, reviewers_asked),
        ("assignees", forge.assign, publish.assignees, all_asked),
    )
    for what, ask, people, asked in due[1:] if ledger.people_asked == reviewers_asked else due:
        warnings = ledger.warnings
        try:
            if people:
                ask(request.number, people)
        except RemoteUnavailable:
            raise
        except RemoteFailed as error:
            warnings = (*warnings, f"publish.{what} of request #{request.number}: {error.message}")
        ledger = replace(ledger, people_asked=asked, warnings=warnings)
        app.deliveries.save(state.issue_number, ledger)
    return ledger
