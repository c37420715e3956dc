"""The private Prefect server's own process (`--serve`), its database, and the template of it (`--build-template`).

The other side, which starts it and finds it, is `irontree.flows.server.private`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import sys
import time
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from irontree.errors import IrontreeError, ServerUnavailable
from irontree.files import locked
from irontree.flows.server.connection import (
    LOOPBACK,
    Address,
    ListenAddress,
    ServerState,
    local_environment,
    state_folder,
)
from irontree.flows.server.private import listen, start, tail, turn_over_if_long

if TYPE_CHECKING:
    import uvicorn


NO_SERVER = "http://127.0.0.1:9/api"
"""An address for settings that need one where nothing is asked."""


def ensure(home: Path) -> None:
    """Have `prefect.db` in *home*: what is there stays; otherwise a copy of the template. Deleting it loses nothing.

    Raises ServerUnavailable for a file that is no database, or one of another Prefect version.
    """
    template, database = build_template(home), home / "prefect.db"
    if database.exists():
        _check(database, template)
        return
    for leftover in [*home.glob("prefect.db-*"), home / "memo_store.toml"]:  # of the database that was deleted
        leftover.unlink(missing_ok=True)
    draft = home / "new.db"
    shutil.copyfile(template, draft)
    draft.replace(database)


def _check(database: Path, template: Path) -> None:
    remedy = "Delete it: it holds nothing that is not in .mino/ too, but for the pages of past runs."
    try:
        found = _revision(database)
    except sqlite3.DatabaseError as error:
        raise ServerUnavailable(f"{database} is damaged: {error}.", remedy=remedy) from error
    if found != _revision(template):
        raise ServerUnavailable(f"{database} is of another Prefect version (revision {found}).", remedy=remedy)


def _revision(database: Path) -> str:
    """The migration that the database is at."""
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(found[0]) if found else "none"


def build_template(home: Path) -> Path:
    """Have `template.db`, an empty migrated database of the installed Prefect version, in *home*; returns its path.

    Raises ServerUnavailable when Prefect cannot make one.
    """
    template = home / "template.db"
    with locked(home / "template.lock"):
        if not template.exists():
            _migrate(home, home / "draft.db")
            _in_one_file(home / "draft.db", template)
    return template


def _migrate(home: Path, database: Path) -> None:
    _forget(database)
    log = home / "template.log"
    environment = local_environment(os.environ, home, NO_SERVER) | {
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{database}"
    }
    upgrade = ["server", "database", "upgrade", "--yes"]
    with start("prefect", upgrade, environment=environment, home=home, log=log) as program:
        pass
    if program.returncode:
        raise ServerUnavailable(
            f"Prefect could not make its database (exit code {program.returncode}):\n{tail(log)}",
            remedy=f"The whole output is in {log}.",
        )


def _in_one_file(source: Path, target: Path) -> None:
    """SQLite keeps recent writes in a second file; its own backup brings both together."""
    draft = target.with_suffix(".tmp")
    _forget(draft)
    with closing(sqlite3.connect(source)) as original, closing(sqlite3.connect(draft)) as copy:
        original.backup(copy)
    draft.replace(target)
    _forget(source)


def _forget(database: Path) -> None:
    for file in database.parent.glob(f"{database.name}*"):
        file.unlink()


# --- The private Prefect server's own process


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code: 0 also when another process is the server already."""
    parser = argparse.ArgumentParser(prog="python -m irontree.flows.server.process", description=__doc__)
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
            build_template(options.home)
        else:
            _serve(ServerState(options.home), options.linger, ListenAddress(options.host, options.port))
    except IrontreeError as error:
        sys.stderr.write(f"{error.message}\n{error.remedy or ''}\n")
        return 1
    return 0


def _serve(state: ServerState, linger: float, place: ListenAddress) -> None:
    if not state.become_the_server():
        return
    last_port = state.come_alive()
    ensure(state.home)
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

    from irontree.flows.server.queued_writers import QueuedWriters  # noqa: PLC0415

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
