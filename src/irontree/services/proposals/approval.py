"""What an approval shows: the Resolved Plan of a document or of issues, with all that it would allow (R6, R17)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from irontree.app import App
from irontree.domain.checks import commands_for, coverage, is_trivial
from irontree.domain.decide import ForecastStep, Scope, as_published, forecast
from irontree.domain.graph import Graph
from irontree.domain.machine import held
from irontree.domain.plan import AgentSpec, ExecutionPolicy, Plan, PlanNode, PublishPolicy
from irontree.domain.spec import changes_of
from irontree.domain.state import Phase, TaskState
from irontree.domain.text import suggestion
from irontree.services.loops.choice import scope_of
from irontree.services.loops.funds import read_funds
from irontree.services.loops.loop import Loop
from irontree.services.proposals.adoption import approval_name
from irontree.services.proposals.documents import Proposal, kept, reopened, what_changed
from irontree.services.proposals.issues import Excluded, Member, ResolvedPlan
from irontree.services.record.world import World, read_world
from irontree.services.views.overview import named, phase_words
from irontree.services.views.values import ApprovalView, PlannedView, QuoteView
from irontree.services.work.preflight import blockers_of, unreadable_budget
from irontree.services.work.staleness import diff_of, is_changed

# --- How often the agent is called until what is approved is done, and at most (rulings, Command line)


_WITH_WORK: Final = frozenset({Phase.COMMITTED, Phase.PENDING})
"""There is a commit: the agent is called again only if that fails."""
Estimated = tuple[PlanNode, ExecutionPolicy, TaskState | None]
"""A task, the settings that it is approved with, and where it goes on; None for one that begins, or begins again."""


def estimate(tasks: Iterable[Estimated]) -> str:
    """Say how often the agent is called, and the bounds of it."""
    calls = [(policy, _calls(policy, state)) for node, policy, state in tasks if node.executability == "executable"]
    first, most = sum(first for _, (first, _) in calls), sum(most for _, (_, most) in calls)
    if not most:
        return "the agent is not called: nothing is left for it to do"
    hours = sum(most * policy.agent.wall_seconds for policy, (_, most) in calls) / 3600
    called = {0: "not called", 1: "called once"}.get(first, f"called {first} times")
    return f"the agent is {called} if every first attempt passes, and at most {most} times ({hours:,.0f} h)"


def _calls(policy: ExecutionPolicy, state: TaskState | None) -> tuple[int, int]:
    """How often it is called for one task if the next attempt passes, and at most without a person's word."""
    if state is None:
        return 1, 1 + policy.max_retry_count
    now = held(state)
    if now.done or now.phase is Phase.VERIFIED:
        return 0, 0
    left = max(now.total_attempts - now.attempt_count, 0) + (now.phase is Phase.RUNNING)
    return 0 if now.phase in _WITH_WORK else min(left, 1), left


Wanted = Proposal | ResolvedPlan
"""What a person is asked to approve."""


def approval_text(app: App, wanted: Wanted, *, loop_mode: bool, answer: str) -> str:
    """The one approval: tree, commands, branch and remote, criteria with their cover, Loop Mode by name."""
    if isinstance(wanted, ResolvedPlan):
        view = resolved_view(app, wanted, loop_mode=loop_mode, answer=answer)
    else:
        view = approval_view(app, wanted, loop_mode=loop_mode, answer=answer)
    return app.renderer.render("forms/intake.md", approval=view)


def approval_view(app: App, proposal: Proposal, *, loop_mode: bool, answer: str) -> ApprovalView:
    """What the approval of a document shows."""
    nodes, policy, world = proposal.requirements.nodes, proposal.policy, read_world(app)
    earlier, todo = proposal.earlier, [node for node in nodes if node.task_key not in proposal.skipped]
    found = (*(str(warning) for warning in proposal.requirements.warnings), *_environment(app, policy, proposal))
    return ApprovalView(
        repository=app.repository.root.name,
        revision=proposal.revision,
        spec_path=proposal.spec_path,
        tasks=tuple(_planned(world, node, nodes, proposal) for node in nodes),
        policy=policy,
        budget=proposal.budget,
        loop_mode=loop_mode,
        answer=answer,
        tracker=app.preferences().tracker,
        estimate=estimate((node, policy, _goes_on_from(app, world, proposal, node)) for node in todo),
        trivial=_trivial((node, policy) for node in nodes),
        warnings=(*found, *_unknown_checks((node, policy) for node in nodes)),
        before=before_words(world, proposal),
        changes=changes_of(earlier.nodes, nodes) if earlier else (),
        diff=what_changed(earlier, proposal) if earlier else "",
        loop_id=proposal.loop_id,
        goal=_goal(len(todo)),
        intent=proposal.intent,
        query=proposal.spec_path,
        excluded=_left_out(world, proposal),
    )


def resolved_view(app: App, resolved: ResolvedPlan, *, loop_mode: bool, answer: str) -> ApprovalView:
    """What the approval of a set of issues shows."""
    members, world = resolved.members, read_world(app)
    pairs, left_out = [(member.node, member.plan.policy) for member in members], resolved.skipped
    warnings = (warning for member in members for warning in (*member.warnings, *_differs(member, resolved.policy)))
    return ApprovalView(
        repository=app.repository.root.name,
        revision=resolved.name,
        spec_path=resolved.query,
        tasks=tuple(_of_set(member, resolved.policy) for member in members),
        policy=resolved.policy,
        budget=resolved.budget,
        loop_mode=loop_mode,
        answer=answer,
        tracker=app.preferences().tracker,
        estimate=estimate(_of_member(world, member) for member in members if member.node.task_key not in left_out),
        trivial=_trivial(pairs),
        warnings=(*warnings, *_environment(app, resolved.policy), *_unknown_checks(pairs)),
        quotes=QuoteView.of(resolved.nodes),
        in_full=True,
        changes=tuple(line for member in members for line in _changes(world, member)),
        diff="\n".join(filter(None, (_diff(world, member) for member in members))),
        loop_id=resolved.loop_id,
        goal=_goal(len(members) - len(resolved.skipped)),
        intent=resolved.intent,
        query=resolved.query,
        excluded=(*_left_out(world, resolved), *map(_excluded, resolved.excluded)),
        questions=tuple(question for member in resolved.due for question in member.node.open_questions),
    )


def adopted_view(app: App, plan: Plan) -> ApprovalView:
    """What the approval of one adopted issue shows, as it would be now."""
    node, policy = plan.nodes[0], plan.policy
    number = plan.adoption.issue_number if plan.adoption else None
    return ApprovalView(
        repository=app.repository.root.name,
        revision=approval_name(plan),
        spec_path=plan.spec_path,
        tasks=(_planned_view(node, policy, policy, "adopted", number),),
        policy=policy,
        budget=plan.budget_max_transitions,
        loop_mode=False,
        answer="",
        tracker=app.preferences().tracker,
        estimate=estimate([(node, policy, None)]),
        trivial=_trivial([(node, policy)]),
        warnings=(*_environment(app, policy), *_unknown_checks([(node, policy)])),
        quotes=QuoteView.of([node]),
        in_full=True,
        questions=node.open_questions,
    )


def before_words(world: World, proposal: Proposal) -> tuple[str, ...]:
    """What becomes of tasks that were there before: removed ones, and finished ones that changed (ruling R7)."""
    stays = {node.task_key for node in kept(proposal)}
    again = proposal.choices.reopen_done
    return (
        *(
            f"{named(world, key)} is done, but its text changed: it {'begins again' if again else 'stays done'}"
            for key in proposal.changed_done
        ),
        *(f"{named(world, key)} is done, but has an unfinished part: it begins again" for key in proposal.grown),
        *(
            f"{named(world, node.task_key)} is {'kept' if node.task_key in stays else 'cancelled'}: "
            f"it is no longer in {proposal.spec_path}"
            for node in proposal.removed
        ),
    )


def _left_out(world: World, wanted: Wanted) -> tuple[str, ...]:
    """What was skipped in the loop that goes on, and how it is worked on again (ruling R17)."""
    again = f"to work on it again, end that loop first: irontree task resume {wanted.loop_id} cancel"
    return tuple(f"{named(world, key)}: skipped in loop {wanted.loop_id} ({again})" for key in wanted.skipped)


def _goal(tasks: int) -> str:
    return "this task is done" if tasks == 1 else f"all {tasks} tasks are done"


Pairs = Iterable[tuple[PlanNode, ExecutionPolicy]]
"""Tasks, each with the settings that it is approved with."""


def _goes_on_from(app: App, world: World, proposal: Proposal, node: PlanNode) -> TaskState | None:
    """Where the task is; None for one that begins, or begins again."""
    state = world.states.get(node.task_key)
    if state is None or node.task_key in reopened(proposal) or (not state.done and is_changed(app, node, state)):
        return None
    return state


def _of_member(world: World, member: Member) -> Estimated:
    state = None if member.due else world.states.get(member.node.task_key)
    return member.node, member.plan.policy, state


def _trivial(pairs: Pairs) -> tuple[str, ...]:
    commands = (check.run for node, policy in pairs for check in commands_for(node, policy, present=()))
    return tuple(dict.fromkeys(command for command in commands if is_trivial(command)))


def _planned(world: World, node: PlanNode, nodes: tuple[PlanNode, ...], proposal: Proposal) -> PlannedView:
    state = world.states.get(node.task_key)
    return _planned_view(
        node,
        proposal.policy,
        proposal.policy,
        str(phase_words(world, state)) if state else "new",
        state.issue_number if state else None,
        depth=_depth(node, {known.task_key: known for known in nodes}),
    )


def _planned_view(
    node: PlanNode, own: ExecutionPolicy, shown: ExecutionPolicy, status: str, number: int | None, depth: int = 0
) -> PlannedView:
    commands = (check for check in commands_for(node, own, present=()) if check not in shown.checks)
    return PlannedView(
        node=node,
        depth=depth,
        status=status,
        coverage=coverage(node, own),
        commands=tuple(check.run for check in commands),
        number=number,
    )


def _depth(node: PlanNode, by_key: dict[str, PlanNode]) -> int:
    depth = 0
    while node.parent in by_key:
        depth, node = depth + 1, by_key[node.parent]
    return depth


# --- sets of issues -----------------------------------------------------------------------------------------


def _of_set(member: Member, shown: ExecutionPolicy) -> PlannedView:
    status = f"{member.status}, archived to {member.archive}" if member.archive else member.status
    return _planned_view(member.node, member.plan.policy, shown, status, member.number)


def _excluded(each: Excluded) -> str:
    advice = f" ({each.remedy})" if each.remedy else ""
    return f"#{each.number} {each.title}: {each.reason}{advice}"


def _differs(member: Member, shown: ExecutionPolicy) -> Iterable[str]:
    """Where a task that was approved before has other settings than those below."""
    own = member.plan.policy
    if own == shown:
        return
    where = f"{own.publish.target_branch} of {own.publish.remote or 'this repository'}"
    yield f"#{member.number} goes on as it was approved with {member.plan.spec_path}: its code goes to {where}"
    if own.agent != shown.agent:
        yield f"#{member.number} is worked on by another agent: {own.agent.line}"


def _changes(world: World, member: Member) -> tuple[str, ...]:
    earlier = world.plans.get(member.node.task_key)
    return changes_of(earlier.nodes, (member.node,)) if member.due and earlier else ()


def _diff(world: World, member: Member) -> str:
    earlier = world.plans.get(member.node.task_key)
    return diff_of(earlier, member.plan.source, member.plan.policy) if member.due and earlier else ""


# --- what is pointed out ------------------------------------------------------------------------------------


def _environment(app: App, policy: ExecutionPolicy, proposal: Proposal | None = None) -> tuple[str, ...]:
    exempt = (proposal.spec_path,) if proposal else ()
    found = blockers_of(app, policy, exempt=exempt)
    blockers = (f"{blocker.message} ({blocker.remedy})" for blocker in found)
    missing = (words for agent in (policy.agent, *policy.reviewers) for words in _missing_agent(app, agent))
    return (*missing, *_unread(policy), *blockers, *unpushed(app, policy.publish))


def unpushed(app: App, target: PublishPolicy) -> tuple[str, ...]:
    """That work starts without what a person committed and did not push, and that their branch cannot follow then."""
    count = app.repository.ahead(target)
    if not count:
        return ()
    commits = "1 commit is" if count == 1 else f"{count} commits are"
    return (f"{commits} on your own {target.target_branch} and not on {target.remote}: work starts without (git push)",)


def _unread(policy: ExecutionPolicy) -> tuple[str, ...]:
    """That no attempt will start, because nobody could tell what it took."""
    unread = unreadable_budget(policy)
    return (f"no attempt would start: {unread}",) if unread else ()


def _missing_agent(app: App, agent: AgentSpec) -> tuple[str, ...]:
    """An agent that cannot be started here: every attempt would end before it began."""
    program = agent.program
    if program is None:
        return ("no agent is configured: agent.command in .mino/config.yml",)
    beside_the_code = "/" in program and not program.startswith("/")  # the workspace has it, or its setup makes it
    if agent.container or beside_the_code or app.which(program):
        return ()
    return (f"the agent's program {program} is not on PATH here",)


def _unknown_checks(pairs: Pairs) -> tuple[str, ...]:
    """Criteria that name a check nobody configured: a person will have to judge them (ruling R18)."""
    found: dict[str, str] = {}
    for node, policy in pairs:
        known = [check.name for check in policy.checks]
        for name in (criterion.check for criterion in node.criteria):
            if name and name not in known:
                close = suggestion(name, known, "“{}”")
                found[name] = f"“{node.title}” cites a check “{name}” that is not configured{close}"
    return tuple(found.values())


# --- Every node of a plan gets an issue and a stream, exactly once (protocol, phase 2; rulings R7, R8)


def publication_order(nodes: Sequence[PlanNode]) -> tuple[PlanNode, ...]:
    """Dependency order with every parent before its children, so that each body can name the numbers it needs.

    Among tasks that nothing orders, priority does, then the document: a lower number is also worked on first (R11).
    """
    by_key = {node.task_key: node for node in nodes}
    ordered: dict[str, PlanNode] = {}
    for key in Graph.of(nodes).order:
        chain = [by_key[key]]
        while chain[-1].parent in by_key and chain[-1].parent not in ordered:
            chain.append(by_key[chain[-1].parent])
        for node in reversed(chain):
            ordered.setdefault(node.task_key, node)
    return tuple(ordered.values())


# --- What the loop over a plan would do if all went well (`task … --what-if`); nothing is written or asked for


def foresee_plan(app: App, tasks: Sequence[tuple[PlanNode, ExecutionPolicy]], budget: int) -> tuple[ForecastStep, ...]:
    """The decisions of a new loop over *tasks*, each approved with these settings, its issue made or taken in."""
    world, nodes = read_world(app), [node for node, _ in tasks]
    judged = {node.task_key for node, policy in tasks if needs_person(node, policy)}
    free = count(1 + max((state.issue_number for state in world.states.values()), default=0))
    approved = {node.task_key: _approved(app, world, node, free) for node in publication_order(nodes)}
    children: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if node.parent:
            children[node.parent] = (*children.get(node.parent, ()), node.task_key)
    scope = Scope(
        nodes={**world.nodes, **{node.task_key: node for node in nodes}},
        states={**world.states, **approved},
        keys=tuple(node.task_key for node in nodes),
        children={**world.children, **children},
        budget_left=budget,
    )
    return tuple(forecast(scope, judged.__contains__))


def foresee_loop(app: App, loop: Loop) -> tuple[ForecastStep, ...]:
    """The decisions of a loop that is there already, from where it is."""
    world = read_world(app)
    scope = scope_of(loop, world, read_funds(app, world))
    return tuple(forecast(scope, lambda key: needs_person(world.nodes[key], world.plans[key].policy)))


def needs_person(node: PlanNode, policy: ExecutionPolicy) -> bool:
    """Whether a criterion is covered by nothing (R18); what detection would find in the workspace is not foreseen."""
    return any(item.by is None for item in coverage(node, policy))


def _approved(app: App, world: World, node: PlanNode, free: count[int]) -> TaskState:
    """Its state once it is approved: as it is if its text did not change, else that of a fresh stream."""
    state = world.states.get(node.task_key)
    if state is None:
        return as_published(node, next(free))
    if not state.done and is_changed(app, node, state):
        return as_published(node, state.issue_number)
    held = state.before if state.phase is Phase.STALE else None
    return replace(held or state, phase=Phase.READY) if state.phase is Phase.ADOPTED else held or state
