"""Which Prefect server is meant: settings of our processes, how they start and end, where the private one is found."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final
from urllib.parse import quote

import platformdirs

from irontree.app import App
from irontree.errors import ServerUnavailable
from irontree.files import swap, take_lock
from irontree.store.layout import Layout

# --- The Prefect settings of our processes, complete: nothing on the machine chooses for us (rulings, Local mode)


LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
OURS = ("PREFECT_", "IRONTREE__")
"""Prefixes of variables that are between us and Prefect, and no business of agents and checks."""

ADDRESS = "server.json"
"""The file in the state folder that says where the private server answers."""

PASSWORD = "PREFECT_SERVER_API_AUTH_STRING"
"""`user:password` of a private server that others can reach: the one setting of Prefect's that we take for it."""

CLIENT = {
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_COLORS": "false",
    "PREFECT_LOGGING_LEVEL": "INFO",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    # A step that is in the log is not called again; stored results would be a second truth beside it.
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    # Without it Prefect starts a hidden server of its own when ours cannot be reached.
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
    # A worker's default of 10 s would be most of the time from an answer to the first thing that is done about it.
    "PREFECT_WORKER_QUERY_SECONDS": "1",
}
SERVER = {
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",  # the private server has no such protection: saves a request
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",  # one version by construction: saves another
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    # One coming run of each schedule, not a dozen: they crowd the pages of those that work or ask.
    "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_RUNS": "1",
    "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_SCHEDULED_TIME": "PT5M",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    # Runs that ended 90 days ago go; by default only events do, and a server that always runs would grow for ever.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    # Batches: a task run costs the server 5 ms instead of 24 ms.
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "100",
}


def state_folder() -> Path:
    """Where the private server of this user and this Prefect version lives; everything in it is disposable."""
    return platformdirs.user_state_path("irontree") / f"prefect-{version('prefect')}"


def left_addresses() -> Iterator[Path]:
    """Where servers of any version said that they answer; one that was killed leaves its file too. Makes nothing."""
    return platformdirs.user_state_path("irontree").glob(f"prefect-*/{ADDRESS}")


def chosen_api_url(environ: Mapping[str, str], config_value: str | None) -> str | None:
    """The address of the configured server: the real environment, else `prefect.api_url` of our config, else none."""
    return environ.get("PREFECT_API_URL") or config_value or None


def strip(environ: Mapping[str, str]) -> dict[str, str]:
    """*environ* without anything that is between us and Prefect: what agents and checks may start from."""
    return {name: value for name, value in environ.items() if not name.startswith(OURS)}


def local_environment(environ: Mapping[str, str], home: Path, api_url: str) -> dict[str, str]:
    """The whole environment of a process that belongs to the private server in *home*.

    No PREFECT_* of *environ* survives but for its PASSWORD; the rest does. Start such a process with *home* as its
    working folder: Prefect also reads `.env`, `prefect.toml` and `pyproject.toml` there.
    """
    address = api_url.removesuffix("/api")
    return (
        strip(environ)
        | CLIENT
        | SERVER
        | _places(environ, home, api_url)
        | password(environ)
        | {
            # By default any page in the user's browser may call the API, and answer our questions.
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{address},{address.replace('127.0.0.1', 'localhost')}",
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home / 'prefect.db'}",
            # The default is a folder inside the installed package, which may be read-only.
            "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(home / "ui"),
        }
    )


def password(environ: Mapping[str, str]) -> dict[str, str]:
    """What a private server and its clients need where *environ* has a password for it."""
    given = environ.get(PASSWORD)
    return {PASSWORD: given, "PREFECT_API_AUTH_STRING": given} if given else {}


def configured_environment(environ: Mapping[str, str], home: Path, api_url: str) -> dict[str, str]:
    """The whole environment of a process that uses a configured server: *environ* counts, profiles do not."""
    return CLIENT | dict(environ) | _places(environ, home, api_url)


def _places(environ: Mapping[str, str], home: Path, api_url: str) -> dict[str, str]:
    direct = ",".join(dict.fromkeys([*_unproxied(environ), *LOOPBACK_NAMES]))
    return {
        "PREFECT_API_URL": api_url,
        "PREFECT_HOME": str(home),
        "PREFECT_PROFILES_PATH": str(home / "profiles.toml"),
        "NO_PROXY": direct,
        "no_proxy": direct,
    }


def _unproxied(environ: Mapping[str, str]) -> list[str]:
    names = f"{environ.get('NO_PROXY', '')},{environ.get('no_proxy', '')}".split(",")
    return [name.strip() for name in names if name.strip()]


def adopt(environment: Mapping[str, str], home: Path) -> None:
    """Make *environment*'s settings this process's own and load Prefect with them, whatever the working folder holds.

    For processes that cannot be started with them (the command line); call it before anything imports Prefect.
    """
    if "prefect" in sys.modules:
        _refuse_others(environment)
        return
    home.mkdir(parents=True, exist_ok=True)
    for name in [name for name in os.environ if name.startswith(OURS)]:
        del os.environ[name]
    os.environ.update(environment)
    with contextlib.chdir(home):
        importlib.import_module("prefect.context")


def _refuse_others(environment: Mapping[str, str]) -> None:
    """Prefect would go on with the settings that it found, and start a hidden server of its own."""
    if any(os.environ.get(name) != value for name, value in environment.items() if name.startswith(OURS)):
        raise RuntimeError("Prefect was imported before its settings were adopted")


# --- The files by which the private server and its clients find each other


LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where a server has to be; None: anywhere, and at any free port."""

    host: str | None = None
    port: int | None = None

    def is_at(self, address: Address) -> bool:
        """Whether a server there is where it has to be."""
        return self.host in (None, address.host) and self.port in (None, address.port)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server answers: on loopback, and at *host* if that is another."""

    port: int
    pid: int
    host: str = LOOPBACK

    @property
    def api_url(self) -> str:
        """The value of PREFECT_API_URL."""
        return f"http://{LOOPBACK}:{self.port}/api"


class ServerState:
    """The state folder *home*. Liveness is the kernel's: what holds a lock lives, whatever the files say.

    `start.lock` is held by the one server, so that two starts give one; `alive.lock` is held by it too, and asked
    for by its clients; `clients.lock` is shared by the clients, and held alone by a server that is about to end.
    A lock ends with the process that holds it.
    """

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.log = home / "server.log"
        self._address = home / ADDRESS
        self._before = home / "server.before.json"

    # --- the server's side ---

    def become_the_server(self) -> bool:
        """Be the one server until this process ends; False if another process is."""
        return _lock(self.home / "start.lock") is not None

    def come_alive(self) -> int | None:
        """Let clients see that there is a server; returns the port of the one before: clients may still know it.

        The one before is the last that answered, however many could not start since.
        """
        with suppress(FileNotFoundError):  # before the lock: who finds it held may trust the address
            self._address.replace(self._before)
        _lock(self.home / "alive.lock", wait=True)
        last = _read(self._before)
        return last.port if last else None

    def publish(self, address: Address) -> None:
        """Say where the server answers, now that it does."""
        swap(self._address, json.dumps(asdict(address)).encode())
        self._before.unlink(missing_ok=True)

    def in_use(self) -> bool:
        """Whether there is any client."""
        descriptor = _lock(self.home / "clients.lock")
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is None

    def shut_out(self) -> bool:
        """Let no client in until this process has ended; False if there is one after all."""
        if _lock(self.home / "clients.lock") is None:
            return False
        self._address.unlink(missing_ok=True)
        return True

    # --- the clients' side ---

    def join(self) -> int:
        """Be a client until the descriptor is closed; waits for a server that is just ending."""
        descriptor = _opened(self.home / "clients.lock")
        take_lock(descriptor, shared=True, wait=True)
        return descriptor

    def lives(self) -> bool:
        """Whether there is a server, answering or still on its way."""
        descriptor = _lock(self.home / "alive.lock", shared=True)
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is None

    def address(self) -> Address | None:
        """Where the living server answers; None if there is none, or if it does not answer yet."""
        return _read(self._address) if self.lives() else None


def _read(file: Path) -> Address | None:
    """None, too, for a file that a power cut left half: the next server writes it anew."""
    try:
        found = json.loads(file.read_text())
        return Address(int(found["port"]), int(found["pid"]), str(found["host"]))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _lock(path: Path, *, shared: bool = False, wait: bool = False) -> int | None:
    """The descriptor that holds the lock; None if somebody else does."""
    descriptor = _opened(path)
    if take_lock(descriptor, shared=shared, wait=wait):
        return descriptor
    os.close(descriptor)
    return None


# --- Which Prefect server a command has to do with


def environment_of_server(app: App) -> Mapping[str, str] | None:
    """The settings of a process that uses the server of *app*: the configured one, or the private one if it runs."""
    home = state_folder()
    configured = chosen_api_url(os.environ, app.preferences().api_url)
    if configured:
        return configured_environment(os.environ, home, configured)
    try:
        address = ServerState(home).address()
    except OSError:  # where no file can be made no server can live, and who only looks needs none
        return None
    return local_environment(os.environ, home, address.api_url) if address else None


def adopt_server(app: App) -> bool:
    """Make the settings of *app*'s server this process's own, as `adopt` does; False where no server is known."""
    environment = environment_of_server(app)
    if environment is not None:
        adopt(environment, state_folder())
    return environment is not None


def require_server(app: App) -> Mapping[str, str]:
    """The same, for what needs a server; raises ServerUnavailable if none runs."""
    environment = environment_of_server(app)
    if environment is None:
        raise ServerUnavailable(
            "no Prefect server runs here, and none is configured",
            remedy="start one with `irontree serve`, or set PREFECT_API_URL or prefect.api_url",
        )
    return environment


def ui_url(environment: Mapping[str, str]) -> str:
    """Where that server's pages are."""
    return environment.get("PREFECT_UI_URL") or environment["PREFECT_API_URL"].rstrip("/").removesuffix("/api")


def runs_url(ui: str, app: App) -> str:
    """The page of all runs of this repository, by their tag."""
    return f"{ui}/runs?tag=repository:{quote(app.repository.id)}"


# --- Whether a Prefect server can know anything of a repository


_ASKS: Final = (b"api_url", b"start_label", b"nightly")
"""The keys of the configuration that name a server, or let one ask for an approval."""


def is_unknown_to_servers(app: App) -> bool:
    """Whether surely no server asks anything of *app*: none runs here, or is configured, and nothing lets one ask.

    Cheap, for what is typed often: a key that is nowhere in the file is not set, and to read it properly takes `status`
    a fifth more.
    """
    if any(name.startswith(OURS) for name in os.environ) or any(left_addresses()):
        return False
    try:
        written = Layout(app.repository.root).config.read_bytes()
    except OSError:
        return True
    return not any(key in written for key in _ASKS)


# --- Our own Python programs beside this process


LOG_LIMIT = 1_000_000
"""Bytes."""
TURN_OVER_EVERY = 60.0
"""Seconds."""
TAIL = 20
Program = subprocess.Popen[bytes]


def start(
    module: str,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    home: Path,
    log: Path,
    talk: bool = False,
) -> Program:
    """Run `python -m module` in a session of its own, with *home* as its working folder and its output in *log*.

    A Ctrl-C in our terminal does not reach it, and its process group is its pid. With *talk* its stdin and stdout
    are pipes to us; stdin then also tells it, by its end, that we are gone.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    turn_over_if_long(log)
    pipe = subprocess.PIPE if talk else None
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],  # -P: nothing is imported from the working folder
            env=environment,
            cwd=home,
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe or output,
            stderr=output,
            start_new_session=True,
        )


def reap(program: Program) -> None:
    """Let *program* outlive this process, and take note of its end if it comes earlier."""
    threading.Thread(target=program.wait, daemon=True).start()


def tail(log: Path, *, start: int = 0) -> str:
    """The last lines of *log* behind byte *start*, wherever where it was begun anew; empty if there is none."""
    if not log.exists():
        return ""
    written = log.read_bytes()
    lines = written[start if start <= len(written) else 0 :].decode(errors="replace").splitlines()
    return "\n".join(lines[-TAIL:])


def size(log: Path) -> int:
    """The length of *log* in bytes; 0 if there is none."""
    return log.stat().st_size if log.exists() else 0


def keep_short(log: Path) -> None:
    """Turn *log* over whenever it has become long, from a thread of its own; for the process that writes it."""

    def watch() -> None:
        while True:
            time.sleep(TURN_OVER_EVERY)
            turn_over_if_long(log)

    threading.Thread(target=watch, name="log", daemon=True).start()


def turn_over_if_long(log: Path) -> None:
    """Begin *log* anew if it is long; what it had is `.old.log` then.

    It stays the same file: whoever has it open to append to it, as our programs do, goes on at its new beginning.
    """
    if size(log) > LOG_LIMIT:
        with suppress(OSError):  # a full disk has no room for the copy
            shutil.copyfile(log, log.with_suffix(".old.log"))
        with suppress(OSError):
            os.truncate(log, 0)


# --- Ends processes whose parent is gone


RUNNER = "IRONTREE__RUNNER"
"""The pid of our own process that serves the deployment; unset under another worker: its runs may outlive it."""
FINISH = "IRONTREE__FINISH"
"""A path that exists once the person asked to stop after the present step."""
LOOK_FOR_PARENT_EVERY = 0.2


def end_with_runner(environ: Mapping[str, str] = os.environ) -> None:
    """Kill this flow process when the runner that started it is gone; the first line of every flow.

    Otherwise it would go on beside the one that takes its work up again. The kernel's own way (PDEATHSIG) exists
    on Linux alone, and a check of the parent's pid has no thread whose end it could mistake for the parent's.
    """
    if runner := environ.get(RUNNER):
        end_with(int(runner), lambda: os.kill(os.getpid(), signal.SIGKILL))


def end_with(parent: int, end: Callable[[], None]) -> None:
    """Call *end* in a thread of its own once *parent* is no longer the parent of this process."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_FOR_PARENT_EVERY)
        end()

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def finish_asked(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to stop after the present step (first Ctrl-C); asked between steps."""
    return FINISH in environ and Path(environ[FINISH]).exists()
