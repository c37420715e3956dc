"""`irontree run ISSUE`: one attempt of the agent at the issue; one that was cut off before is settled first."""

from __future__ import annotations

import argparse

from irontree.app import App
from irontree.cli.context import Context
from irontree.cli.parser import add_issue, add_json, add_wait
from irontree.cli.stepwise import take_step
from irontree.domain.decide import Recover, Run
from irontree.domain.state import Phase, TaskState
from irontree.services.execution.steps import perform
from irontree.services.timer import let_time_pass


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the issue."""
    add_issue(parser)
    add_wait(parser, also=", or for the time at which a block ends")
    add_json(parser)


def run(context: Context) -> int:
    """Take the step; 0 if the attempt ended with a commit, or needed no change."""

    def step(app: App, state: TaskState) -> None:
        # An attempt that was cut off is settled first; that is a transition of its own.
        wait = context.options.wait
        state = let_time_pass(app, state, wait)
        cut_off = state.phase is Phase.RUNNING
        settled = perform(app, Recover(state.task_key), wait_seconds=wait) if cut_off else state
        if not cut_off or (settled.phase is Phase.READY and not app.cancel.is_set()):
            perform(app, Run(state.task_key), wait_seconds=wait)

    return take_step(context, step, wanted=("run_completed",))
