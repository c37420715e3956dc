"""`irontree checkup MODE`: the protocol's words for decisions, single steps and looking after the log."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from irontree.app import App
from irontree.cli import consistency
from irontree.cli.context import Context, Verb
from irontree.cli.decisions import ENDS, GOES_ON, take_answer
from irontree.cli.parser import JSON, UsageError, argument, note, positive, wait
from irontree.cli.steps import take_step
from irontree.domain.decide import Aggregate, Finalize, Step
from irontree.domain.state import TaskState
from irontree.services.answers.answers import Answer
from irontree.services.execution.steps import perform
from irontree.services.questions.questions import Question


@dataclass(frozen=True, slots=True)
class CheckupMode:
    """One mode: what it does, and whether it takes an issue and a note, each as in `note`."""

    help: str
    run: Callable[[Context], int]
    issue: str = "required"
    note: str = ""
    """`optional`, `required`, or empty if it takes none."""


def run_checkup(context: Context) -> int:
    """Run the mode, after checking its arguments."""
    options = context.options
    mode = MODES[options.mode]
    _require_fit(options, mode)
    return mode.run(context)


def _require_fit(options: argparse.Namespace, mode: CheckupMode) -> None:
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


def _moving(step: Callable[[str], Step], wanted: str) -> Callable[[Context], int]:
    """A mode that takes one step of an issue."""

    def run(context: Context) -> int:
        def move(app: App, state: TaskState) -> None:
            perform(app, step(state.task_key), wait_seconds=context.options.wait)

        return take_step(context, move, (wanted,))

    return run


def _unblocking(options: argparse.Namespace, asked: Question) -> str:
    """The choice that the options name; without any, the default choice of a block."""
    given = {"retry": options.retry, "verify": options.verify, "allow": options.allow, "approve": options.approve}
    named = next((choice for choice, value in given.items() if value), "go-on")
    return named if named != "go-on" or asked.reason == "blocked" else ""


def _answering(
    choose: Callable[[argparse.Namespace, Question], str], wanted: Collection[str]
) -> Callable[[Context], int]:
    """A mode that records a decision, then wakes the run that waits for it."""

    def run(context: Context) -> int:
        options = context.options

        def made(asked: Question | None) -> Answer:
            choice = choose(options, asked) if asked else ""
            return Answer(choice, by="", note=" ".join(options.note), count=options.retry, revision=options.approve)

        return take_answer(context, options.issue, made, options.mode, wanted)

    return run


MODES: Final[Mapping[str, CheckupMode]] = MappingProxyType(
    {
        "check": CheckupMode(
            "compare the log with itself, write nothing (the default)", consistency.run_check, issue=""
        ),
        "reconcile": CheckupMode(
            "compare the log with the forge, record what is wrong (with ISSUE: restore its log from its comments)",
            consistency.run_reconcile,
            issue="optional",
        ),
        "repair": CheckupMode(
            "make again what is derived from the log: issue texts, labels, briefs", consistency.run_repair, issue=""
        ),
        "pre-flight": CheckupMode("whether an attempt could start now", consistency.run_pre_flight),
        "accept": CheckupMode(
            "accept and publish the commit that waits, merged and checked again if the target has moved",
            _answering(lambda *_: "accept", ENDS["accept"]),
            note="optional",
        ),
        "reject": CheckupMode(
            "send it back; the note tells the next attempt what to change",
            _answering(lambda *_: "send-back", ENDS["send-back"]),
            note="required",
        ),
        "unblock": CheckupMode(
            "go on after a block, a failure or a change of what was approved",
            _answering(_unblocking, GOES_ON),
            note="optional",
        ),
        "aggregate": CheckupMode(
            "complete a parent from its children, all done", _moving(Aggregate, "checkup_aggregate_recorded")
        ),
        "finalize": CheckupMode("bind the completion evidence: done", _moving(Finalize, "checkup_done")),
    }
)


VERBS: Final = {
    "checkup": Verb(
        run_checkup,  # `run_checkup` looks which mode takes which
        argument("mode", metavar="MODE", nargs="?", default="check", choices=tuple(MODES), help="see below"),
        argument("issue", metavar="ISSUE", nargs="?", help="issue-12, #12, 12, or a task key"),
        note("why, or what the next attempt should change"),
        argument("--retry", metavar="N", type=positive, help="unblock: allow N more attempts, 1 to 50"),
        argument("--verify", action="store_true", help="unblock: verify the same commit again"),
        argument("--allow", action="store_true", help="unblock: allow what the agent was denied, and try again"),
        argument("--approve", metavar="NAME", help="unblock: approve what has this name now"),
        wait(),
        JSON,
        epilog="modes:\n" + "\n".join(f"  {name:<12}{mode.help}" for name, mode in MODES.items()),
    ),
}
