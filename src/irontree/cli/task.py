"""`irontree task`: from a document to done; one approval, then the loop, followed on this terminal (design, 7)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.cli.answering import Prepared, prepare, refuse_unknown
from irontree.cli.driving import Drive, local_server, person_of
from irontree.domain.graph import Graph
from irontree.errors import ApprovalRefused, NotEligible
from irontree.services import loop as loops
from irontree.services.approve import Proposal, approve, propose
from irontree.services.forms import approval_text
from irontree.services.intake import authorise
from irontree.services.publish import publish
from irontree.services.world import read_world

YES = frozenset({"y", "yes"})


def configure(parser: argparse.ArgumentParser) -> None:
    """The words and options of the verb."""
    parser.add_argument(
        "intent", nargs="+", metavar="INTENT", help="SPEC.md, or: resume LOOP_ID [continue|skip KEY|cancel]"
    )
    parser.add_argument("--plan", action="store_true", help="show the tree, its keys and revision; touch nothing")
    parser.add_argument("--json", action="store_true", help="with --plan: the machine form")
    parser.add_argument("--approve", metavar="REVISION", help="approve exactly this revision, for scripts")
    parser.add_argument(
        "--answer",
        action="append",
        default=[],
        metavar="'issue-N=CHOICE[:NOTE]'",
        help="answer a question beforehand; may be given several times, used in order",
    )
    parser.add_argument("--stepwise", action="store_true", help="publish the issues and stop there")
    parser.add_argument("--detach", action="store_true", help="leave the runs to a worker of the configured server")


def execute(args: argparse.Namespace) -> int:
    """Carry out the intent; the exit code."""
    prepared = prepare(args.answer)
    app = open_app(Path(args.directory), origin=Origin(actor=person_of(), channel="terminal"))
    if args.intent[0] == "resume":
        return _resume(app, args, args.intent[1:], prepared)
    document = _document(args.intent)
    proposal = propose(app, document)
    if args.plan:
        return _show_plan(app, proposal, as_json=args.json)
    return approve_and_drive(app, proposal, args, prepared)


def approve_and_drive(app: App, proposal: Proposal, args: argparse.Namespace, prepared: tuple[Prepared, ...]) -> int:
    """Ask for the approval unless it is there, publish, and follow the loop to its end."""
    if args.stepwise:
        revision = _approved_revision(app, proposal, args.approve, loop_mode=False)
        return _publish_only(app, proposal, revision)
    with local_server(app) as server:
        revision = _approved_revision(app, proposal, args.approve, loop_mode=True)
        with app.driver.hold(f"{proposal.spec_path}, publish", wait_seconds=10):
            loop = authorise(app, proposal, revision, app.origin.actor)
        refuse_unknown(prepared, _numbers(app, loop.keys))
        return Drive(app, server, list(prepared), detach=args.detach).drive(loop.id)


def _resume(app: App, args: argparse.Namespace, words: Sequence[str], prepared: tuple[Prepared, ...]) -> int:
    """`resume LOOP_ID [continue | skip TASK_KEY | cancel]` (protocol, Halt Semantics)."""
    if not words:
        raise NotEligible("which loop?", remedy="`irontree loops` lists them: irontree task resume LOOP_ID")
    loop_id, action = words[0], list(words[1:]) or ["continue"]
    loops.require_open(loops.read_loop(app, loop_id))
    match action:
        case ["cancel"]:
            loops.cancel(app, loop_id, app.origin.actor)
            print(f"Loop {loop_id} cancelled.")
            return 0
        case ["skip", task_key]:
            print("Skipped: " + ", ".join(loops.skip(app, loop_id, task_key, app.origin.actor)))
        case ["continue"]:
            pass
        case _:
            raise NotEligible(f"“{' '.join(action)}” is no way to resume", remedy="continue, skip TASK_KEY, or cancel")
    with local_server(app) as server:
        refuse_unknown(prepared, _numbers(app, loops.read_loop(app, loop_id).keys))
        return Drive(app, server, list(prepared), detach=args.detach).drive(loop_id)


def _document(words: Sequence[str]) -> Path:
    path = Path(words[0])
    if len(words) > 1 or path.suffix.lower() not in (".md", ".markdown"):
        raise NotEligible(
            f"Cannot infer intent from “{' '.join(words)}”.", remedy="give the path of a Markdown document: SPEC.md"
        )
    if not path.is_file():
        raise NotEligible(f"{path} is not a file", remedy="`irontree example > SPEC.md` writes one to start from")
    return path


def _approved_revision(app: App, proposal: Proposal, given: str | None, *, loop_mode: bool) -> str:
    """The revision that is approved: known from before, given as an option, or asked for here and now."""
    if proposal.approved and given is None:
        print(f"Revision {proposal.revision} was approved by {proposal.approved.approval.by}; going on with it.")
        return proposal.revision
    _print_markdown(approval_text(app, proposal, loop_mode=loop_mode, answer="yes"))
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise ApprovalRefused(
            f"revision {proposal.revision} is not approved, and nobody is here to ask",
            remedy=f"look at the plan above, then add --approve {proposal.revision}",
        )
    answer = input("Approve and start the loop? [yes/no] " if loop_mode else "Approve and publish? [yes/no] ")
    if answer.strip().lower() not in YES:
        raise ApprovalRefused("not approved; nothing was written")
    return proposal.revision


def _publish_only(app: App, proposal: Proposal, revision: str) -> int:
    with app.driver.hold(f"{proposal.spec_path}, publish", wait_seconds=10):
        published = publish(app, approve(app, proposal, revision, app.origin.actor, loop_mode=False))
        app.repository.back_up()
    for node, number, status in published:
        print(f"#{number}  {status:8} {node.title}")
    ready = [n for node, n, _ in published if not node.depends_on and node.executability == "executable"]
    if ready:
        print(f"Next: irontree run issue-{min(ready)}")
    return 0


def _show_plan(app: App, proposal: Proposal, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(_plan_data(proposal), indent=2, ensure_ascii=False))
        return 0
    _print_markdown(approval_text(app, proposal, loop_mode=True, answer=f"irontree task {proposal.spec_path}"))
    return 0


def _plan_data(proposal: Proposal) -> dict[str, object]:
    """`--plan --json`: the revision, the nodes in document order, and the order in which they would run."""
    nodes = proposal.requirements.nodes
    return {
        "spec_revision": proposal.revision,
        "spec_path": proposal.spec_path,
        "approved": proposal.approved is not None,
        "budget_max_transitions": proposal.budget,
        "order": list(Graph.of(nodes).order),
        "nodes": [node.model_dump(mode="json") for node in nodes],
        "policy": proposal.policy.model_dump(mode="json"),
        "warnings": [str(warning) for warning in proposal.requirements.warnings],
    }


def _numbers(app: App, keys: Sequence[str]) -> list[int]:
    states = read_world(app).states
    return sorted(states[key].issue_number for key in keys if key in states)


def _print_markdown(text: str) -> None:
    """As Markdown on a terminal, as it is elsewhere."""
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))
