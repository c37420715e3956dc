"""Start each flow process as a fork of one that has imported everything (docs/decisions/0028-forked-runs.md).

The process that serves forks a *fork server* before it has a thread, a loop, a lock or a client. The two are connected
by a socket without a name, so nobody else can give it orders. A forked process becomes `python -m prefect.engine`.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio.abc
from prefect.context import refresh_global_settings_context

from irontree.flows.serve.starts import end_all
from irontree.flows.server.programs import RUNNER, end_with_runner, ended_by
from irontree.processes.handing import protect
from irontree.rendering import JinjaRenderer

FORKS: Final = sys.platform == "linux"
"""Elsewhere (macOS) libraries of the system may fail in a process that was forked and not executed."""
FORK_SERVER, FLOW = "irontree-forks", "irontree-flow"
_PR_SET_NAME: Final = 15
PRELOADED: Final = (
    "anyio._backends._asyncio",
    "irontree.adapters",
    "irontree.agents.program",
    "irontree.domain.comments",
    "irontree.flows.agent_request",
    "irontree.flows.intake",
    "irontree.flows.issue",
    "irontree.flows.janitor",
    "irontree.flows.loop",
    "irontree.flows.reconcile",
    "irontree.flows.serve.taken",
    "irontree.forges.local",
    "irontree.repository.reading",
    "prefect._internal.metrics",
    "prefect.task_engine",
    "prefect.utilities.visualization",
)
"""What flow processes import, beside what the process that serves has imported."""


# --- The side of the process that serves


@dataclass(slots=True)
class Forked:
    """A flow process, with what Prefect asks of one."""

    pid: int
    returncode: int | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class ForkServer:
    """The fork server of this process. Construct it before anything else: it is a copy of what is there by then."""

    def __init__(self) -> None:
        for module in PRELOADED:
            importlib.import_module(module)
        JinjaRenderer().compile_all()
        self._socket, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            self._socket.close()
            _run_engine(_serve(theirs))
        theirs.close()
        self._writer: asyncio.StreamWriter | None = None
        self._orders: list[asyncio.Future[Forked]] = []
        self._running: dict[int, Forked] = {}

    async def use(self) -> Coroutine[Any, Any, None]:
        """Let processes be started here from now on; returns what is to run beside them."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._socket)
        return self._follow(reader)

    async def _follow(self, reader: asyncio.StreamReader) -> None:
        async for line in reader:
            self._note(json.loads(line))
        # The fork server is gone. Nothing can be started any more, and its processes end.
        _, status = await asyncio.to_thread(os.waitpid, self._pid, 0)
        end_all(f"The process that starts flows {ended_by(os.waitstatus_to_exitcode(status))}.")

    async def run_process(
        self,
        command: list[str],  # noqa: ARG002 - always the engine, of which the fork server has one
        *,
        task_status: anyio.abc.TaskStatus[Any],
        task_status_handler: Any,
        env: Mapping[str, str],
        cwd: object = None,
        **_: object,
    ) -> Forked:
        """In the place of Prefect's function of this name; output goes where ours does, which is the log."""
        process = await self._start({"environment": dict(env), "folder": str(cwd) if cwd else None})
        try:
            task_status.started(task_status_handler(process))
            await process.ended.wait()
        finally:
            if process.returncode is None:
                os.kill(process.pid, signal.SIGTERM)
        return process

    async def _start(self, order: Mapping[str, Any]) -> Forked:
        if self._writer is None:
            raise RuntimeError("no process can be started before `use`")
        started = asyncio.get_running_loop().create_future()
        self._orders.append(started)
        self._writer.write(_line(order))
        return await asyncio.shield(started)

    def _note(self, said: Mapping[str, int]) -> None:
        """Take in that a process has started (the fork server works orders off one by one), or ended."""
        if "code" not in said:
            process = self._running[said["pid"]] = Forked(said["pid"])
            self._orders.pop(0).set_result(process)
            return
        process = self._running.pop(said["pid"])
        process.returncode = said["code"]
        process.ended.set()


def _line(said: Mapping[str, Any]) -> bytes:
    return json.dumps(said).encode() + b"\n"


# --- The fork server's side


def _serve(talk: socket.socket) -> Mapping[str, Any]:
    """Fork for each order until the other side is gone; returns in forked processes alone, with their order."""
    _show_as(FORK_SERVER)
    _let_go_of_the_parent()
    signal.signal(signal.SIGCHLD, lambda *_: _reap(talk))
    with talk.makefile("rb") as orders:
        for order in orders:
            # Its end cannot be told before its start, nor in the middle of that message.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            else:
                talk.sendall(_line({"pid": pid}))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            if pid == 0:
                talk.close()
                given: Mapping[str, Any] = json.loads(order)
                return given
    os._exit(0)


def _show_as(name: str) -> None:
    """What `ps` and `top` call this process, which has the command line of the one that serves."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def _let_go_of_the_parent() -> None:
    """Keep nothing of its talk with the command, and be read by nobody: the settings of flows hold a password."""
    protect()
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    gc.freeze()  # the collector would write to, and so copy, every page that the processes share


def _reap(talk: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        talk.sendall(_line({"pid": pid, "code": os.waitstatus_to_exitcode(status)}))


def _run_engine(order: Mapping[str, Any]) -> None:
    """Do in this forked process what `python -m prefect.engine` does in a new one, and end with whoever serves."""
    _show_as(FLOW)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.environ[RUNNER] = str(os.getppid())  # the fork server, which ends with the process that serves
    end_with_runner()
    if order["folder"]:
        os.chdir(order["folder"])
    refresh_global_settings_context()
    sys.argv[1:] = []
    sys.modules.pop("prefect.engine", None)
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
    sys.exit()
