"""Which Prefect server to use: our processes' settings, and where the private server is."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import platformdirs

from irontree.app import App
from irontree.errors import EnvironmentRefused, ServerUnavailable
from irontree.files import close_folder, make_private, read_bytes, swap, take_lock
from irontree.flows.server.credentials import authority, password
from irontree.store.layout import Layout

# --- The complete Prefect settings of our processes, independent of the machine's (rulings, Local mode)


LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
OURS = ("PREFECT_", "IRONTREE__")
"""Prefixes of variables for our use of Prefect, which agents and checks must not see."""

ADDRESS = "server.json"
"""The file in the state folder that holds the private server's address."""

CLIENT = {
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_COLORS": "false",
    "PREFECT_LOGGING_LEVEL": "INFO",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    # A step that is in the log is not called again; stored results would be a second source of truth.
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    # Without it Prefect starts a hidden server of its own when ours cannot be reached.
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
    # With a worker's default of 10 s, most of the time from an answer to its first effect would be waiting.
    "PREFECT_WORKER_QUERY_SECONDS": "1",
}
SERVER = {
    # A server on this machine may be asked more often: a poll takes 2 ms of it and 1 ms of ours.
    "PREFECT_WORKER_QUERY_SECONDS": "0.3",
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",  # the private server has no such protection: saves a request
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",  # always the same version: saves another
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    # One future run per schedule, not a dozen: they crowd out the runs that work or ask.
    "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_RUNS": "1",
    "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_SCHEDULED_TIME": "PT5M",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    # Runs that ended 90 days ago are deleted; by default only events are, and the database would grow for ever.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    # Batches: a task run costs the server 5 ms instead of 24 ms.
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "100",
}


def state_folder() -> Path:
    """The folder of the private server of this user and Prefect version; everything in it is disposable."""
    return platformdirs.user_state_path("irontree") / f"prefect-{version('prefect')}"


def left_addresses() -> Iterator[Path]:
    """Address files of servers of any version, including killed ones. Creates nothing."""
    return platformdirs.user_state_path("irontree").glob(f"prefect-*/{ADDRESS}")


def chosen_api_url(environ: Mapping[str, str], config_value: str | None) -> str | None:
    """The address of the configured server: the real environment, else `prefect.api_url` of our config, else none."""
    return environ.get("PREFECT_API_URL") or config_value or None


def strip(environ: Mapping[str, str]) -> dict[str, str]:
    """*environ* without the variables for our use of Prefect: the basis for agents and checks."""
    return {name: value for name, value in environ.items() if not name.startswith(OURS)}


def local_environment(environ: Mapping[str, str], folder: Path, api_url: str) -> dict[str, str]:
    """The whole environment of a process that belongs to the private server in *folder*.

    No PREFECT_* of *environ* survives but for its PASSWORD; the rest does. Start such a process with *folder* as its
    working folder: Prefect also reads `.env`, `prefect.toml` and `pyproject.toml` there.
    """
    address = api_url.removesuffix("/api")
    return (
        strip(environ)
        | CLIENT
        | SERVER
        | _places(environ, folder, api_url)
        | (password(environ, folder) | authority(folder))
        | {
            # By default any page in the user's browser could call the API and answer our questions.
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{address},{address.replace('127.0.0.1', 'localhost')}",
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder / 'prefect.db'}",
            # The default is a folder inside the installed package, which may be read-only.
            "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(folder / "ui"),
        }
    )


def configured_environment(environ: Mapping[str, str], folder: Path, api_url: str) -> dict[str, str]:
    """The whole environment of a process that uses a configured server: *environ* applies, profiles do not."""
    return CLIENT | dict(environ) | _places(environ, folder, api_url)


def _places(environ: Mapping[str, str], folder: Path, api_url: str) -> dict[str, str]:
    direct = ",".join(dict.fromkeys([*_unproxied(environ), *LOOPBACK_NAMES]))
    return {
        "PREFECT_API_URL": api_url,
        "PREFECT_HOME": str(folder),
        "PREFECT_PROFILES_PATH": str(folder / "profiles.toml"),
        "NO_PROXY": direct,
        "no_proxy": direct,
    }


def _unproxied(environ: Mapping[str, str]) -> list[str]:
    names = f"{environ.get('NO_PROXY', '')},{environ.get('no_proxy', '')}".split(",")
    return [name.strip() for name in names if name.strip()]


def adopt(environment: Mapping[str, str], folder: Path) -> None:
    """Make *environment*'s settings this process's own and load Prefect with them, whatever the working folder holds.

    For processes that cannot be started with them (the command line); call it before anything imports Prefect.
    """
    if "prefect" in sys.modules:
        _refuse_others(environment)
        return
    make_private(folder)
    for name in [name for name in os.environ if name.startswith(OURS)]:
        del os.environ[name]
    os.environ.update(environment)
    with contextlib.chdir(folder):
        importlib.import_module("prefect.context")
    # A command waits at its end for the last event, and Prefect would tell its user so.
    logging.getLogger("EventsWorker").setLevel(logging.ERROR)


def _refuse_others(environment: Mapping[str, str]) -> None:
    """Fail if Prefect loaded other settings: it would use those and start a hidden server of its own."""
    if any(os.environ.get(name) != value for name, value in environment.items() if name.startswith(OURS)):
        raise RuntimeError("Prefect was imported before its settings were adopted")


# --- The files by which the private server and its clients find each other


LOOPBACK = "127.0.0.1"


class ListenAddress(NamedTuple):
    """Where a server must listen; `None` means any host, any free port, or either way."""

    host: str | None = None
    port: int | None = None
    names: tuple[str, ...] = ()
    """Further host names to which it answers, such as that of a proxy."""
    open: bool | None = None
    """Whether to ask nobody for a password."""

    def is_at(self, address: Address) -> bool:
        """Whether a server at *address* satisfies this."""
        there = self.host in (None, address.host) and self.port in (None, address.port)
        return there and self.open in (None, address.open) and set(self.names) <= set(address.names)


class Address(NamedTuple):
    """Where the server answers: on loopback, and on *host* if different."""

    port: int
    pid: int
    name: str
    """The host name at which browsers are signed in: of this process alone, known to no stranger (decision 0024)."""
    host: str = LOOPBACK
    names: tuple[str, ...] = ()
    open: bool = False

    @property
    def api_url(self) -> str:
        """The value of PREFECT_API_URL."""
        return f"http://{LOOPBACK}:{self.port}/api"


class ServerState:
    """What is in the state folder. Kernel locks show liveness: the holder of a lock is alive, whatever the files say.

    `start.lock` is held by the one server, so that two starts give one, and names its process; `alive.lock` is held by
    it too, and tested by its clients; `clients.lock` is shared by the clients, and held exclusively by a server that is
    about to end. A lock is released when its holder ends.
    """

    def __init__(self, folder: Path) -> None:
        make_private(folder)
        close_folder(folder)
        self.folder = folder
        self.log = folder / "server.log"
        self._start_lock = folder / "start.lock"
        self._address = folder / ADDRESS
        self._before = folder / "server.before.json"
        self._announced = folder / "server.announced.json"

    # --- the server's side ---

    def become_the_server(self) -> bool:
        """Become the one server until this process ends; `False` if another process is the server."""
        descriptor = _lock(self._start_lock)
        if descriptor is None:
            return False
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return True

    def come_alive(self) -> int | None:
        """Show clients that there is a server; returns the previous server's port, which clients may still use.

        The previous server is the last one that answered, even if others have failed to start since.
        """
        with suppress(FileNotFoundError):  # before the lock: whoever finds it held may trust the address
            self._address.replace(self._before)
        self._announced.unlink(missing_ok=True)
        _lock(self.folder / "alive.lock", wait=True)
        last = _read(self._before)
        return last.port if last else None

    def announce(self, address: Address) -> None:
        """Say at which address the server will answer: clients are at work meanwhile that need no answer yet."""
        swap(self._announced, json.dumps(address._asdict()).encode())

    def publish(self, address: Address) -> None:
        """Publish the address, now that the server answers."""
        swap(self._address, json.dumps(address._asdict()).encode())
        self._before.unlink(missing_ok=True)

    def in_use(self) -> bool:
        """Whether there is any client."""
        descriptor = _lock(self.folder / "clients.lock")
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is None

    def shut_out(self) -> bool:
        """Admit no clients until this process ends; `False` if there is one after all."""
        if _lock(self.folder / "clients.lock") is None:
            return False
        self._address.unlink(missing_ok=True)
        self._announced.unlink(missing_ok=True)
        return True

    # --- the clients' side ---

    def join(self) -> int:
        """Become a client until the descriptor is closed; waits for a server that is just ending."""
        descriptor = _opened(self.folder / "clients.lock")
        take_lock(descriptor, shared=True, wait=True)
        return descriptor

    def server_pid(self) -> int | None:
        """The process that is the server, answering or not; `None` if none is."""
        written = self._start_lock.read_bytes() if self.lives() else b""
        return int(written) if written.isdigit() else None  # one of an earlier version wrote nothing

    def lives(self) -> bool:
        """Whether there is a server, answering or still starting."""
        descriptor = _lock(self.folder / "alive.lock", shared=True)
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is None

    def address(self) -> Address | None:
        """The running server's address; `None` if there is none, or none to be used, or it does not answer yet."""
        found = self.found()
        return found if found and found.name else None

    def found(self) -> Address | None:
        """The same, also of a server without a guard, by an earlier version, which has no name."""
        return _read(self._address) if self.lives() else None

    def announced(self) -> Address | None:
        """The address at which the running server answers, or will."""
        return _read(self._announced) if self.lives() else None


def _read(file: Path) -> Address | None:
    """The address in *file*; also `None` for a file that a power cut truncated: the next server rewrites it."""
    try:
        found = json.loads(file.read_text())
        port, pid, host = int(found["port"]), int(found["pid"]), str(found["host"])
        names = tuple(map(str, found.get("names", ())))
        return Address(port, pid, str(found.get("name", "")), host, names, open=bool(found.get("open")))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def published(folder: Path) -> Address | None:
    """The address that the newest server in *folder* published, which may have ended since."""
    return _read(folder / ADDRESS)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _lock(path: Path, *, shared: bool = False, wait: bool = False) -> int | None:
    """The descriptor that holds the lock; `None` if another process holds it."""
    descriptor = _opened(path)
    if take_lock(descriptor, shared=shared, wait=wait):
        return descriptor
    os.close(descriptor)
    return None


# --- Which Prefect server a command uses


def environment_of_server(app: App) -> Mapping[str, str] | None:
    """Settings for using the server of *app*: the configured one, or the private one if it runs."""
    folder = state_folder()
    configured = chosen_api_url(os.environ, app.preferences().api_url)
    if configured:
        return configured_environment(os.environ, folder, configured)
    try:
        address = ServerState(folder).address()
    except OSError:  # if no file can be created there is no server, and read-only use needs none
        return None
    return local_environment(os.environ, folder, address.api_url) if address else None


def adopt_server(app: App) -> bool:
    """Adopt the settings of *app*'s server in this process (see `adopt`); `False` if no server is known."""
    environment = environment_of_server(app)
    if environment is not None:
        adopt(environment, state_folder())
    return environment is not None


def require_server(app: App) -> Mapping[str, str]:
    """As `environment_of_server`, but raises ServerUnavailable if no server runs."""
    environment = environment_of_server(app)
    if environment is None:
        raise ServerUnavailable(
            "no Prefect server runs here, and none is configured",
            remedy="`irontree serve` or `irontree resume` starts one; or set PREFECT_API_URL or prefect.api_url",
        )
    return environment


def ui_url(environment: Mapping[str, str]) -> str:
    """The URL of that server's UI."""
    return environment.get("PREFECT_UI_URL") or environment["PREFECT_API_URL"].rstrip("/").removesuffix("/api")


def runs_url(ui: str, app: App) -> str:
    """The page of all runs of this repository, by their tag."""
    return f"{ui}/runs?tag=repository:{quote(app.repository.id)}"


# --- Whether any Prefect server can know a repository


_ASKS: Final = (b"api_url", b"start_label", b"nightly")
"""Configuration keys that name a server, or let one ask for an approval."""
_CONFIG_BYTES: Final = 1024 * 1024


def is_unknown_to_servers(app: App) -> bool:
    """Whether certainly no server has a question for *app*: none runs here or is configured, and no setting needs one.

    Cheap, for frequent commands: a key that does not occur in the file is not set, and parsing the file properly
    would make `status` a fifth slower.
    """
    if any(name.startswith(OURS) for name in os.environ) or any(left_addresses()):
        return False
    try:
        written = read_bytes(Layout(app.repository.root).config, _CONFIG_BYTES)
    except EnvironmentRefused:
        return True
    return not any(key in (written or b"") for key in _ASKS)
