"""`irontree automations`: have the Prefect server notify, start and reconcile by itself, as the configuration says."""

from __future__ import annotations

import argparse

from irontree.cli.blocks import Lines
from irontree.cli.context import Context
from irontree.cli.parser import add_json
from irontree.flows.local.finding import require_server
from irontree.flows.local.settings import adopt, state_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take whether to remove them."""
    parser.add_argument("--remove", action="store_true", help="remove all that this repository has on the server")
    add_json(parser)


def run(context: Context) -> int:
    """Register or remove them, and list their names; raises ServerUnavailable where no server runs."""
    app = context.look()
    adopt(require_server(app), state_folder())
    from irontree.flows.lifecycle import runs
    from irontree.flows.lifecycle.automations import register_automations, remove_automations

    change = remove_automations if context.options.remove else register_automations
    with runs.connect() as client:
        names = change(client, app)
    done = "removed" if context.options.remove else "on the server"
    lines = tuple(f"{done}: {name}" for name in names) or (
        "No automations: `automations:` in .mino/config.yml is empty.",
    )
    context.console.show(lambda: {"automations": list(names)}, [Lines(lines)])
    return 0
