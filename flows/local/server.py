"""The private Prefect server's own process (`--serve`), and the building of its database template (`--build-template`).

The other side, which starts it and finds it, is `irontree.flows.local.local_server`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from irontree.errors import IrontreeError, ServerUnavailable
from irontree.flows.local import server_database
from irontree.flows.local.background import turn_over_if_long
from irontree.flows.local.listening import listen
from irontree.flows.local.server_state import LOOPBACK, Address, Place, ServerState
from irontree.flows.local.settings import local_environment, state_folder

if TYPE_CHECKING:
    import uvicorn


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code: 0 also when another process is the server already."""
    parser = argparse.ArgumentParser(prog="python -m irontree.flows.local.server", description=__doc__)
    parser.add_argument("--home", type=Path, default=state_folder(), help="the state folder (default: %(default)s)")
    parser.add_argument("--linger", type=float, default=0, help="seconds to stay without any client")
    parser.add_argument("--host", default=LOOPBACK, help="where to listen, beside loopback (default: %(default)s)")
    parser.add_argument("--port", type=int, help="at this port alone (default: the first free one)")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--serve", action="store_true", help="be the server until no client is left")
    action.add_argument("--build-template", action="store_true", help="make the database template if there is none")
    options = parser.parse_args(arguments)
    try:
        if options.build_template:
            server_database.build_template(options.home)
        else:
            _serve(ServerState(options.home), options.linger, Place(options.host, options.port))
    except IrontreeError as error:
        sys.stderr.write(f"{error.message}\n{error.remedy or ''}\n")
        return 1
    return 0


def _serve(state: ServerState, linger: float, place: Place) -> None:
    if not state.become_the_server():
        return
    last_port = state.come_alive()
    server_database.ensure(state.home)
    host = place.host or LOOPBACK
    with ExitStack() as open_sockets:
        listeners = [open_sockets.enter_context(listener) for listener in listen(place, last_port)]
        address = Address(port=listeners[0].getsockname()[1], pid=os.getpid(), host=host)
        os.environ.update(local_environment(os.environ, state.home, address.api_url) | _pages(host))
        with _queued_writers():
            server = _prefect_server()
            server.config.callback_notify = _Attendant(server, state, address, linger).look
            server.run(sockets=listeners)
    if not server.started:
        raise ServerUnavailable("Prefect's server ended before it answered.")


def _pages(host: str) -> dict[str, str]:
    """The pages call the API of this machine's loopback unless told otherwise: wrong in somebody else's browser."""
    return {} if host == LOOPBACK else {"PREFECT_UI_API_URL": "/api"}


def _queued_writers() -> AbstractContextManager[object]:
    from prefect.server.database.dependencies import temporary_database_config  # noqa: PLC0415  (as below)
    from prefect.settings import get_current_settings  # noqa: PLC0415

    from irontree.flows.local.queued_writers import QueuedWriters  # noqa: PLC0415

    url = get_current_settings().server.database.connection_url
    return temporary_database_config(QueuedWriters(connection_url=url.get_secret_value() if url else ""))


def _prefect_server() -> uvicorn.Server:
    import uvicorn  # noqa: PLC0415  (reads nothing, but costs time that a second start should not pay)
    from prefect.server.api.server import create_app  # noqa: PLC0415  (Prefect reads its settings at import)

    config = uvicorn.Config(
        create_app(final=True), lifespan="on", log_level="warning", timeout_graceful_shutdown=5, timeout_notify=0
    )
    return uvicorn.Server(config)


class _Attendant:
    """Publishes the address once the server answers, and ends the server *linger* seconds after its last client."""

    def __init__(self, server: uvicorn.Server, state: ServerState, address: Address, linger: float) -> None:
        self._server = server
        self._state = state
        self._address: Address | None = address
        self._linger = linger
        self._last_used = time.monotonic()

    async def look(self) -> None:
        """Called by uvicorn: as soon as it answers, and then every second."""
        turn_over_if_long(self._state.log)
        if self._address:
            self._state.publish(self._address)
            self._address = None
        if self._state.in_use():
            self._last_used = time.monotonic()
        elif time.monotonic() - self._last_used >= self._linger:
            self._server.should_exit = self._state.shut_out()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
