"""`irontree task`: complete a document's or existing issues' tasks: one approval, then a loop followed here."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

from irontree.app import App
from irontree.cli.ahead import show_ahead
from irontree.cli.answer import Prepared, expected_numbers, prepare, refuse_unknown
from irontree.cli.console import Console, show_markdown
from irontree.cli.context import Context, Verb
from irontree.cli.drive import APPROVE, Drive, Server, ask_for_approval, local_server, show_plan, show_published
from irontree.cli.parser import OK, UsageError, argument
from irontree.cli.resume import FOLLOWED, resume_loop
from irontree.cli.trial import WAIT_SECONDS
from irontree.domain import typed
from irontree.domain.commands import AdoptIssue, DocumentIntent, Issues, OpenIssues, ResumeLoop, Unclear, resolve_intent
from irontree.domain.gates import Gate
from irontree.domain.graph import Graph
from irontree.domain.plan import Plan
from irontree.domain.text import nearest, one_line, shell_path
from irontree.errors import BranchUndecided, NotEligible
from irontree.services.answers.answers import between_steps
from irontree.services.answers.approve import adopt, approve, approve_stepwise, put_on_branch, resolve_to_approve
from irontree.services.execution.trial import top_level
from irontree.services.proposals.adoption import approval_name
from irontree.services.proposals.approval import foresee_plan
from irontree.services.proposals.guard import gate_of_issue
from irontree.services.proposals.proposal import ApprovalChoices, Draft, DraftTask, Proposal
from irontree.services.proposals.sources import propose, resolve
from irontree.services.record import read_world
from irontree.services.work.preflight import require_agent
from irontree.services.work.prompts import PromptedAttempt, task_prompt

_SUFFIXES: Final = (".md", ".markdown")


def suggested_document(typed: str, folder: Path, root: Path) -> str | None:
    """The most similarly named document, relative to *folder*: beside the *typed* path, or in *root*."""
    looked_for = folder / typed
    found = {
        path.stem.casefold(): path
        for place in (root, looked_for.parent)
        for path in sorted(place.glob("*"))
        if path.suffix.lower() in _SUFFIXES and path.is_file()
    }
    close = nearest(looked_for.stem.casefold(), found)
    return os.path.relpath(found[close], folder) if close else None


# --- `irontree task adopt issue-N`: adopt one existing issue, which then waits for approval


def adopt_one(context: Context, app: App, number: int) -> int:
    """Adopt one issue and stop: it waits for its approval (protocol, `adopt issue-N`)."""
    options = context.options
    if options.plan or options.what_if or options.approve or options.answer or options.stepwise or options.detach:
        raise UsageError(f"adopt takes issue-{number} in and stops there: for a plan or an approval, type '#{number}'")
    with app.driver.hold(f"issue-{number}, adopt", wait_seconds=WAIT_SECONDS):
        plan = adopt(app, number)
    _tell(context, plan, number, gate_of_issue(read_world(app), plan))
    return OK


def _tell(context: Context, plan: Plan, number: int, gate: Gate | None) -> None:
    node, console = plan.nodes[0], context.console
    console.write(f"#{number}  adopted  {one_line(node.title)}  ({node.task_key}, revision {plan.spec_revision})\n")
    for question in node.open_questions:
        console.write(f"  Open question: {one_line(question)}\n")
    if node.open_questions:
        console.write("Answer in the issue: edit it, or add a comment with the criteria. Nothing is approved before.\n")
        console.write(f"Next, after that: irontree task '#{number}'\n")
        return
    console.write(f"Next: {next_after_adopting(plan, number, gate)}\n")


def next_after_adopting(plan: Plan, number: int, gate: Gate | None) -> str:
    """How the issue of *plan* is approved: by these commands, or behind a gate by comments alone."""
    name = approval_name(plan)
    if gate:
        return (
            f"somebody comments `/approve {name}` on #{number}, and the work starts. Commands cannot approve it: "
            f"{gate.decide} there, while `irontree serve` looks."
        )
    return f"irontree task '#{number}'  (approves it and works on it), or {typed.answer(number, f'approve:{name}')}"


# --- `irontree task`


FindProposal = Callable[[], Proposal]


def run(context: Context) -> int:
    """Carry out the intent; returns the exit code."""
    options = context.options
    intent = resolve_intent(" ".join(options.intent), lambda path: (context.folder / path).is_file())
    _require_fit(options, of_issues=not isinstance(intent, DocumentIntent | Unclear))
    prepared = prepare(options.answer) if options.answer else ()
    app = context.open()
    match intent:
        case ResumeLoop():
            return resume_loop(context, app, intent, prepared)
        case DocumentIntent():
            return _carry_out(context, app, partial(_of_document, context, app, context.folder / intent.path), prepared)
        case Unclear():
            raise _refusal(intent, context.folder, app.repository.root)
        case AdoptIssue():
            return adopt_one(context, app, intent.number)
        case Issues() | OpenIssues():
            return _carry_out(context, app, partial(_of_issues, context, app, intent), prepared)


def _refusal(intent: Unclear, folder: Path, root: Path) -> NotEligible:
    """The refusal, suggesting the document that was probably meant, if any."""
    close = suggested_document(intent.document, folder, root) if intent.document else None
    if close is None:
        return NotEligible(intent.reason, remedy=intent.remedy)
    from_root = os.path.relpath((folder / close).resolve(), root)
    return NotEligible(f"{intent.reason}; did you mean {close}?", remedy=f"irontree task {shell_path(from_root)}")


def _of_document(context: Context, app: App, document: Path) -> Proposal:
    """What the document proposes; at a terminal, somebody is asked for the branch of a workflow if that is open."""
    try:
        return _on_branch(context, app, document, context.options.branch or "")
    except BranchUndecided as undecided:
        if context.options.json or not sys.stdin.isatty():
            raise
        return _on_branch(context, app, document, ask_for_branch(context.console, undecided))


def ask_for_branch(console: Console, undecided: BranchUndecided, read: Callable[[str], str] = input) -> str:
    """The branch that is typed; Enter alone is what is recommended. Raises *undecided* at the end of input."""
    console.write(f"{undecided.message}\n")
    recommended = undecided.choices[0][0]
    try:
        return read(f"Branch? [{recommended}] ").strip() or recommended
    except EOFError:
        raise undecided from None


def _on_branch(context: Context, app: App, document: Path, branch: str) -> Proposal:
    options = context.options
    choices = ApprovalChoices(reopen_done=options.reopen_changed, keep_removed=options.keep_removed)
    words = " ".join(options.intent)
    return propose(app, document, loop_mode=not options.stepwise, choices=choices, intent=words, branch=branch)


def _of_issues(context: Context, app: App, intent: Issues | OpenIssues) -> Proposal:
    """The proposal for these issues, resolved once; read-only use sets no label."""
    looks = context.options.plan or context.options.what_if
    return (resolve if looks else resolve_to_approve)(app, intent, " ".join(context.options.intent))


def _carry_out(context: Context, app: App, find: FindProposal, prepared: Sequence[Prepared]) -> int:
    """Show the proposal, or ask for approval and follow its loop (protocol, Intent Resolution)."""
    options = context.options
    if options.prompts:
        return _show_prompts(context, app, find())
    if options.plan:
        proposal = find()
        return show_plan(context, app, proposal, plan_data(proposal))
    if options.what_if:
        proposal = find()
        titles = {node.task_key: node.title for node, _ in proposal.todo}
        return show_ahead(context, foresee_plan(app, proposal.todo, proposal.draft.budget), titles)
    if options.stepwise:
        return _stepwise(context, app, find())
    return approve_and_drive(context, app, find, prepared)


def _show_prompts(context: Context, app: App, proposal: Proposal) -> int:
    """What the agent is told in the first attempt at each task that is due; what others deliver until then is added."""
    world, present = read_world(app), top_level(app.repository.root)
    due = [task for task in proposal.draft.tasks if task.due and task.node.executability == "executable"]
    for task in due:
        show_markdown(context.console, task_prompt(app, world, task.plan, task.node, PromptedAttempt(present=present)))
    return OK


def _require_fit(options: argparse.Namespace, *, of_issues: bool) -> None:
    if of_issues and (options.keep_removed or options.reopen_changed):
        raise UsageError("--keep-removed and --reopen-changed are for the changes of a document: leave them out")
    if of_issues and options.branch is not None:
        raise UsageError("--branch says where a workflow file is worked on: leave it out")
    if options.branch == "NAME":
        raise UsageError("NAME stands for the name of a branch: put one in its place")
    if options.branch == "":
        raise UsageError("--branch needs a value: isolated, here, or the name of a new branch")
    if options.json and not (options.plan or options.what_if):
        raise UsageError("--json goes with --plan or --what-if")
    if options.prompts and (not options.plan or options.json):
        raise UsageError("--prompts goes with --plan, and has no machine form")
    if options.what_if and options.plan:
        raise UsageError("--plan shows what would be approved, --what-if what would follow: leave one of them out")
    if options.stepwise and options.detach:
        raise UsageError("--stepwise starts nothing that could be left to a worker: leave --detach out")
    if options.answer and (options.stepwise or options.detach):
        raise UsageError("--answer is for a loop that is followed here: leave --stepwise and --detach out")


def approve_and_drive(
    context: Context,
    app: App,
    find: FindProposal,
    prepared: Sequence[Prepared],
    server_of: Callable[..., AbstractContextManager[Server]] = local_server,
) -> int:
    """Ask for approval unless already given, publish, and follow the loop to its end."""
    options = context.options
    with server_of(app, detach=options.detach) as server:
        start: Callable[[], None] = (lambda: None) if options.detach else partial(server.start, app)
        if options.approve:  # it is wanted for certain, and takes longest
            start()
        proposal = find()
        if prepared:
            refuse_unknown(prepared, _expected(app, proposal.draft))
        if not options.detach:
            for author in proposal.authors:
                require_agent(author)
        ask_for_approval(
            context,
            app,
            proposal,
            given=options.approve,
            loop_mode=True,
            meanwhile=start,
            offers_trial=not options.no_preflight,
        )
        with between_steps(app, _doing(proposal), wait_seconds=WAIT_SECONDS):
            loop = approve(app, proposal, proposal.name, app.origin.actor)
            _put_on_branch(context, app, proposal)
        return Drive(app, server, context.console, list(prepared), detach=options.detach).drive(loop.id)


def _stepwise(context: Context, app: App, proposal: Proposal) -> int:
    """Approve and publish, without starting a loop."""
    tasks = [(task.number, task.status, task.node) for task in proposal.draft.tasks]
    if proposal.draft.plans:
        ask_for_approval(
            context,
            app,
            proposal,
            given=context.options.approve,
            loop_mode=False,
            offers_trial=not context.options.no_preflight,
        )
        with between_steps(app, _doing(proposal), wait_seconds=WAIT_SECONDS):
            published = approve_stepwise(app, proposal, proposal.name, app.origin.actor)
            _put_on_branch(context, app, proposal)
        if proposal.draft.whole:
            tasks = [(number, status, node) for node, number, status in published]
    return show_published(context, tasks)


def _put_on_branch(context: Context, app: App, proposal: Proposal) -> None:
    """Have the checkout follow a workflow that asks for it, if the approval was given on a terminal in it."""
    if proposal.draft.switches:
        is_here = sys.stdin.isatty() and is_in_checkout(context.folder, app.repository.root)
        if told := put_on_branch(app, proposal.draft.policy.publish, is_here=is_here):
            context.console.note(told)


def is_in_checkout(folder: Path, root: Path) -> bool:
    """Whether *folder* is in the checkout at *root* itself, and not in a worktree or a repository below it."""
    above = (folder.resolve(), *folder.resolve().parents)
    return next((each for each in above if (each / ".git").exists()), None) == root.resolve()


def _doing(proposal: Proposal) -> str:
    """What this command tells others about why it holds the driver lock."""
    return f"{proposal.what}, {'publish' if proposal.draft.whole else 'adopt'}"


def _expected(app: App, draft: Draft) -> dict[str, int]:
    if draft.whole:
        return expected_numbers(draft.nodes, read_world(app).states)
    return {task.node.task_key: task.number for task in draft.tasks}


def plan_data(proposal: Proposal) -> dict[str, object]:
    """`--plan --json`: the name to approve, the tasks, what is left out, and warnings."""
    draft = proposal.draft
    return {
        "name": proposal.name,
        "digest": proposal.digest,
        "loop_id": proposal.loop_id,
        "intent": proposal.intent,
        **({"spec_revision": proposal.revision, "spec_path": draft.what} if draft.whole else {"query": draft.what}),
        "approved": proposal.approved,
        "skipped": list(proposal.skipped),
        "budget_max_transitions": draft.budget,
        **(_nodes_data(draft) if draft.whole else _set_data(draft)),
        "policy": proposal.draft.policy.model_dump(mode="json"),
        **({"warnings": list(draft.warnings)} if draft.whole else {}),
    }


def _nodes_data(draft: Draft) -> dict[str, object]:
    """The nodes in document order, and the order in which they would run."""
    nodes = draft.nodes
    return {"order": list(Graph.of(nodes).order), "nodes": [node.model_dump(mode="json") for node in nodes]}


def _set_data(draft: Draft) -> dict[str, object]:
    """The tasks in order, and what is left out."""
    return {
        "tasks": [_task_data(task) for task in draft.tasks],
        "excluded": [
            {"issue": each.number, "title": each.title, "reason": each.reason, "remedy": each.remedy or None}
            for each in draft.excluded
        ],
    }


def _task_data(task: DraftTask) -> dict[str, object]:
    return {
        "issue": task.number,
        "status": task.status,
        "archive": task.archive or None,
        "to_be_approved": task.due,
        "spec_revision": task.plan.spec_revision,
        "spec_path": task.plan.spec_path,
        "node": task.node.model_dump(mode="json"),
    }


VERBS: Final = {
    "task": Verb(
        run,
        argument(
            "intent",
            nargs="+",
            metavar="INTENT",
            help="SPEC.md or a workflow file; '#12 #13'; first N; all open; adopt issue-N; "
            "resume [LOOP_ID] [continue|skip ISSUE|cancel]",
        ),
        argument("--plan", action="store_true", help="show the tree, its keys and revision; touch nothing"),
        argument(
            "--prompts",
            action="store_true",
            help="with --plan: what the agent is told in its first attempt at each task",
        ),
        argument("--what-if", action="store_true", help="show the steps that would follow; touch nothing"),
        argument("--json", action="store_true", help="with --plan or --what-if: the machine form"),
        APPROVE,
        argument(
            "--branch",
            metavar="BRANCH",
            help="of a workflow file: isolated (a new hotl/SLUG), here (the branch you are on), or a new NAME",
        ),
        *FOLLOWED,
        argument("--keep-removed", action="store_true", help="keep open tasks that the document lost, uncancelled"),
        argument("--reopen-changed", action="store_true", help="begin finished tasks again whose text changed"),
        argument("--stepwise", action="store_true", help="publish the issues and stop there"),
        argument("--no-preflight", action="store_true", help="do not offer to try the commands before the approval"),
    )
}
