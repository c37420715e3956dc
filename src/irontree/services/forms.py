"""The text of every question a person is asked: everything needed to decide, in one place (design, section 6)."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.events import IssueEvent, Record
from irontree.domain.halt import choices
from irontree.domain.plan import AgentSpec, ExecutionPolicy, Plan, PlanNode
from irontree.domain.state import TaskState
from irontree.domain.verdict import commands_for, coverage, is_trivial
from irontree.errors import IrontreeError
from irontree.services.approve import Proposal, kept, propose_again, what_changed
from irontree.services.history import failure_of
from irontree.services.loop import read_loop
from irontree.services.overview import title_of, waits_for
from irontree.services.report import changed_files, check_defining, newest_results
from irontree.services.steps import Question
from irontree.services.views import (
    ApprovalView,
    FormView,
    LoopFormView,
    PlannedView,
    WaitingView,
    form_template,
)
from irontree.services.world import World, read_world

DIFF_LINES = 200


def question_text(app: App, question: Question) -> str:
    """The Markdown description of the question's form."""
    if question.issue_number is None:
        return _loop_text(app, question)
    return app.renderer.render(form_template(question.rule.reason), form=issue_form(app, question))


def approval_text(app: App, proposal: Proposal, *, loop_mode: bool, answer: str) -> str:
    """The one approval: tree, commands, branch and remote, criteria with their cover, Loop Mode by name."""
    view = approval_view(app, proposal, loop_mode=loop_mode, answer=answer)
    return app.renderer.render("forms/intake.md", approval=view)


def approval_view(app: App, proposal: Proposal, *, loop_mode: bool, answer: str) -> ApprovalView:
    """What the approval shows."""
    nodes, policy = proposal.requirements.nodes, proposal.policy
    world = read_world(app)
    commands = [check.run for node in nodes for check in commands_for(node, policy, present=())]
    return ApprovalView(
        revision=proposal.revision,
        spec_path=proposal.spec_path,
        tasks=tuple(_planned(world, node, nodes, proposal) for node in nodes),
        policy=policy,
        budget=proposal.budget,
        loop_mode=loop_mode,
        answer=answer,
        estimate=_estimate(nodes, policy),
        trivial=tuple(dict.fromkeys(command for command in commands if is_trivial(command))),
        warnings=(*(str(warning) for warning in proposal.requirements.warnings), *_warnings(app, proposal)),
        before=_before(world, proposal),
        diff=what_changed(proposal.earlier, proposal) if proposal.earlier else "",
    )


def _before(world: World, proposal: Proposal) -> tuple[str, ...]:
    """What becomes of tasks that were there before: removed ones, and finished ones that changed (ruling R7)."""
    stays = {node.task_key for node in kept(proposal)}
    again = proposal.choices.reopen_done
    return (
        *(
            f"{_named(world, key)} is done, but its text changed: it {'begins again' if again else 'stays done'}"
            for key in proposal.changed_done
        ),
        *(
            f"{_named(world, node.task_key)} is {'kept' if node.task_key in stays else 'cancelled'}: "
            f"it is no longer in {proposal.spec_path}"
            for node in proposal.removed
        ),
    )


def _named(world: World, task_key: str) -> str:
    state = world.states.get(task_key)
    return f"#{state.issue_number} {title_of(world, task_key)}" if state else title_of(world, task_key)


def _estimate(nodes: tuple[PlanNode, ...], policy: ExecutionPolicy) -> str:
    """How often the agent is called, and the bounds of it (design, section 7)."""
    tasks = sum(node.executability == "executable" for node in nodes)
    attempts = tasks * (1 + policy.max_retry_count)
    hours = attempts * policy.agent.wall_seconds / 3600
    most = f"at most {attempts} times ({hours:,.0f} h)"
    return f"the agent is called {tasks} times if every first attempt passes, and {most}"


def _planned(world: World, node: PlanNode, nodes: tuple[PlanNode, ...], proposal: Proposal) -> PlannedView:
    state = world.states.get(node.task_key)
    return PlannedView(
        node=node,
        depth=_depth(node, {known.task_key: known for known in nodes}),
        status=state.phase.value if state else "new",
        coverage=coverage(node, proposal.policy),
        commands=tuple(
            c.run for c in commands_for(node, proposal.policy, present=()) if c not in proposal.policy.checks
        ),
        number=state.issue_number if state else None,
    )


def _depth(node: PlanNode, by_key: dict[str, PlanNode]) -> int:
    depth = 0
    while node.parent in by_key:
        depth, node = depth + 1, by_key[node.parent]
    return depth


def _warnings(app: App, proposal: Proposal) -> tuple[str, ...]:
    policy = proposal.policy
    found = app.repository.preflight(policy.publish, policy.workspace, exempt=(proposal.spec_path,))
    blockers = (f"{blocker.message} ({blocker.remedy})" for blocker in found)
    return (*_missing_agent(app, policy.agent), *blockers, *_unknown_checks(proposal))


def _missing_agent(app: App, agent: AgentSpec) -> tuple[str, ...]:
    """An agent that cannot be started here: every attempt would end before it began."""
    if not agent.command:
        return ("no agent is configured: agent.command in .mino/config.yml",) if agent.adapter == "command" else ()
    program = agent.command[0]
    beside_the_code = "/" in program and not program.startswith("/")  # the workspace has it, or its setup makes it
    if beside_the_code or app.which(program):
        return ()
    return (f"the agent's program {program} is not on PATH here",)


def _unknown_checks(proposal: Proposal) -> tuple[str, ...]:
    """Criteria that name a check nobody configured: a person will have to judge them (ruling R18)."""
    known = {check.name for check in proposal.policy.checks}
    cited = ((node, criterion.check) for node in proposal.requirements.nodes for criterion in node.criteria)
    missing = {name: node.title for node, name in cited if name and name not in known}
    return tuple(f"“{title}” cites a check “{name}” that is not configured" for name, title in missing.items())


def issue_form(app: App, question: Question) -> FormView:
    """What the form of an issue shows."""
    world = read_world(app)
    state = world.state(question.issue_number or 0)
    stream, plan = app.log.read(state.issue_number), world.plans.get(state.task_key)
    record = stream.records[-1]
    report = newest_results(app, state)
    now = _proposal_now(app, question, plan)
    return FormView(
        number=state.issue_number,
        title=title_of(world, state.task_key),
        url=f"#{state.issue_number}",
        reason=_reason(state, record),
        choices=choices(question.rule, in_loop=question.loop_id is not None),
        answer=_answer_command(question),
        remedy=str(record.meta.get("remedy", "")),
        attempt=state.attempt_count,
        attempts=state.total_attempts,
        anchor=state.anchor,
        publish=plan.policy.publish if plan else None,
        coverage=coverage(world.nodes[state.task_key], plan.policy) if plan else (),
        results=report.results if report else (),
        files_changed=changed_files(app, state),
        warnings=check_defining(app, state) + (report.warnings if report else ()),
        failure=failure_of(app, stream, state),
        report_path=state.report_path,
        revision=now.name if now else None,
        diff=what_changed(plan, now) if plan and now else _diff(app, state),
        before=_before(world, now) if now else (),
    )


def _answer_command(question: Question) -> str:
    """Where a terminal shows the same question, and how to answer it."""
    if question.loop_id:
        return f"irontree task resume {question.loop_id}"
    return f"irontree show issue-{question.issue_number}"


def _reason(state: TaskState, record: Record[IssueEvent]) -> str:
    reasons = record.meta.get("reasons") or [record.meta.get("reason", "")]
    return state.problem or "; ".join(str(reason) for reason in reasons if reason) or state.blocking_check or ""


def _diff(app: App, state: TaskState) -> str:
    """What the task changed; long diffs are cut, for the form must stay readable."""
    if not (state.has_code and state.base_sha and state.commit):
        return ""
    lines = app.repository.diff(state.base_sha, state.commit).splitlines()
    rest = len(lines) - DIFF_LINES
    return "\n".join([*lines[:DIFF_LINES], f"... and {rest} more lines"] if rest > 0 else lines)


def _proposal_now(app: App, question: Question, plan: Plan | None) -> Proposal | None:
    """What approving would approve; None where nothing is to be approved or the document is broken."""
    if question.rule.reason != "reapproval_required" or plan is None:
        return None
    try:
        return propose_again(app, plan)
    except (IrontreeError, OSError):
        return None


def _loop_text(app: App, question: Question) -> str:
    loop, world = read_loop(app, question.loop_id or ""), read_world(app)
    states = [world.states[key] for key in loop.keys if key in world.states]
    view = LoopFormView(
        loop_id=loop.id,
        reason=question.detail or question.rule.title,
        choices=question.rule.choices,
        answer=f"irontree task resume {loop.id}",
        done=sum(1 for state in states if state.done),
        total=len(loop.keys),
        budget_used=loop.entity.budget_used,
        budget=loop.entity.budget_max_transitions,
        waiting=tuple(_waiting(world, state) for state in states if not state.done),
    )
    return app.renderer.render(form_template(question.rule.reason), form=view)


def _waiting(world: World, state: TaskState) -> WaitingView:
    title = title_of(world, state.task_key)
    return WaitingView(state.issue_number, title, state.phase.value, waits_for(world, state.task_key))
