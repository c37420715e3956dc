"""The private Prefect server: started, found and kept by its clients; and its own process (`--serve`).

A client imports this while the command line shows the plan: Prefect is imported in the server's own process alone.
"""

from __future__ import annotations

import argparse
import gc
import os
import secrets
import shutil
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib.metadata import requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from irontree.errors import IrontreeError, ServerUnavailable
from irontree.files import ScratchFolder, close_all, remove
from irontree.flows.server.colours import make_questions_amber
from irontree.flows.server.connection import (
    LOOPBACK,
    Address,
    ListenAddress,
    ServerState,
    local_environment,
    state_folder,
    strip,
)
from irontree.flows.server.credentials import FILE, PASSWORD, make_authority, make_password
from irontree.flows.server.database import TEMPLATE, build_template, database_trouble, ensure, identity
from irontree.flows.server.guard import Guard, names_of
from irontree.flows.server.links import Links
from irontree.flows.server.listening import EVERYWHERE, is_prefect, listen
from irontree.flows.server.programs import Program, reap, size, start, tail, tell, told_in, turn_over_if_long

if TYPE_CHECKING:
    import uvicorn

# --- The client side: one server per user and version, on loopback (rulings, Local mode)


LINGER = 60.0
LOOK_EVERY = 0.05
KEEP_EVERY = 0.2
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before retrying a failed start; doubled each time."""
LEAVING = 5.0
ENDS_WITHIN = 20.0
ANYWHERE = ListenAddress()


class LocalServer:
    """A client's hold on the private server in *folder*: it lives until *linger* seconds after its last client.

    It listens on any free port, or at *place*: an unused server that listens elsewhere is ended for that.

    Everything in *folder* is disposable. A killed server is restarted on the same port: processes that know its address
    continue, because Prefect's client retries for a minute. A failed start is retried after a while, at first *pause*
    seconds. Raises ServerUnavailable if *folder* cannot be created.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        linger: float = LINGER,
        place: ListenAddress = ANYWHERE,
        pause: float = FIRST_PAUSE,
        start: Callable[..., Program] = start,
    ) -> None:
        self._state = _state_in(folder)
        own = environ.get(PASSWORD)
        self._environment = strip(environ) | ({PASSWORD: own} if own else {})
        self._place = place
        self._linger = linger
        self._first_pause = self._pause = pause
        self._again_at = 0.0
        self._start_program = start
        self._log_start = self._told_start = size(self._state.log)
        self._program: Program | None = None
        self._failure: str | None = None
        self._left = threading.Event()
        self._has_room = threading.Event()
        self._keeper: threading.Thread | None = None

    def start(self) -> Self:
        """Join the server's clients and start it if there is none, in the background; returns at once."""
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, name="local-server", daemon=True)
            self._keeper.start()
        return self

    def wait_ready(self, timeout: float = 60) -> str:
        """Wait until the server answers and return its API address.

        Raises ServerUnavailable after *timeout* seconds, or if the server dies while starting.
        """
        return self._answer_of(time.monotonic(), timeout)

    def _answer_of(self, began: float, timeout: float) -> str:
        """As `wait_ready`, for a wait that began then."""
        self.start()
        while not (address := self._answering()):
            if trouble := self.trouble():
                raise trouble
            if (waited := time.monotonic() - began) > timeout:
                raise self._silent(waited)
            time.sleep(LOOK_EVERY)
        if not self._place.is_at(address):
            raise ServerUnavailable(
                f"The private Prefect server is at port {address.port} of {address.host}, where other commands use it.",
                remedy=f"End them, or use it where it is: --host {address.host} --port {address.port}.",
            )
        return address.api_url

    def expected(self, timeout: float = 60) -> str:
        """The API address at which the server answers or will: where it must be known first. Raises as `wait_ready`."""
        self.start()
        began = time.monotonic()
        while not (self.trouble() or self._left.is_set()) and time.monotonic() - began < timeout:
            announced = self._state.announced() if self._has_room.is_set() else None
            if announced and self._place.is_at(announced):
                return announced.api_url
            time.sleep(LOOK_EVERY)
        return self._answer_of(began, 0)

    def trouble(self) -> ServerUnavailable | None:
        """Why there is no server, with its last output; set from a failed start until a server answers."""
        return self._unavailable(f"The private Prefect server {self._failure}") if self._failure else None

    def told(self) -> tuple[str, ...]:
        """What the server said to its users since we are its client, or were told last."""
        told = told_in(self._state.log, self._told_start)
        self._told_start = size(self._state.log)
        return told

    def close(self) -> None:
        """Leave the server to its other clients; it ends a while after the last one has left."""
        self._left.set()
        if self._keeper:
            self._keeper.join()

    def end(self, timeout: float = ENDS_WITHIN) -> None:
        """Leave, kill the server and wait until it is gone: for one without other clients, whose folder goes too."""
        self.close()
        if pid := self._state.server_pid():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + timeout
        while self._state.lives() and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)

    def _keep(self) -> None:
        try:
            self._make_room()
            self._has_room.set()
            membership = self._state.join()
            try:
                self._see_to_it()
                while not self._left.wait(KEEP_EVERY):
                    self._see_to_it()
            finally:
                os.close(membership)
        except OSError as error:
            self._failure = f"cannot be started: {error}"

    def _make_room(self) -> None:
        """End a server that listens elsewhere once it has no clients; its last one may just be leaving.

        One without a guard, by an earlier version, is ended at once: every program of this machine can use it.
        """
        deadline = time.monotonic() + LEAVING
        while (address := self._state.found()) and not (address.name and self._place.is_at(address)):
            if not address.name or not self._state.in_use():
                self._end(address)
                return
            if time.monotonic() > deadline or self._left.wait(KEEP_EVERY):
                return

    def _end(self, server: Address) -> None:
        os.kill(server.pid, signal.SIGTERM)
        while self._state.lives() and not self._left.wait(KEEP_EVERY):
            pass

    def _see_to_it(self) -> None:
        """Ensure there is a server, or retry later: a full disk or a hidden file may be temporary."""
        try:
            self._have_a_server()
        except OSError as error:
            self._fail(f"cannot be started: {error}")

    def _have_a_server(self) -> None:
        """Start a server if there is none. Exit code 0: another process was the server; negative: ours was killed."""
        if self._state.lives():
            if self._state.address():
                self._failure, self._pause = None, self._first_pause
            return
        code = self._program.poll() if self._program else 0
        if code is not None and code > 0:
            self._program = None
            self._fail("died")
        elif code is not None and time.monotonic() >= self._again_at:
            self._launch()

    def _fail(self, why: str) -> None:
        self._failure = why
        self._again_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _launch(self) -> None:
        self._program = self._start_program(
            "irontree.flows.server.private",
            ["--serve", "--folder", str(self._state.folder), "--linger", str(self._linger), *self._where()],
            environment=self._environment,
            folder=self._state.folder,
            log=self._state.log,
        )
        reap(self._program)

    def _where(self) -> list[str]:
        host, port = self._place.host or LOOPBACK, self._place.port
        return [
            *(["--host", host, "--port", str(port)] if port else []),
            *(word for name in self._place.names for word in ("--name", name)),
            *(["--open"] if self._place.open else []),
        ]

    def _answering(self) -> Address | None:
        address = self._state.address() if self._has_room.is_set() else None
        return address if address and is_prefect(address.port) else None

    def _unavailable(self, what: str) -> ServerUnavailable:
        output = tail(self._state.log, start=self._log_start)
        said = f"{what}:\n{output}" if output else f"{what}. It has said nothing."
        return ServerUnavailable(said, remedy=_remedy(output, self._state))

    def _silent(self, waited: float) -> ServerUnavailable:
        """That it did not answer, with the process to end: one that hangs keeps every other from starting."""
        pid = self._state.server_pid() or (self._program.pid if self._program else None)
        which = f" (process {pid})" if pid else ""
        found = self._unavailable(f"The private Prefect server{which} did not answer within {waited:.0f} s")
        end = f"If it hangs, end it: `kill -9 {pid}`. Then repeat the command, or `irontree resume`. " if pid else ""
        return ServerUnavailable(found.message, remedy=f"{end}{found.remedy}")


@contextmanager
def own_server(environ: Mapping[str, str]) -> Iterator[tuple[Path, LocalServer]]:
    """A server of one command alone, with its state folder, for the block: both are gone after it.

    What a kill leaves ends without its client, and goes at a later start. Raises ServerUnavailable.
    """
    try:
        scratch = ScratchFolder("server")
    except OSError as error:
        raise ServerUnavailable(f"There is no room for a Prefect server: {error}.") from error
    with scratch:
        with suppress(OSError):  # to make an empty database anew takes seconds
            shutil.copyfile(state_folder() / TEMPLATE, scratch.path / TEMPLATE)
        server = LocalServer(scratch.path, environ, linger=0)
        try:
            yield scratch.path, server
        finally:
            server.end()


def _state_in(folder: Path) -> ServerState:
    try:
        return ServerState(folder)
    except OSError as error:
        raise ServerUnavailable(
            f"The private Prefect server has no state folder: {error}.",
            remedy="Let it be made, or choose another place with XDG_STATE_HOME.",
        ) from error


def _remedy(output: str, state: ServerState) -> str:
    if "TypeError" in output and "fastapi" in output:
        needed = next(line for line in requires("irontree") or () if line.startswith("fastapi"))
        return f"fastapi {version('fastapi')} does not fit Prefect {version('prefect')}: pip install '{needed}'."
    return f"The whole output is in {state.log}."


# --- The private Prefect server's own process


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code, which is also 0 if another process is the server already."""
    parser = argparse.ArgumentParser(prog="python -m irontree.flows.server.private", description=__doc__)
    parser.add_argument("--folder", type=Path, default=state_folder(), help="the state folder (default: %(default)s)")
    parser.add_argument("--linger", type=float, default=0, help="seconds to stay without any client")
    parser.add_argument("--host", default=LOOPBACK, help="where to listen, beside loopback (default: %(default)s)")
    parser.add_argument("--port", type=int, help="at this port alone (default: the first free one)")
    parser.add_argument("--name", action="append", default=[], help="a further host name to answer to")
    parser.add_argument("--open", action="store_true", help="ask nobody for a password")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--serve", action="store_true", help="be the server until no client is left")
    action.add_argument("--build-template", action="store_true", help="make the database template if there is none")
    options = parser.parse_args(arguments)
    try:
        if options.build_template:
            build_template(options.folder)
        else:
            place = ListenAddress(options.host, options.port, tuple(options.name), open=options.open)
            _serve(ServerState(options.folder), options.linger, place)
    except IrontreeError as error:
        sys.stderr.write(f"{error.message}\n{error.remedy or ''}\n")
        return 1
    return 0


def _serve(state: ServerState, linger: float, place: ListenAddress) -> None:
    if not state.become_the_server():
        return
    last_port = state.come_alive()
    os.umask(0o077)
    close_all(state.folder)
    if said := ensure(state.folder):
        tell(said)
    host = place.host or LOOPBACK
    with ExitStack() as open_sockets:
        listeners = [open_sockets.enter_context(listener) for listener in listen(place, last_port)]
        keep_or_forget(state.folder, last_port, listeners[0].getsockname()[1])
        port, name = listeners[0].getsockname()[1], f"irontree-{secrets.token_hex(10)}.localhost"
        address = Address(port, os.getpid(), name, host, place.names, open=bool(place.open))
        guard = _guard_of(address, own=os.environ.get(PASSWORD), made=make_password(state.folder))
        make_authority(state.folder)
        state.announce(address)
        os.environ.update(local_environment(os.environ, state.folder, address.api_url))
        os.environ["PREFECT_UI_API_URL"] = "/api"  # whatever name the browser knows the server by
        if address.open:
            del os.environ[PASSWORD]
        with queued_writers(), garbage_collected_aside():
            server = _prefect_server(guard)
            server.config.callback_notify = _Attendant(server, state, address, linger).look
            server.run(sockets=listeners)
    if not server.started:
        raise ServerUnavailable("Prefect's server ended before it answered.")


def keep_or_forget(folder: Path, last_port: int | None, port: int) -> None:
    """Forget the password if the last server was killed and another program has its *last_port* now.

    The programs that were at work with that server send the password there; none of them finds this one at *port*.
    """
    if last_port not in (None, port):
        remove(folder / FILE)


def _guard_of(address: Address, *, own: str | None, made: str) -> Callable[[Any], Guard]:
    """What puts the guard before an application; *own* is the user's password, *made* ours."""
    names = names_of(address.name, address.host, address.names, EVERYWHERE)
    password = None if address.open else own or made
    return partial(Guard, names=names, password=password, links=Links(made, address.name), asks=bool(own))


def queued_writers() -> AbstractContextManager[object]:
    """Make SQLite transactions of Prefect's server begin with the write lock, so that writers wait for each other.

    Else, of two that read and then write, SQLite fails one at once, a person's Resume too (PrefectHQ/prefect#10188).
    """
    from prefect.server.database.configurations import AioSqliteConfiguration  # noqa: PLC0415  (as below)
    from prefect.server.database.dependencies import temporary_database_config  # noqa: PLC0415
    from prefect.settings import get_current_settings  # noqa: PLC0415

    class QueuedWriters(AioSqliteConfiguration):
        @asynccontextmanager
        async def begin_transaction(self, session: Any, with_for_update: bool = False) -> AsyncGenerator[Any, None]:  # noqa: ARG002, FBT001, FBT002  (Prefect's signature)
            async with super().begin_transaction(session, with_for_update=True) as transaction:
                yield transaction

    url = get_current_settings().server.database.connection_url
    return temporary_database_config(QueuedWriters(connection_url=url.get_secret_value() if url else ""))


@contextmanager
def garbage_collected_aside() -> Iterator[None]:
    """Collect garbage in a thread of its own: in the event loop's, it can stop the server (decision 0003)."""
    over = threading.Event()

    def collect() -> None:
        while not over.wait(0.5):
            gc.collect(2 if gc.get_count()[2] > 1000 else 1)  # noqa: PLR2004  (all of it, 0.3 s, every 8 min)

    gc.disable()
    threading.Thread(target=collect, name="garbage", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        gc.enable()


def _prefect_server(guard: Callable[[Any], Guard]) -> uvicorn.Server:
    import uvicorn  # noqa: PLC0415  (reads nothing, but costs time that a second start should not pay)
    from prefect.server.api.server import create_app  # noqa: PLC0415  (Prefect reads its settings at import)

    application = create_app(final=True)  # it copies its pages
    make_questions_amber(Path(os.environ["PREFECT_SERVER_UI_STATIC_DIRECTORY"]))
    config = uvicorn.Config(
        guard(application),
        lifespan="on",
        log_level="warning",
        timeout_graceful_shutdown=5,
        timeout_notify=0,
    )
    return uvicorn.Server(config)


class _Attendant:
    """Publishes the address once the server answers, and ends the server *linger* seconds after its last client.

    Where its database was damaged, deleted or exchanged, it ends the server at once: the clients start another.
    """

    def __init__(self, server: uvicorn.Server, state: ServerState, address: Address, linger: float) -> None:
        self._server = server
        self._state = state
        self._address: Address | None = address
        self._linger = linger
        self._last_used = time.monotonic()
        self._database = state.folder / "prefect.db"
        self._identity = identity(self._database)

    async def look(self) -> None:
        """Called by uvicorn as soon as it answers, and then every second."""
        turn_over_if_long(self._state.log)
        if trouble := self._trouble():
            tell(f"Prefect's database {trouble} while its server was at work: the server ends.")
            self._server.should_exit = self._server.force_exit = True
            # What it still wants to write has nowhere to go.
            threading.Timer(LEAVING, os._exit, (0,)).start()
            return
        if self._address:
            self._state.publish(self._address)
            self._address = None
        if self._state.in_use():
            self._last_used = time.monotonic()
        elif time.monotonic() - self._last_used >= self._linger:
            self._server.should_exit = self._state.shut_out()

    def _trouble(self) -> str:
        if self._server.should_exit:
            return ""
        if identity(self._database) != self._identity:
            return "was deleted or exchanged"
        return database_trouble(self._database, whole=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
