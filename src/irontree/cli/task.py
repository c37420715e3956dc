"""`irontree task`: from a document to done; one approval, then the loop, followed on this terminal."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from irontree.app import App
from irontree.cli.agent_programs import require_agent
from irontree.cli.answering import Prepared, expected_numbers, prepare, refuse_unknown
from irontree.cli.approving import WAIT_SECONDS, ask_for_approval, show_plan, show_published
from irontree.cli.context import Context
from irontree.cli.documents import meant_document
from irontree.cli.driving import Drive, local_server
from irontree.cli.exit_codes import OK
from irontree.cli.finding import find_issue
from irontree.cli.foreseeing import show_loop_ahead, show_plan_ahead
from irontree.cli.issues import adopt_one, take_in_issues
from irontree.cli.parser import UsageError
from irontree.domain.graph import Graph
from irontree.domain.intent import AdoptIssue, Document, Issues, OpenIssues, ResumeLoop, Unclear, resolve_intent
from irontree.errors import NotEligible
from irontree.services.execution.landed import require_not_landed, waits_with_commit
from irontree.services.loops import loop as loops
from irontree.services.planning.approve import Choices, Proposal, planned, propose
from irontree.services.planning.intake import authorise, authorise_stepwise
from irontree.services.world import read_world


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the words and options of the verb."""
    parser.add_argument(
        "intent",
        nargs="+",
        metavar="INTENT",
        help="SPEC.md; '#12 #13'; first N; all open; adopt issue-N; resume LOOP_ID [continue|skip ISSUE|cancel]",
    )
    parser.add_argument("--plan", action="store_true", help="show the tree, its keys and revision; touch nothing")
    parser.add_argument("--what-if", action="store_true", help="show the steps that would follow; touch nothing")
    parser.add_argument("--json", action="store_true", help="with --plan or --what-if: the machine form")
    parser.add_argument("--approve", metavar="REVISION", help="approve exactly this revision, for scripts")
    parser.add_argument(
        "--answer",
        action="append",
        default=[],
        metavar="'issue-N=CHOICE[:NOTE]'",
        help="answer a question beforehand (or TASK-KEY=…); may be given several times, used in order",
    )
    parser.add_argument(
        "--keep-removed", action="store_true", help="keep open tasks that the document lost, uncancelled"
    )
    parser.add_argument("--reopen-changed", action="store_true", help="begin finished tasks again whose text changed")
    parser.add_argument("--stepwise", action="store_true", help="publish the issues and stop there")
    parser.add_argument("--detach", action="store_true", help="leave the runs to a worker of the configured server")


def run(context: Context) -> int:
    """Carry out the intent; the exit code."""
    options = context.options
    _require_fit(options)
    prepared = prepare(options.answer)
    app = context.open()
    match resolve_intent(" ".join(options.intent), lambda path: (context.folder / path).is_file()):
        case ResumeLoop() as intent:
            return _resume(context, app, intent, prepared)
        case Document() as intent:
            return _take_in(context, app, context.folder / intent.path, prepared)
        case Unclear() as intent:
            raise _refusal(intent, context.folder, app.repository.root)
        case AdoptIssue() as intent:
            return adopt_one(context, app, intent.number)
        case Issues() | OpenIssues() as intent:
            return take_in_issues(context, app, intent, prepared)


def _refusal(intent: Unclear, folder: Path, root: Path) -> NotEligible:
    """With the document that was probably meant, if it was one."""
    close = meant_document(intent.document, folder, root) if intent.document else None
    if close is None:
        return NotEligible(intent.reason, remedy=intent.remedy)
    return NotEligible(f"{intent.reason}; did you mean {close}?", remedy=f"irontree task {shlex.quote(close)}")


def _take_in(context: Context, app: App, document: Path, prepared: Sequence[Prepared]) -> int:
    options = context.options
    choices = Choices(reopen_done=options.reopen_changed, keep_removed=options.keep_removed)
    words = " ".join(options.intent)
    proposal = propose(app, document, loop_mode=not options.stepwise, choices=choices, intent=words)
    if options.plan:
        return show_plan(context, app, proposal, _plan_data(proposal))
    if options.what_if:
        ahead = [(n, proposal.policy) for n in planned(proposal) if n.task_key not in proposal.skipped]
        return show_plan_ahead(context, app, ahead, proposal.budget)
    refuse_unknown(prepared, expected_numbers(proposal.requirements, read_world(app).states))
    return approve_and_drive(context, app, proposal, prepared)


def _require_fit(options: argparse.Namespace) -> None:
    if options.json and not (options.plan or options.what_if):
        raise UsageError("--json goes with --plan or --what-if")
    if options.what_if and options.plan:
        raise UsageError("--plan shows what would be approved, --what-if what would follow: leave one of them out")
    if options.stepwise and options.detach:
        raise UsageError("--stepwise starts nothing that could be left to a worker: leave --detach out")
    if options.answer and (options.stepwise or options.detach):
        raise UsageError("--answer is for a loop that is followed here: leave --stepwise and --detach out")


def approve_and_drive(context: Context, app: App, proposal: Proposal, prepared: Sequence[Prepared]) -> int:
    """Ask for the approval unless it is there, publish, and follow the loop to its end."""
    if context.options.stepwise:
        ask_for_approval(context, app, proposal, loop_mode=False)
        return _publish_only(context, app, proposal)
    if not context.options.detach:
        require_agent(proposal.policy.agent)
    with local_server(app, detach=context.options.detach) as server:
        ask_for_approval(context, app, proposal, loop_mode=True, meanwhile=server.start)
        with app.driver.hold(f"{proposal.spec_path}, publish", wait_seconds=WAIT_SECONDS):
            loop = authorise(app, proposal, proposal.revision, app.origin.actor)
        return Drive(app, server, context.console, list(prepared), detach=context.options.detach).drive(loop.id)


def _resume(context: Context, app: App, intent: ResumeLoop, prepared: Sequence[Prepared]) -> int:
    """Go on with a halted loop, with all of it or without one task, or end it (protocol, Halt Semantics)."""
    loop = loops.require_open(loops.read_loop(app, intent.loop_id))
    if context.options.what_if:
        return _show_loop_ahead(context, app, loop, intent)
    if intent.action == "cancel":
        return _cancel(context, app, loop.id)
    refuse_unknown(prepared, _numbers(app, loop.keys))
    with local_server(app, detach=context.options.detach) as server:
        if intent.skipped:
            skipped = _skip(app, loop, _key(app, loop, intent.skipped))
            app.repository.back_up()
            context.console.write(f"Skipped: {', '.join(skipped)}\n")
        return Drive(app, server, context.console, list(prepared), detach=context.options.detach).drive(loop.id)


def _skip(app: App, loop: loops.Loop, key: str) -> tuple[str, ...]:
    world = read_world(app)
    state = world.states.get(key)
    if state and waits_with_commit(world, state):
        with app.driver.hold(f"{key}, skip", wait_seconds=WAIT_SECONDS):
            require_not_landed(app, world, state)
    return loops.skip(app, loop.id, key, app.origin.actor)


def _key(app: App, loop: loops.Loop, text: str) -> str:
    """The task that *text* names; one of the loop may have no issue yet."""
    return text if text in loop.keys else find_issue(read_world(app), text).task_key


def _show_loop_ahead(context: Context, app: App, loop: loops.Loop, intent: ResumeLoop) -> int:
    if intent.action != "continue":
        raise UsageError(f"--what-if looks at a loop that goes on: leave {intent.action} out")
    return show_loop_ahead(context, app, loop)


def _cancel(context: Context, app: App, loop_id: str) -> int:
    from irontree.flows.lifecycle.nudging import close_overtaken  # it imports Prefect, and only if a server runs

    loops.cancel(app, loop_id, app.origin.actor)
    app.repository.back_up()
    close_overtaken(app)
    context.console.write(f"Loop {loop_id} cancelled. Its issues keep their state: irontree status\n")
    return OK


def _publish_only(context: Context, app: App, proposal: Proposal) -> int:
    with app.driver.hold(f"{proposal.spec_path}, publish", wait_seconds=WAIT_SECONDS):
        published = authorise_stepwise(app, proposal, proposal.revision, app.origin.actor)
    return show_published(context, ((number, status, node) for node, number, status in published))


def _plan_data(proposal: Proposal) -> dict[str, object]:
    """`--plan --json`: the revision, the nodes in document order, and the order in which they would run."""
    nodes = proposal.requirements.nodes
    return {
        "name": proposal.name,
        "loop_id": proposal.loop_id,
        "intent": proposal.intent,
        "spec_revision": proposal.revision,
        "spec_path": proposal.spec_path,
        "approved": proposal.approved is not None,
        "skipped": list(proposal.skipped),
        "budget_max_transitions": proposal.budget,
        "order": list(Graph.of(nodes).order),
        "nodes": [node.model_dump(mode="json") for node in nodes],
        "policy": proposal.policy.model_dump(mode="json"),
        "warnings": [str(warning) for warning in proposal.requirements.warnings],
    }


def _numbers(app: App, keys: Sequence[str]) -> dict[str, int]:
    states = read_world(app).states
    return {key: states[key].issue_number for key in keys if key in states}
