"""`irontree demo`: the main job on a sample repository, offline, in a folder of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Final

from irontree.app import App
from irontree.bootstrap import set_up
from irontree.cli.answer import Prepared, answer_option, expected_numbers, prepare, refuse_unknown
from irontree.cli.context import Context, Verb, program_for, this_program
from irontree.cli.drive import APPROVE, Drive, Server, ask_for_approval
from irontree.cli.parser import UsageError, argument
from irontree.cli.trial import WAIT_SECONDS
from irontree.demo.layout import REQUIREMENTS, TOOLCHAIN, WORKFLOW, DemoPlace, Sample, issue, lay_out
from irontree.domain.agents import AgentSpec
from irontree.domain.gates import NAME
from irontree.domain.state import Phase
from irontree.domain.task_types import FEATURE
from irontree.errors import ApprovalRefused, Busy, EnvironmentRefused, NotARepository
from irontree.flows.server.private import own_server
from irontree.services.answers.approve import approve
from irontree.services.proposals.proposal import Proposal
from irontree.services.proposals.sources import propose
from irontree.services.record import World
from irontree.services.toolchain.asking import answer_request
from irontree.services.toolchain.looking import DiscussionLookout
from irontree.services.views.overview import SERVING
from irontree.services.work.preflight import require_agent
from irontree.services.work.standing import approve_standing, standing_text

FOLDER = "irontree-demo"
SHOT_AT: Final = {
    REQUIREMENTS: "share-the-costs-name-who-took-part",
    WORKFLOW: "trip-page-write-the-page",
    TOOLCHAIN: "split-an-expense",
}
"""The task during whose first attempt `--kill` kills the flows."""
ANSWERS: Final = {
    REQUIREMENTS: ("issue-6=reject:Begin with the total", "issue-6=accept:Now everybody can read it"),
    WORKFLOW: (
        "issue-4=accept:It names all four",
        "issue-5=reject:Say how to keep the page in a file",
        "issue-5=retry:1",
        "issue-5=accept:Now anybody can send it around",
    ),
    TOOLCHAIN: ("issue-2=accept:The tests count in cents too",),
}
"""What the demo answers where no person can, in the order of its questions."""


def run(context: Context) -> int:
    """Create the sample, ask for its approval, follow its loop on a server of its own, print where everything is."""
    options = context.options
    if options.workflow and options.toolchain:
        raise UsageError("a demo is of one thing: --workflow or --toolchain", "irontree demo --toolchain")
    sample = WORKFLOW if options.workflow else TOOLCHAIN if options.toolchain else REQUIREMENTS
    scripted = not (options.agent or options.approve or options.answer or sys.stdin.isatty())
    prepared = prepare(ANSWERS[sample] if scripted else options.answer)
    _refuse_wrong_words(sample, options.approve, prepared)
    if options.agent is not None:
        require_agent(AgentSpec(command=tuple(_words(options.agent))))
    folder = context.folder / options.place
    _refuse_running(context, folder)
    with own_server(os.environ) as (state, private), Server(state, None, private) as server:
        place = lay_out(folder, sample, agent=_words(options.agent or ""))
        set_up(place.repository)
        app = context.at(place.repository).open()
        server.start(app)  # nobody waits for what takes longest
        context.console.write(_introduction(place, sample, options.agent) + (_scripted(sample) if scripted else ""))
        document = _talk_over(context, app) if sample is TOOLCHAIN else sample.document
        proposal = propose(app, place.repository / document)
        given = proposal.name if scripted else options.approve
        ask_for_approval(context, app, proposal, given=given, loop_mode=True)
        with app.driver.hold(f"{proposal.what}, publish", wait_seconds=WAIT_SECONDS):
            loop = approve(app, proposal, proposal.name, app.origin.actor)
        shoot = partial(_in_the_middle, SHOT_AT[sample]) if options.kill else None
        code = Drive(app, server, context.console, list(prepared), shoot=shoot).drive(loop.id)
        if sample is TOOLCHAIN:
            _show_last_word(context, app, proposal)
    context.console.write(_where_everything_is(place, proposal.draft.policy.publish.target_branch))
    return code


def _talk_over(context: Context, app: App) -> str:
    """Open an issue and have the team talk it over; the document that it proposes."""
    title, text = issue()
    with app.driver.hold("the demo's issue", wait_seconds=WAIT_SECONDS):
        approve_standing(app, standing_text(app)[1])
        number = app.forge().create_issue(title, text, (FEATURE.type_label,)).number
    context.console.write("The team may be asked: the demo approved what `irontree toolchain approve` shows.\n\n")
    context.console.write(f"#{number} {title}\n\n{indent(text.strip(), '  ')}\n\n")
    lookout = DiscussionLookout()
    while not (talked := lookout.look(app)).proposed:
        if not talked.asked:
            raise EnvironmentRefused(f"nobody had anything to say to #{number}", remedy="look: irontree toolchain")
        for asked in talked.asked:
            answer_request(app, asked.key, wait_seconds=WAIT_SECONDS)
            said = _visible(app.forge().comments(number)[-1].body)
            context.console.write(f"{indent(said, '  ')}\n\n")
    return talked.proposed[0]


def _show_last_word(context: Context, app: App, proposal: Proposal) -> None:
    """What the lead found once all parts were done."""
    divided = proposal.draft.plans[0].plan.divides
    lead = proposal.draft.policy.lead
    comments = app.forge().comments(divided.issue_number) if divided and lead else ()
    found = [comment.body for comment in comments if lead and comment.body.startswith(f"[{lead.name}]")]
    if found:
        context.console.write(f"\n{indent(_visible(found[-1]), '  ')}\n")


def _visible(comment: str) -> str:
    """A comment without its hidden lines."""
    return "\n".join(line for line in comment.splitlines() if not line.startswith("<!-- ")).strip()


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--agent {command!r}: {error}", "irontree demo --agent COMMAND") from error


def _refuse_wrong_words(sample: Sample, name: str | None, prepared: Sequence[Prepared]) -> None:
    """Refuse wrong arguments before anything is created: the sample's tasks are the same everywhere."""
    if name and not NAME.fullmatch(name.lower()):
        raise ApprovalRefused(f"{name} does not name an approval", remedy="`irontree demo` shows the name")
    if sample is not TOOLCHAIN:  # nobody knows its parts before they were talked over
        refuse_unknown(prepared, expected_numbers(sample.tree().nodes, {}))


def _refuse_running(context: Context, folder: Path) -> None:
    """Refuse to replace the folder while a demo is running in it."""
    repository = DemoPlace(folder.resolve()).repository
    if not repository.is_dir():
        return
    try:
        app = context.at(repository).open()
    except NotARepository:
        return
    if app.lease.holder() or app.driver.holder() or app.alive(SERVING).holder():
        raise Busy(f"a demo is running in {folder}", remedy="watch it end, or give another folder: irontree demo DIR")


def _in_the_middle(task_key: str, world: World) -> bool:
    state = world.states.get(task_key)
    return state is not None and state.phase is Phase.RUNNING


def _scripted(sample: Sample) -> str:
    return (
        "There is no terminal to ask on, so the demo answers for you: it approves the plan below, then\n"
        + "".join(f"  {answer}\n" for answer in ANSWERS[sample])
        + "\n"
    )


def _introduction(place: DemoPlace, sample: Sample, agent: str | None) -> str:
    who = (
        f"The coding agent is yours: {agent}\n"
        if agent
        else "The demo's coding agent replays prepared patches; no model is called, and\n"
        "nothing leaves this machine. To put a real one in its place:\n"
        f"  {this_program()} demo --agent 'claude -p --permission-mode acceptEdits'\n"
    )
    moved = f"What an earlier demo made is in {place.earlier}\n" if place.earlier else ""
    what = (
        "A team of three talks an issue over, divides it and does the parts.\n"
        if sample is TOOLCHAIN
        else f"Its {sample.document} will become a tree of issues, worked through one by one.\n"
    )
    return f"A small Python project, with its history and a bare remote, is in\n  {place.folder}\n{what}{who}{moved}\n"


def _where_everything_is(place: DemoPlace, branch: str) -> str:
    state = place.repository / ".mino"
    shown = [
        ("the published commits", f"git -C {place.remote} log --oneline {branch}"),
        ("the event log", str(state / "events")),
        ("issues with their comments", str(state / "forge")),
        ("briefs", str(state / "briefs")),
        ("reports", str(state / "reports")),
        ("look around", f"{program_for(place.repository)} status"),
    ]
    lines = "".join(f"  {what:28}{where}\n" for what, where in shown)
    first = "" if shutil.which("irontree") else f", with {Path(sys.executable).parent} on your PATH"
    return (
        f"\nWhere everything is:\n{lines}\nOn your own repository{first}:\n"
        "  irontree init\n  irontree example > SPEC.md\n  irontree task SPEC.md\n"
    )


VERBS: Final = {
    "demo": Verb(
        run,
        argument("place", nargs="?", default=FOLDER, metavar="DIR", help=f"where to lay it out (./{FOLDER})"),
        APPROVE,
        answer_option("answer a question beforehand"),
        argument("--agent", metavar="COMMAND", help="a real coding agent instead of the prepared patches"),
        argument("--workflow", action="store_true", help="work through a HOTL workflow file, step by step"),
        argument("--toolchain", action="store_true", help="have a team talk an issue over, divide it and do it"),
        argument("--kill", action="store_true", help="shoot the flows in the middle of an attempt, and go on"),
    )
}
