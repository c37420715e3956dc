"""The process that serves flows, as its parent holds it: it imports everything, then waits for its order.

It is started before there is anything to serve, and needs no server until then. Nothing here imports Prefect.
"""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from irontree.errors import ServerUnavailable
from irontree.files import ScratchFolder
from irontree.flows.server.programs import (
    FINISH,
    TAIL,
    TOLD,
    WAKE,
    Program,
    ended_by,
    lines_after,
    size,
    start,
    told_in,
    wake,
)
from irontree.processes.containers import CREDENTIALS, credentials_in
from irontree.processes.handing import handing

OF_MANY = "all"
"""The name in the log of one that serves many repositories."""


class Child:
    """A session of its own that our Ctrl-C does not reach, with *folder* as its working folder, its log there too.

    It ends when this process ends, for whatever reason. *name* says whose flows it serves. Raises ServerUnavailable if
    the disk does not let it start.
    """

    def __init__(self, name: str, *, environment: Mapping[str, str], folder: Path) -> None:
        self._log = folder / f"serving-{name}.log"
        with _disk_lets_it_start(), ExitStack() as held:
            self._start(held, environment, folder)
            self._held = held.pop_all()

    def order(self, what: Mapping[str, Any]) -> None:
        """Let it begin, with the order as `serving.run_child` reads it; at most once."""
        text = json.dumps({**what, "log": str(self._log), "folder": str(self._scratch)})
        pipe = cast("IO[bytes]", self._program.stdin)
        with _disk_lets_it_start(), suppress(BrokenPipeError), pipe:  # ended already: `answer` reports it
            pipe.write(text.encode())

    def answer(self, timeout: float) -> Any:
        """Its answer to the order; call it only once.

        Raises ServerUnavailable if it ends first, or is silent for *timeout* seconds and is then ended.
        """
        output = cast("IO[bytes]", self._program.stdout)
        ready, _, _ = select.select([output], [], [], timeout)
        if answer := output.readline() if ready else b"":
            return json.loads(answer)
        why = f"gave no sign for {timeout:.0f} s, and was ended"
        if ready:
            self._program.wait()
            why = ended_by(self._program.returncode)
        self.stop()
        lines = (line.removeprefix(TOLD) for line in lines_after(self._log, self._log_start)[-TAIL:])
        raise ServerUnavailable(
            "\n".join((f"The flows could not be served: the process that serves them {why}.", *lines)),
            remedy=f"Go on with `irontree resume`. The whole output is in {self._log}.",
        )

    def how_it_ended(self) -> str:
        """`was killed by SIGKILL`, with what it told; for one that is not `alive`."""
        return ". ".join((ended_by(self._program.poll()), *told_in(self._log, self._log_start))).removesuffix(".")

    def alive(self) -> bool:
        """`False` if it has ended."""
        return self._program.poll() is None

    def finish(self) -> None:
        """Ask the flows to stop after their current step (first Ctrl-C); they check `finish_asked`."""
        self._finish.touch()

    def wake(self) -> None:
        """Have it look for scheduled runs at once."""
        wake({WAKE: str(self._wake)})

    def stop(self) -> None:
        """End it and all flow processes at once and clean up; the server is not told."""
        self._held.close()  # does nothing the second time: the group's id may have been reused

    def _start(self, held: ExitStack, environment: Mapping[str, str], folder: Path) -> None:
        """Start it; *held* then ends it and cleans up. Raises OSError."""
        self._log_start = size(self._log)
        self._scratch = held.enter_context(ScratchFolder("serving")).path
        self._finish, self._wake = self._scratch / "finish", self._scratch / "wake"
        credentials = json.dumps(credentials_in(environment)).encode()
        handed = held.enter_context(handing(lambda _: credentials))
        self._program = start(
            "irontree.flows.serve.serving",
            [str(os.getpid())],
            environment={**environment, FINISH: str(self._finish), WAKE: str(self._wake), CREDENTIALS: str(handed)},
            folder=folder,
            log=self._log,
            talk=True,
        )
        held.callback(_end, self._program)


@contextmanager
def _disk_lets_it_start() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ServerUnavailable(
            f"The flows could not be served: {error}.",
            remedy="Check free space and permissions of the folders of our state and of temporary files.",
        ) from error


def _end(program: Program) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    for pipe in (program.stdin, program.stdout):
        with suppress(BrokenPipeError):
            cast("IO[bytes]", pipe).close()
