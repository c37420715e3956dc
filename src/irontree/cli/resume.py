"""`irontree resume [LOOP]`: go on with a halted loop, follow it here, and ask what it waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from irontree.app import App
from irontree.cli.ahead import show_ahead
from irontree.cli.answer import Prepared, answer_option, prepare, refuse_unknown
from irontree.cli.context import Context, Verb, find_issue
from irontree.cli.decisions import skip_task, stop_loop
from irontree.cli.drive import Drive, local_server
from irontree.cli.parser import Declaration, UsageError, argument
from irontree.domain.commands import ResumeLoop
from irontree.services.loops import loop as loops
from irontree.services.proposals.approval import foresee_loop
from irontree.services.record import read_world


def run(context: Context) -> int:
    """Go on with the loop that is named, or else the one that is open."""
    options = context.options
    if options.json and not options.what_if:
        raise UsageError("--json goes with --what-if")
    if options.answer and options.detach:
        raise UsageError("--answer is for a loop that is followed here: leave --detach out")
    prepared = prepare(options.answer)
    return resume_loop(context, context.open(), ResumeLoop(options.loop_id), prepared)


def resume_loop(context: Context, app: App, intent: ResumeLoop, prepared: Sequence[Prepared]) -> int:
    """Resume a halted loop, complete or without one task, or end it (protocol, Halt Semantics)."""
    options = context.options
    loop = loops.require_open(loops.read_loop(app, intent.loop_id)) if intent.loop_id else loops.only_open(app)
    if options.what_if:
        if intent.action != "continue":
            raise UsageError(f"--what-if looks at a loop that goes on: leave {intent.action} out")
        titles = {key: node.title for key, node in read_world(app).nodes.items()}
        return show_ahead(context, foresee_loop(app, loop), titles)
    if intent.action == "cancel":
        return stop_loop(context, app, loop.id)
    if prepared:
        refuse_unknown(prepared, _numbers(app, loop.keys))
    with local_server(app, detach=options.detach) as server:
        if intent.skipped:
            skipped = skip_task(app, loop.id, _key(app, loop, intent.skipped))
            app.repository.back_up()
            context.console.write(f"Skipped: {', '.join(skipped)}\n")
        return Drive(app, server, context.console, list(prepared), detach=options.detach).drive(loop.id)


def _key(app: App, loop: loops.Loop, text: str) -> str:
    """The task that *text* names; a task of the loop may have no issue yet."""
    return text if text in loop.keys else find_issue(read_world(app), text).task_key


def _numbers(app: App, keys: Sequence[str]) -> Mapping[str, int]:
    states = read_world(app).states
    return {key: states[key].issue_number for key in keys if key in states}


FOLLOWED: Final[tuple[Declaration, ...]] = (
    answer_option("answer a question beforehand (or TASK-KEY=…); may be given several times, used in order"),
    argument("--detach", action="store_true", help="leave the runs to a worker of the configured server"),
)
"""The options of whatever follows a loop."""
VERBS: Final = {
    "resume": Verb(
        run,
        argument("loop_id", metavar="LOOP", nargs="?", help="which one (default: the one that is open)"),
        argument("--what-if", action="store_true", help="show the steps that would follow; touch nothing"),
        argument("--json", action="store_true", help="with --what-if: the machine form"),
        *FOLLOWED,
    )
}
