"""Serves deployments while the command line goes on with other things: a child process, as seen by its parent.

Why a child and not a thread of the command: docs/decisions/0003-prefect-local-mode.md.
"""

from __future__ import annotations

import json
import os
import select
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

from irontree.errors import ServerUnavailable
from irontree.flows.server.private import FINISH, size, start, tail

LIMIT = 2
"""Flow processes per repository: the loop, and the issue it waits for."""
RUNNER = "irontree.flows.serve.runner"
WORKER = "irontree.flows.serve.worker"


@dataclass(frozen=True, slots=True)
class Served:
    """One deployment: a flow by its module path, and what its runs get unless told otherwise.

    *name* is the workspace id: two folders on one server do not take each other's runs (R21).
    """

    entrypoint: str
    name: str
    description: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cron: str | None = None
    slug: str | None = None
    """The name of the schedule, where there is one."""
    scheduled: Mapping[str, Any] = field(default_factory=dict)
    """What scheduled runs get besides."""
    tags: tuple[str, ...] = ()


class Serving:
    """Takes up the runs of *deployments*, each in a process of its own, from the moment it is made until `stop`.

    *by* is the module that does it: RUNNER for one repository, WORKER for any number of them.

    All of it is one session that no Ctrl-C of ours reaches, with *home* as its working folder; it ends when this
    process ends, whatever ends it. `stop` has to be called, or the object used in a `with`.
    """

    def __init__(
        self, deployments: Sequence[Served], *, environment: Mapping[str, str], home: Path, by: str = RUNNER
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="irontree-serving-")
        self._finish = Path(self._folder.name) / "finish"
        self._log = home / f"serving-{deployments[0].name if by == RUNNER else 'all'}.log"
        self._log_start = size(self._log)
        self._program = start(
            by,
            [str(os.getpid())],
            environment={**environment, FINISH: str(self._finish)},
            home=home,
            log=self._log,
            talk=True,
        )
        order = {"folder": self._folder.name, "log": str(self._log), "limit": LIMIT}
        self._order({**order, "deployments": [asdict(served) for served in deployments]})

    def wait_ready(self, timeout: float = 60) -> dict[str, str]:
        """Wait until the deployments are registered; returns their ids by full name (`flow/deployment`). Once only.

        Raises ServerUnavailable when the child ends first, or says nothing for *timeout* seconds; it is ended then.
        """
        output = cast("IO[bytes]", self._program.stdout)
        ready, _, _ = select.select([output], [], [], timeout)
        if not (answer := output.readline() if ready else b""):
            self.stop()
            raise ServerUnavailable(
                f"The flows could not be served:\n{tail(self._log, start=self._log_start)}",
                remedy=f"The whole output is in {self._log}.",
            )
        deployments: dict[str, str] = json.loads(answer)
        return deployments

    def alive(self) -> bool:
        """False if the child has ended: its runs are then dead, and it can be made anew."""
        return self._program.poll() is None

    def finish(self) -> None:
        """Ask the flows to stop after their present step (first Ctrl-C); they look at `lifeline.finish_asked`."""
        self._finish.touch()

    def stop(self) -> None:
        """End the child and all flow processes at once, and leave nothing behind; the server does not know it."""
        if not Path(self._folder.name).exists():
            return  # done already; by now the group's number may be somebody else's
        with suppress(ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
            os.killpg(self._program.pid, signal.SIGKILL)
        self._program.wait()
        cast("IO[bytes]", self._program.stdout).close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _order(self, order: Mapping[str, Any]) -> None:
        with (
            suppress(BrokenPipeError),
            cast("IO[bytes]", self._program.stdin) as pipe,
        ):  # ended already: wait_ready says so
            pipe.write(json.dumps(order).encode())
