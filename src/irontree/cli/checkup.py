"""`irontree checkup MODE [ISSUE] [NOTE]`: decisions, completion, and looking for trouble (protocol, phase 6)."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from irontree.app import App
from irontree.cli import consistency
from irontree.cli.context import Context
from irontree.cli.parser import UsageError, add_json, add_note, add_wait, positive
from irontree.cli.stepwise import take_step
from irontree.domain.decide import Aggregate, Finalize
from irontree.domain.halt import RULE
from irontree.domain.state import TaskState
from irontree.errors import AnswerRefused, RemoteUnavailable, ServerUnavailable
from irontree.services.answers import Answer, answer_issue
from irontree.services.execution.steps import perform
from irontree.services.hints import OpenQuestion
from irontree.services.loops.loop import open_loops
from irontree.services.next_command import goes_on
from irontree.services.open_questions import asked_about
from irontree.services.world import read_world


@dataclass(frozen=True, slots=True)
class Mode:
    """One mode: what it does, and whether it is about one issue and takes a note, each as in `note`."""

    help: str
    run: Callable[[Context], int]
    issue: str = "required"
    note: str = ""
    """`optional`, `required`, or empty: none is taken."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the mode and what goes with it; which mode takes what is checked in `run`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "modes:\n" + "\n".join(f"  {name:<12}{mode.help}" for name, mode in MODES.items())
    parser.add_argument("mode", metavar="MODE", nargs="?", default="check", choices=tuple(MODES), help="see below")
    parser.add_argument("issue", metavar="ISSUE", nargs="?", help="issue-12, #12, 12, or a task key")
    add_note(parser, "why, or what the next attempt should change")
    parser.add_argument("--retry", metavar="N", type=positive, help="unblock: allow N more attempts, 1 to 50")
    parser.add_argument("--verify", action="store_true", help="unblock: verify the same commit again")
    parser.add_argument("--allow", action="store_true", help="unblock: allow what the agent was denied, and try again")
    parser.add_argument("--approve", metavar="REVISION", help="unblock: approve the revision as it is now")
    add_wait(parser)
    add_json(parser)


def run(context: Context) -> int:
    """Run the mode, after a look at whether its words fit."""
    options = context.options
    mode = MODES[options.mode]
    _require_fit(options, mode)
    return mode.run(context)


def _require_fit(options: argparse.Namespace, mode: Mode) -> None:
    name, note = options.mode, " ".join(options.note)
    if mode.issue == "required" and not options.issue:
        raise UsageError(f"checkup {name} needs an issue: irontree checkup {name} issue-12")
    if options.issue and not mode.issue:
        raise UsageError(f"checkup {name} looks at all issues; leave {options.issue!r} out")
    if mode.note == "required" and not note.strip():
        raise UsageError(f"checkup {name} needs a note: irontree checkup {name} {options.issue} 'what to change'")
    if note and not mode.note:
        raise UsageError(f"checkup {name} takes no note: {note!r}")
    given = sum(map(bool, (options.retry, options.verify, options.allow, options.approve)))
    if name != "unblock" and given:
        raise UsageError("--retry, --verify, --allow and --approve belong to checkup unblock")
    if given > 1:
        raise UsageError("one of --retry, --verify, --allow and --approve at a time")


def _aggregate(context: Context) -> int:
    def step(app: App, state: TaskState) -> None:
        perform(app, Aggregate(state.task_key), wait_seconds=context.options.wait)

    return take_step(context, step, wanted=("checkup_aggregate_recorded",))


def _finalize(context: Context) -> int:
    def step(app: App, state: TaskState) -> None:
        perform(app, Finalize(state.task_key), wait_seconds=context.options.wait)

    return take_step(context, step, wanted=("checkup_done",))


def _accept(context: Context) -> int:
    return _answer(context, lambda _: "accept", wanted=("checkup_accept_recorded",))


def _reject(context: Context) -> int:
    return _answer(context, lambda _: "send-back", wanted=("verify_failed_retryable", "verify_failed_terminal"))


def _unblock(context: Context) -> int:
    return _answer(
        context,
        _unblocking(context.options),
        wanted=("checkup_unblocked", "task_approved", "task_published", "verify_failed_retryable"),
    )


def _unblocking(options: argparse.Namespace) -> Callable[[OpenQuestion], str]:
    """The choice that the options name; without any, the plain one of a block."""
    given = {"retry": options.retry, "verify": options.verify, "allow": options.allow, "approve": options.approve}
    named = next((choice for choice, value in given.items() if value), "go-on")
    return lambda asked: named if named != "go-on" or asked.reason == "blocked" else ""


def _answer(context: Context, choose: Callable[[OpenQuestion], str], wanted: Collection[str]) -> int:
    """Record a decision, then let the run that waits for it see it (rulings, Questions)."""

    def step(app: App, state: TaskState) -> None:
        number, options = state.issue_number, context.options
        with app.driver.hold(f"issue-{number}, {options.mode}", wait_seconds=options.wait):
            world = read_world(app)
            asked = asked_about(app, world, open_loops(app), world.state(number))
            answer = Answer(
                choice=choose(asked) if asked else "",
                by=app.origin.actor,
                note=" ".join(options.note),
                count=options.retry,
                revision=options.approve,
            )
            _record(app, number, answer, asked)
        _nudge(context, app, number)

    return take_step(context, step, wanted, beside_loop=True)


def _record(app: App, number: int, answer: Answer, asked: OpenQuestion | None) -> None:
    """Hand the answer in; where it does not fit, the commands that would are named; an outage leaves it open."""
    try:
        answer_issue(app, number, answer)
    except RemoteUnavailable as error:
        later = error.remedy or "the question stays open: answer again later"
        raise RemoteUnavailable(f"not answered: {error.message}", remedy=later) from error
    except AnswerRefused as error:
        if asked is None or not asked.answers:
            raise
        if answer.choice in {choice.name for choice in RULE[asked.reason].choices}:
            raise  # it fits, and what stands in its way has its own remedy
        fitting = " | ".join(f"`{command}`" for _, command in asked.answers)
        message = error.message if answer.choice else f"issue-{number} asks: {asked.what}"
        raise AnswerRefused(message, remedy=fitting) from error


def _nudge(context: Context, app: App, number: int) -> None:
    """Have the run that waits for this issue look at the log again; the answer is recorded, whatever happens now.

    On the private server a run goes on only while a terminal serves it: else the next command starts it.
    """
    from irontree.flows.lifecycle.nudging import nudge  # it imports Prefect, and only if a server runs
    from irontree.flows.local.settings import chosen_api_url

    served = goes_on(app) or chosen_api_url(os.environ, app.preferences().api_url)
    try:
        started = nudge(app, number)
    except ServerUnavailable as error:
        context.console.note(f"recorded; its run will see it later: {error.message}")
        return
    if started and served:
        context.console.note(started)


MODES: Final[Mapping[str, Mode]] = MappingProxyType(
    {
        "check": Mode("compare the log with itself, write nothing (the default)", consistency.check, issue=""),
        "reconcile": Mode(
            "compare the log with the forge, record what is wrong (with ISSUE: restore its log from its comments)",
            consistency.reconcile,
            issue="optional",
        ),
        "repair": Mode(
            "make again what is derived from the log: issue texts, labels, briefs", consistency.repair, issue=""
        ),
        "pre-flight": Mode("whether an attempt could start now", consistency.pre_flight),
        "accept": Mode("accept and publish exactly the commit that waits", _accept, note="optional"),
        "reject": Mode("send it back; the note tells the next attempt what to change", _reject, note="required"),
        "unblock": Mode("go on after a block, a failure or a change of what was approved", _unblock, note="optional"),
        "aggregate": Mode("complete a parent from its children, all done", _aggregate),
        "finalize": Mode("bind the completion evidence: done", _finalize),
    }
)
