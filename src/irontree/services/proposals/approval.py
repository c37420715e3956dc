"""What an approval shows, whatever its source: the Resolved Plan with everything that it permits (R6, R17)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from irontree.app import App
from irontree.domain import typed
from irontree.domain.agents import AgentSpec
from irontree.domain.checks import checks_for, coverage, left_to_people
from irontree.domain.command_lines import is_trivial
from irontree.domain.decide import ForecastStep, Scope, as_published, forecast
from irontree.domain.graph import Graph
from irontree.domain.instructions import ASSIGNED, TOLD, Instructions, instructions_for, untold
from irontree.domain.machine import held
from irontree.domain.plan import ExecutionPolicy, PlanNode
from irontree.domain.requirements.markdown import undisplayed
from irontree.domain.spec import changes_of
from irontree.domain.state import Phase, TaskState
from irontree.domain.text import lookalikes, shown_name, suggestion, times
from irontree.services.loops.choice import scope_of
from irontree.services.loops.funds import read_funds
from irontree.services.loops.loop import Loop
from irontree.services.proposals.guard import guarded
from irontree.services.proposals.proposal import Draft, DraftPlan, DraftTask, Excluded, Proposal
from irontree.services.record import World, read_world
from irontree.services.views.checkout import not_part_of_work, unpushed
from irontree.services.views.overview import named
from irontree.services.work.preflight import blockers_of, diff_of, is_changed, unreadable_budget

_WITH_WORK: Final = frozenset({Phase.COMMITTED, Phase.PENDING})
"""Phases with a commit: the agent is called again only if the commit fails."""
Estimated = tuple[PlanNode, ExecutionPolicy, TaskState | None]
"""A task, the settings that it is approved with, and its state; None if it begins, or begins again."""


def estimate(tasks: Iterable[Estimated]) -> str:
    """A sentence on how often agents will be called, at least and at most: reviewers after each attempt that passes."""
    calls = [
        (policy.author_of(node), policy.reviewers_of(node), _calls(node, policy, state))
        for node, policy, state in tasks
        if node.executability == "executable"
    ]
    first, most = sum(first for _, _, (first, _) in calls), sum(most for _, _, (_, most) in calls)
    if not most:
        return "the agent is not called: nothing is left for it to do"
    seconds = sum(most * sum(each.wall_seconds for each in (author, *looking)) for author, looking, (_, most) in calls)
    reviews = sum(most * len(looking) for _, looking, (_, most) in calls)
    asked = f", and reviewers are at most {times(reviews)}" if reviews else ""
    called = f"called {times(first)}" if first else "not called"
    at_most = f"at most {times(most)}{asked} ({seconds / 3600:,.0f} h)"
    return f"the agent is {called} if every first attempt passes, and {at_most}"


def _calls(node: PlanNode, policy: ExecutionPolicy, state: TaskState | None) -> tuple[int, int]:
    """Agent calls for one task: if the next attempt passes, and at most until a user has to decide."""
    if state is None:
        return 1, 1 + policy.retries_of(node)
    now = held(state)
    if now.done or now.phase is Phase.VERIFIED:
        return 0, 0
    left = max(now.total_attempts - now.attempt_count, 0) + (now.phase is Phase.RUNNING)
    return 0 if now.phase in _WITH_WORK else min(left, 1), left


def approval_text(app: App, proposal: Proposal, *, loop_mode: bool, answer: str = "", command: str = "") -> str:
    """The text of the approval: tree, commands, branch and remote, criteria and their coverage, Loop Mode by name.

    *answer* is what approves it where it is asked; where it is only shown, *command* asks.
    """
    view = approval_view(app, proposal, loop_mode=loop_mode, answer=answer, command=command)
    return app.renderer.render("forms/intake.md", approval=view)


def approval_view(
    app: App, proposal: Proposal, *, loop_mode: bool, answer: str = "", command: str = ""
) -> dict[str, object]:
    """What an approval shows, by the names in its template: the frozen tree, every command, where code goes."""
    draft, policy, world = proposal.draft, proposal.draft.policy, read_world(app)
    pairs = [(task.node, task.plan.policy) for task in draft.tasks]
    skipped = frozenset(proposal.skipped)
    todo = [task for task in draft.tasks if task.node.task_key not in skipped]
    return {
        "repository": app.repository.root.name,
        "name": proposal.name,
        "spec_path": shown_name(proposal.what),
        "tasks": tuple(_planned(task, policy) for task in draft.tasks),
        "policy": policy,
        # What is looked for where nothing is configured; empty if each task lists commands, which replace it.
        "detection": policy.detection if any(_may_detect(node) for node, _ in pairs) else (),
        **_checked(pairs, draft),
        "switches": draft.switches,
        "budget": draft.budget,
        "loop_mode": loop_mode,
        "answer": answer,
        "command": command,
        # What is not approved here, but in comments on the issues.
        "guarded": tuple((each.gate.decide, each.remedy) for each in guarded(app, world, proposal)),
        # The address of the repository whose issues, comments and labels are written; empty for issues in files.
        "tracker": app.preferences().tracker,
        "estimate": estimate(_goes_on(world, proposal, task) for task in todo),
        "trivial": _trivial(pairs),
        "warnings": (*draft.warnings, *_environment(app, proposal), *_unmet(pairs)),
        # Commands, branches and paths in which a character may look like another one.
        "lookalikes": lookalikes_in(proposal),
        # Tasks whose author has no write access: data, never instructions (R20).
        "quotes": tuple(node for node in draft.nodes if node.outsider),
        # Whether the tasks' texts are shown: unlike a document, an issue may be changed by others in the meantime.
        "in_full": not draft.whole,
        # What is in those texts and not on the issue's page.
        "undisplayed": tuple(dict.fromkeys(hidden for node in draft.nodes for hidden in undisplayed(node.text))),
        "before": before_words(world, proposal),
        # What changed since the last approval, one line each.
        "changes": tuple(line for each in draft.plans for line in _changes(each)),
        "diff": "\n".join(filter(None, map(_diff, draft.plans))),
        "loop_id": proposal.loop_id,
        "goal": "this task is done" if len(todo) == 1 else f"all {len(todo)} tasks are done",
        # What was typed, and what it was resolved to.
        "intent": shown_name(proposal.intent),
        "query": shown_name(proposal.what),
        # What was requested but is left out, with the reason.
        "excluded": (*_left_out(world, proposal), *map(_excluded, draft.excluded)),
        # What has to be answered in the issues before this can be approved.
        "questions": tuple(question for task in proposal.due for question in task.node.open_questions),
    }


def _told(pairs: Pairs) -> tuple[Instructions, ...]:
    """The steps that the agents of these tasks are told, each once."""
    found = (
        instructions_for(policy.instructions, action, node.type)
        for action in TOLD
        for node, policy in pairs
        if node.executability == "executable" and (action == ASSIGNED or not policy.publish.pushes)
    )
    return tuple(dict.fromkeys(filter(None, found)))


def _checked(pairs: Pairs, draft: Draft) -> dict[str, object]:
    """What agents are told to do, and the configured checks that run: none do for steps of a workflow file."""
    nodes = [node for node, _ in pairs]
    configured = any(node.is_checked_as_configured for node in nodes)
    return {
        "told": _told(pairs),
        "divides": any(each.plan.divides for each in draft.plans),
        "configured": configured,
        "checks": draft.policy.checks if configured else (),
        "steps": any(node.step for node in nodes),
        "browsed": any(node.step and node.step.browsed for node in nodes),
    }


def _may_detect(node: PlanNode) -> bool:
    """Whether commands may be found for the task: it runs, and lists none of its own."""
    return node.is_checked_as_configured and not node.verification


def before_words(world: World, proposal: Proposal) -> tuple[str, ...]:
    """What happens to earlier tasks: removed ones, and finished ones that changed or have a new part (R7)."""
    draft, again = proposal.draft, proposal.choices.reopen_done
    stays = {node.task_key for node in proposal.kept}
    return (
        *(
            f"{named(world, key)} is done, but its text changed: it {'begins again' if again else 'stays done'}"
            for key in draft.changed_done
        ),
        *(f"{named(world, key)} is done, but has an unfinished part: it begins again" for key in draft.grown),
        *(
            f"{named(world, node.task_key)} is {'kept' if node.task_key in stays else 'cancelled'}: "
            f"it is no longer in {proposal.what}"
            for node in draft.removed
        ),
    )


def _left_out(world: World, proposal: Proposal) -> tuple[str, ...]:
    """Tasks skipped in the loop that continues, and how to work on them again (R17)."""
    again = f"to work on it again, end that loop first: {typed.stop(proposal.loop_id)}"
    return tuple(f"{named(world, key)}: skipped in loop {proposal.loop_id} ({again})" for key in proposal.skipped)


Pairs = Iterable[tuple[PlanNode, ExecutionPolicy]]
"""Tasks, each with the settings that it is approved with."""


def _goes_on(world: World, proposal: Proposal, task: DraftTask) -> Estimated:
    """The task with its state; with None if it begins, or begins again."""
    key = task.node.task_key
    begins = task.due or key in proposal.reopened
    return task.node, task.plan.policy, None if begins else world.states.get(key)


def _trivial(pairs: Pairs) -> tuple[str, ...]:
    commands = (check.does for node, policy in pairs for check in checks_for(node, policy, present=()))
    browser = (policy.browser for node, policy in pairs if node.step and node.step.browsed and policy.browser)
    return tuple(dict.fromkeys(command for command in (*commands, *browser) if is_trivial(command)))


def _planned(task: DraftTask, shown: ExecutionPolicy) -> dict[str, object]:
    """A task as the approval shows it: what happens to it, and what covers its criteria."""
    own = task.plan.policy
    # Its checks other than the configured ones.
    commands = (check for check in checks_for(task.node, own, present=()) if check not in shown.checks)
    return {
        "node": task.node,
        "depth": task.depth,
        "status": f"{task.status}, archived to {task.archive}" if task.archive else task.status,
        "coverage": coverage(task.node, own),
        "commands": tuple(check.does for check in commands),
        # Whether a reviewer may cite evidence for what nothing else covers.
        "reviewed": bool(own.reviewers_of(task.node)),
        **_gate(task.node, own),
        "number": task.number or None,
    }


def _gate(node: PlanNode, policy: ExecutionPolicy) -> dict[str, object]:
    """Whether the gate of a step waits for a person, and why."""
    step = node.step
    if step is None or step.gate != "human":
        return {"gate_waits": False, "gate_why": ""}
    waits = any(item.by is None for item in coverage(node, policy) if item.criterion.text == step.gate_text)
    if not waits:
        return {"gate_waits": False, "gate_why": "auto_approve is true, and the risk is not high"}
    why = "gates.acceptance is configured" if step.approves_itself else "auto_approve is not true, or the risk is high"
    return {"gate_waits": True, "gate_why": why}


def _excluded(each: Excluded) -> str:
    advice = f" ({each.remedy})" if each.remedy else ""
    return f"#{each.number} {each.title}: {each.reason}{advice}"


def _changes(each: DraftPlan) -> tuple[str, ...]:
    return changes_of(each.earlier.nodes, each.plan.nodes) if each.earlier else ()


def _diff(each: DraftPlan) -> str:
    return diff_of(each.earlier, each.plan.source, each.plan.policy) if each.earlier else ""


# --- Warnings


def _environment(app: App, proposal: Proposal) -> tuple[str, ...]:
    policy = proposal.draft.policy
    target, documents = policy.publish, (proposal.what,) if proposal.draft.whole else ()
    blockers = (f"{blocker.message} ({blocker.remedy})" for blocker in blockers_of(app, policy))
    agents = dict.fromkeys(agent for node, own in proposal.to_run for agent in own.called_for(node))
    missing = (words for agent in agents for words in _missing_agent(app, agent))
    return (*missing, *_unread(proposal), *blockers, *not_part_of_work(app, target, documents), *unpushed(app, target))


def _unread(proposal: Proposal) -> tuple[str, ...]:
    """Warnings that attempts would not start, because what they spend could not be measured."""
    found = dict.fromkeys(unreadable_budget(policy, node) for node, policy in proposal.to_run)
    return tuple(f"no attempt would start: {unread}" for unread in found if unread)


def _missing_agent(app: App, agent: AgentSpec) -> tuple[str, ...]:
    """A warning about an agent that cannot be started here, so that every attempt would fail at once."""
    program = agent.program
    if program is None:
        return ("no agent is configured: agent.command in .mino/config.yml",)
    beside_the_code = "/" in program and not program.startswith("/")  # it is in the workspace, or made by its setup
    if agent.place.container or beside_the_code or app.which(program):
        return ()
    return (f"{program}, the program of the {agent.known_as}, is not on PATH here",)


def lookalikes_in(proposal: Proposal) -> tuple[tuple[str, str], ...]:
    """Commands, names, branches and paths of what is approved that hold such characters, with their names (R6)."""
    pairs = proposal.todo
    policies = tuple({policy.digest: policy for policy in (proposal.draft.policy, *(own for _, own in pairs))}.values())
    words = (
        proposal.what,
        *(word for policy in policies for word in _words_of(policy)),
        *(check.does for node, policy in pairs for check in checks_for(node, policy, present=())),
        *(path for node, _ in pairs for path in node.target_files),
    )
    return tuple((word, ", ".join(found)) for word in dict.fromkeys(words) if (found := lookalikes(word)))


def _words_of(policy: ExecutionPolicy) -> tuple[str, ...]:
    detected = (check.run for row in policy.detection for check in row.commands)
    publish = policy.publish
    target = (publish.target_branch, publish.merge_into or "", publish.remote or "", policy.promotion.docs_path)
    workspace = (*policy.workspace.setup, *policy.workspace.copy_files)
    checks = (*(check.run for check in policy.checks), *detected, *((policy.browser,) if policy.browser else ()))
    members = (word for member in policy.team for word in (member.display, *member.capabilities, member.account or ""))
    return (*(agent.line for agent in policy.agents), *members, *checks, *workspace, *target)


def _unmet(pairs: Pairs) -> tuple[str, ...]:
    """Criteria that name a check that is not configured (a user judges them, R18), and steps that no agent takes."""
    found: dict[str, str] = {}
    for node, policy in pairs:
        found |= {line: line for line in untold(policy.instructions)}
        known = [check.name for check in policy.checks]
        for name in (criterion.check for criterion in node.criteria):
            if name and name not in known:
                close = suggestion(name, known, "“{}”")
                found[name] = f"“{node.title}” cites a check “{name}” that is not configured{close}"
    return tuple(found.values())


# --- The order in which issues are published


def publication_order(nodes: Sequence[PlanNode]) -> tuple[PlanNode, ...]:
    """Dependency order with every parent before its children, so that each body can name the numbers it needs.

    Tasks that nothing orders come by priority, then as in the document: lower numbers are worked on first (R11).
    """
    graph = Graph.of(nodes)
    ordered = dict.fromkeys(each for key in graph.order for each in (*reversed(graph.ancestors(key)), key))
    return tuple(graph.nodes[key] for key in ordered)


# --- What the loop over a plan would do if all went well


def foresee_plan(app: App, tasks: Sequence[tuple[PlanNode, ExecutionPolicy]], budget: int) -> tuple[ForecastStep, ...]:
    """The decisions of a new loop over *tasks*, each with its settings, once their issues are published or adopted."""
    world, nodes = read_world(app), [node for node, _ in tasks]
    judged = {node.task_key for node, policy in tasks if needs_person(node, policy)}
    free = count(1 + max((state.issue_number for state in world.states.values()), default=0))
    approved = {node.task_key: _approved(app, world, node, free) for node in publication_order(nodes)}
    graph = Graph.of(nodes)
    children = {node.parent: graph.children(node.parent) for node in nodes if node.parent}
    scope = Scope(
        nodes={**world.nodes, **{node.task_key: node for node in nodes}},
        states={**world.states, **approved},
        keys=tuple(node.task_key for node in nodes),
        children={**world.children, **children},
        budget_left=budget,
        go_on=frozenset(node.task_key for node, policy in tasks if policy.on_halt == "go_on"),
    )
    return tuple(forecast(scope, judged.__contains__))


def foresee_loop(app: App, loop: Loop) -> tuple[ForecastStep, ...]:
    """The decisions of an existing loop, from its present state."""
    world = read_world(app)
    scope = scope_of(loop, world, read_funds(app, world))
    return tuple(forecast(scope, lambda key: needs_person(world.nodes[key], world.plans[key].policy)))


def needs_person(node: PlanNode, policy: ExecutionPolicy) -> bool:
    """Whether nothing covers a criterion (R18); checks that would be detected in the workspace are not foreseen."""
    return bool(left_to_people(coverage(node, policy)))


def _approved(app: App, world: World, node: PlanNode, free: count[int]) -> TaskState:
    """Its state once it is approved: unchanged if its text is, otherwise that of a fresh stream."""
    state = world.states.get(node.task_key)
    if state is None:
        return as_published(node, next(free))
    if not state.done and is_changed(app, node, state):
        return as_published(node, state.issue_number)
    held = state.before if state.phase is Phase.STALE else None
    return replace(held or state, phase=Phase.READY) if state.phase is Phase.ADOPTED else held or state
