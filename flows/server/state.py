"""The files by which the private Prefect server and its clients find each other, and which server a command means."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from irontree.app import App
from irontree.errors import ServerUnavailable
from irontree.files import swap, take_lock
from irontree.flows.server.settings import (
    ADDRESS,
    OURS,
    chosen_api_url,
    configured_environment,
    left_addresses,
    local_environment,
    state_folder,
)
from irontree.store.layout import Layout

# --- The files by which the private Prefect server and its clients find each other


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
