"""`irontree serve [DIR …]`: a Prefect server and a worker for the repositories of this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from irontree.app import App
from irontree.cli.context import Context
from irontree.cli.driving import local_server
from irontree.cli.exit_codes import INTERRUPTED, OK
from irontree.flows.local.settings import adopt

if TYPE_CHECKING:
    from irontree.flows.local.service import Service

GRACE: Final = 60.0
LOOK_EVERY: Final = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the repositories, and how long flows may go on after Ctrl-C."""
    parser.add_argument("folders", metavar="DIR", nargs="*", help="a repository (default: the one here)")


def run(context: Context) -> int:
    """Serve until somebody says stop; the exit code."""
    folders = [Path(folder) for folder in context.options.folders] or [context.folder]
    apps = [context.at(folder).open() for folder in folders]
    with local_server(apps[0]) as server:
        context.console.note("Waiting for the Prefect server ...")
        environment = server.environment()
        adopt(environment, server.home)
        from irontree.flows.local.service import Service  # imports Prefect: its settings come first

        say = _Say(context)
        with Service(apps, environment=environment, home=server.home, say=say) as service:
            service.start()
            context.console.write(f"Dashboard: {environment['PREFECT_API_URL'].removesuffix('/api')}\n")
            context.console.flush()
            return _serve(context, service)


class _Say:
    def __init__(self, context: Context) -> None:
        self._console = context.console

    def __call__(self, app: App, text: str) -> None:
        self._console.write(f"{app.repository.root.name}: {text}\n")
        self._console.flush()


def _serve(context: Context, service: Service) -> int:
    with context.interruptible() as stop:
        while not stop.wait(LOOK_EVERY):
            service.look()
        service.finish()
        deadline = time.monotonic() + GRACE
        try:
            while not service.at_rest():
                if time.monotonic() >= deadline:
                    service.stop()
                    return INTERRUPTED
                time.sleep(LOOK_EVERY)
        except KeyboardInterrupt:
            service.stop()
            return INTERRUPTED
    return OK
