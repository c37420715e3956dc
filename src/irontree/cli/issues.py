"""`irontree task` over existing issues: one that is taken in, or a set of them with one approval and one loop."""

from __future__ import annotations

from collections.abc import Sequence

from irontree.app import App
from irontree.cli.agent_programs import require_agent
from irontree.cli.answering import Prepared, refuse_unknown
from irontree.cli.approving import WAIT_SECONDS, ask_for_approval, show_plan, show_published
from irontree.cli.context import Context
from irontree.cli.driving import Drive, local_server
from irontree.cli.exit_codes import OK
from irontree.cli.foreseeing import show_plan_ahead
from irontree.cli.parser import UsageError
from irontree.cli.text import one_line
from irontree.domain.intent import Issues, OpenIssues
from irontree.domain.plan import Plan
from irontree.services.planning.adopt import adopt, approval_name
from irontree.services.planning.authorise import approve_issues, authorise_issues, resolve_to_approve
from irontree.services.planning.resolve import Member, ResolvedPlan, resolve


def adopt_one(context: Context, app: App, number: int) -> int:
    """Take one issue in, and stop there: it waits for its approval (protocol, `adopt issue-N`)."""
    options = context.options
    if options.plan or options.what_if or options.approve or options.answer or options.stepwise or options.detach:
        raise UsageError(f"adopt takes issue-{number} in and stops there: for a plan or an approval, type '#{number}'")
    with app.driver.hold(f"issue-{number}, adopt", wait_seconds=WAIT_SECONDS):
        plan = adopt(app, number)
    _tell(context, plan, number)
    return OK


def _tell(context: Context, plan: Plan, number: int) -> None:
    node, console = plan.nodes[0], context.console
    console.write(f"#{number}  adopted  {one_line(node.title)}  ({node.task_key}, revision {plan.spec_revision})\n")
    for question in node.open_questions:
        console.write(f"  Open question: {one_line(question)}\n")
    if node.open_questions:
        console.write("Answer in the issue: edit it, or add a comment with the criteria. Nothing is approved before.\n")
        console.write(f"Next, after that: irontree task '#{number}'\n")
        return
    approve = f"irontree checkup unblock issue-{number} --approve {approval_name(plan)}"
    console.write(f"Next: irontree task '#{number}'  (approves it and works on it), or {approve}\n")


def take_in_issues(context: Context, app: App, intent: Issues | OpenIssues, prepared: Sequence[Prepared]) -> int:
    """Resolve once, show it, have it approved, and follow its loop (protocol, Intent Resolution)."""
    options = context.options
    ask_for = resolve if options.plan or options.what_if else resolve_to_approve
    resolved = ask_for(app, intent, " ".join(options.intent))
    if options.plan:
        return show_plan(context, app, resolved, _plan_data(resolved))
    if options.what_if:
        todo = (member for member in resolved.members if member.node.task_key not in resolved.skipped)
        pairs = [(member.node, member.plan.policy) for member in todo]
        return show_plan_ahead(context, app, pairs, resolved.budget)
    refuse_unknown(prepared, {member.node.task_key: member.number for member in resolved.members})
    if options.stepwise:
        return _stepwise(context, app, resolved)
    if not options.detach:
        require_agent(resolved.policy.agent)
    with local_server(app, detach=options.detach) as server:
        ask_for_approval(context, app, resolved, loop_mode=True, meanwhile=server.start)
        with app.driver.hold(f"{resolved.query}, adopt", wait_seconds=WAIT_SECONDS):
            loop = authorise_issues(app, resolved, app.origin.actor)
        return Drive(app, server, context.console, list(prepared), detach=options.detach).drive(loop.id)


def _stepwise(context: Context, app: App, resolved: ResolvedPlan) -> int:
    """Take in and approve, and stop there."""
    if resolved.due:
        ask_for_approval(context, app, resolved, loop_mode=False)
        with app.driver.hold(f"{resolved.query}, adopt", wait_seconds=WAIT_SECONDS):
            approve_issues(app, resolved, app.origin.actor)
    return show_published(context, ((member.number, member.status, member.node) for member in resolved.members))


def _plan_data(resolved: ResolvedPlan) -> dict[str, object]:
    """`--plan --json`: what is approved by which name, the tasks in order, and what is left out."""
    return {
        "name": resolved.name,
        "loop_id": resolved.loop_id,
        "intent": resolved.intent,
        "query": resolved.query,
        "approved": resolved.approved,
        "skipped": list(resolved.skipped),
        "budget_max_transitions": resolved.budget,
        "tasks": [_task_data(member) for member in resolved.members],
        "excluded": [
            {"issue": each.number, "title": each.title, "reason": each.reason, "remedy": each.remedy or None}
            for each in resolved.excluded
        ],
        "policy": resolved.policy.model_dump(mode="json"),
    }


def _task_data(member: Member) -> dict[str, object]:
    return {
        "issue": member.number,
        "status": member.status,
        "archive": member.archive or None,
        "to_be_approved": member.due,
        "spec_revision": member.plan.spec_revision,
        "spec_path": member.plan.spec_path,
        "node": member.node.model_dump(mode="json"),
    }
