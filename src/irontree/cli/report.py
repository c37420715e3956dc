"""`irontree report ISSUE`: what the checks said of its commit, as a person reads it."""

from __future__ import annotations

import argparse

from irontree.app import App
from irontree.cli.context import Context
from irontree.cli.exit_codes import OK
from irontree.cli.finding import find_issue
from irontree.cli.markdown import show_markdown
from irontree.cli.parser import add_issue, add_json
from irontree.domain.state import TaskState
from irontree.errors import NotEligible
from irontree.services.projections.report import reported
from irontree.services.world import read_world


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the issue."""
    add_issue(parser)
    add_json(parser)


def run(context: Context) -> int:
    """Print the report; raises NotEligible where there is none."""
    app = context.look()
    state = find_issue(read_world(app), context.options.issue)
    text = app.projections.read_report(state.issue_number)
    if text is None:
        raise _without(app, state)
    if context.options.json:
        path = app.projections.report_path(state.issue_number)
        context.console.dump({"issue": state.issue_number, "path": path, "text": text})
    else:
        show_markdown(context.console, text)
    return OK


def _without(app: App, state: TaskState) -> NotEligible:
    issue = f"issue-{state.issue_number}"
    if reported(app.log.read(state.issue_number), state):
        return NotEligible(f"the report of {issue} is gone", remedy="irontree checkup reconcile makes it from the log")
    return NotEligible(
        f"{issue} has no report: one is written when its checks pass, when a person has to judge, "
        "and when its attempts are used up",
        remedy=f"irontree show {issue} tells how far it is",
    )
