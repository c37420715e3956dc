"""Local mode: have a server, serve this repository's flows from here, and follow the loop (design, section 6)."""

from __future__ import annotations

import getpass
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from irontree.app import App
from irontree.cli.answering import Prepared
from irontree.cli.tree import print_tree
from irontree.errors import ConfigRefused
from irontree.flows.local_server import LocalServer
from irontree.flows.settings import (
    adopt,
    chosen_api_url,
    configured_environment,
    local_environment,
    state_folder,
)

if TYPE_CHECKING:
    from irontree.flows.session import Session

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Server:
    """The Prefect server of this command: a configured one, or the private one, which is starting meanwhile."""

    home: Path
    configured: str | None
    private: LocalServer | None

    def environment(self) -> Mapping[str, str]:
        """The settings of every process that uses it; waits until it answers. Raises ServerUnavailable."""
        if self.private is None:
            return configured_environment(os.environ, self.home, self.configured or "")
        return local_environment(os.environ, self.home, self.private.wait_ready())


@contextmanager
def local_server(app: App) -> Iterator[Server]:
    """Start or find the server in the background: it is ready by the time the approval is given."""
    home, configured = state_folder(), chosen_api_url(os.environ, app.preferences().api_url)
    if configured:
        yield Server(home, configured, None)
        return
    with LocalServer(home, os.environ) as private:
        yield Server(home, None, private)


def person_of() -> str:
    """The name under which the person at this terminal decides."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


@dataclass
class Drive:
    """One loop, driven and followed from this terminal."""

    app: App
    server: Server
    prepared: list[Prepared] = field(default_factory=list)
    detach: bool = False

    def drive(self, loop_id: str) -> int:
        """Until the loop has ended or waits for somebody else; the exit code."""
        began = time.monotonic()
        print("Waiting for the Prefect server ...", flush=True)
        environment = self.server.environment()
        adopt(environment, self.server.home)
        if self.detach:
            return self._leave_to_worker(loop_id)
        from irontree.flows.session import Session

        with Session(self.app, environment=environment, home=self.server.home) as session:
            session.wait_ready()
            run = session.set_going(loop_id)
            print(f"Ready after {time.monotonic() - began:.1f} s.", flush=True)
            if run:
                print(f"Watch it in the browser: {session.url(run)}\n", flush=True)
            return self._follow(session, loop_id)

    def _follow(self, session: Session, loop_id: str) -> int:
        from irontree.cli.following import Follower
        from irontree.cli.screens import PlainScreen, RichScreen

        person = self.app.origin.actor
        on_terminal = sys.stdout.isatty() and sys.stdin.isatty()
        screen = RichScreen(person) if on_terminal else PlainScreen()
        follower = Follower(self.app, session, loop_id, screen, self.prepared, person)
        follower.skip_history()
        try:
            status = follower.follow()
        except KeyboardInterrupt:
            print("Stopping now; what the agent has done is kept.")
            session.stop()
            status = "stopped"
        finally:
            screen.close()
        return self._ending(loop_id, status)

    def _ending(self, loop_id: str, status: str) -> int:
        """The tree as it stands, and what to type next; no address that is dead by then."""
        print()
        print_tree(self.app)
        for answer in self.prepared:
            print(f"Not needed: --answer {answer.text!r}")
        if status == "completed":
            return 0
        if status == "cancelled":
            print(f"Loop {loop_id} cancelled.")
            return 1
        print(f"Go on with: irontree task resume {loop_id}")
        return INTERRUPTED if status == "stopped" else 1

    def _leave_to_worker(self, loop_id: str) -> int:
        if self.server.private is not None:
            raise ConfigRefused(
                "--detach leaves the runs to a worker, but no Prefect server is configured",
                remedy="set PREFECT_API_URL or prefect.api_url, or leave --detach out",
            )
        from irontree.flows.runs import url_for
        from irontree.flows.starting import start_loop

        run = start_loop(self.app, loop_id)
        print(f"Loop {loop_id} is left to a worker: {url_for(run.id)}")
        return 0
