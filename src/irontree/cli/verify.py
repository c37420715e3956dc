"""`irontree verify ISSUE [NOTE]`: the checks at exactly the issue's commit, and its publication if they pass."""

from __future__ import annotations

import argparse

from irontree.app import App
from irontree.cli.context import Context
from irontree.cli.parser import add_issue, add_json, add_note, add_wait
from irontree.cli.stepwise import take_step
from irontree.domain.decide import Verify
from irontree.domain.state import TaskState
from irontree.services.execution.steps import perform
from irontree.services.timer import let_time_pass


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the issue, and a note for the report."""
    add_issue(parser)
    add_note(parser, "words for the report, if there is one")
    add_wait(parser, also=", or for the time at which a block ends")
    add_json(parser)


def run(context: Context) -> int:
    """Take the step; 0 if the issue is verified and published."""
    options = context.options

    def step(app: App, state: TaskState) -> None:
        let_time_pass(app, state, options.wait)
        perform(app, Verify(state.task_key), wait_seconds=options.wait, note=" ".join(options.note))

    return take_step(context, step, wanted=("verify_passed",))
