"""Start a run again at once whose process ended, or hung, before its flow began; nothing here imports Prefect.

Prefect leaves such a run pending, or calls it crashed, and recovery finds it after minutes. Until its flow begins a run
holds no lock and has taken no step. Flow process and watch agree on that moment by a file that only one of them can
create (`programs.take`): whoever comes second gives way. A process that was given up is reaped before the run is
scheduled anew; from then on the server has it, and whoever serves next takes it up if we are killed in between.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import UUID

from irontree.domain.text import times
from irontree.errors import ServerUnavailable, in_words
from irontree.flows.server.programs import BEGIN, ended_by, take, tell

logger = logging.getLogger(__name__)

RUN_ID: Final = "PREFECT__FLOW_RUN_ID"
PAUSES: Final = (0.0, 5.0, 20.0)
"""Seconds before each further start."""
FIRST_SIGN: Final = 30.0
"""Seconds from the order until the flow must have begun; twice as long at each further start."""
LONGEST: Final = 90.0
"""The most of them: recovery takes a run without a lock for dead after 120 s."""
GRACE: Final = 5.0
"""Seconds more for the word that there is a process: it may lie unread where all of us were stopped for a while."""
TELL_TIMES: Final = 6
TELL_AGAIN_AFTER: Final = 1.0
"""How often, and after how many seconds, the server is told again while it is away (a private one is restarted)."""


class Process(Protocol):
    """A flow process, as Prefect's and our own way to start one give it."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def returncode(self) -> int | None:
        """How it ended; `None` until then."""


class Runs(Protocol):
    """What is told to the server; each is `False` if the run is not ours to move: cancelled, ended or suspended."""

    def start_again(self, run_id: UUID, pause: float, said: str) -> bool:
        """Schedule the run anew after *pause* seconds."""

    def crash(self, run_id: UUID, said: str) -> bool:
        """Say that it crashed: recovery starts it by the log."""


class Attempt:
    """A flow process as Prefect is to see it: one whose end we have told to the server has ended well."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self.exists = asyncio.Event()
        self.hung = 0.0
        """Seconds after which it was given up."""
        self.told = False

    def of(self, process: Process) -> Attempt:
        """This attempt, which is that process."""
        self._process = process
        self.exists.set()
        return self

    @property
    def pid(self) -> int | None:
        """That of the process."""
        return self._process.pid if self._process else None

    @property
    def code(self) -> int | None:
        """How it really ended."""
        return self._process.returncode if self._process else None

    @property
    def returncode(self) -> int | None:
        """What Prefect goes by."""
        return 0 if self.told else self.code

    def in_words(self) -> str:
        """How it ended."""
        return f"was killed after {self.hung:.0f} s without a sign" if self.hung else ended_by(self.code)


def said_of(ends: Sequence[str]) -> str:
    """Why a run has not begun after these ends of its processes."""
    return f"Its process {ends[-1]} before its flow began (start {len(ends)} of {len(PAUSES) + 1})."


def said_in_the_end(ends: Sequence[str]) -> str:
    """Why a run is not started again after these ends of its processes."""
    each = "; ".join(f"{end} ({times(number)})" for end, number in Counter(ends).items())
    return (
        f"Its flow did not begin in {len(ends)} starts: its process {each}. "
        "Recovery starts it later; what the processes printed is in the log of what serves it (serving-….log)."
    )


def end_all(said: str) -> None:
    """Say it in the log, then end what serves with all that it has started: whatever started a run late is gone too."""
    try:
        tell(said)
    finally:  # the disk may be full
        os.killpg(0, signal.SIGKILL)


class Starts:
    """Starts flow processes, and starts the run again of one whose flow did not begin.

    *run_process* is Prefect's function of that name, or ours with its parameters; that of this class takes its place.
    *folder* is our own: the files by which flow processes and we agree are in it. Where no process comes of an order,
    *end* ends what serves: the order may still be carried out, and its run must not be started beside that.
    """

    def __init__(
        self,
        run_process: Callable[..., Awaitable[Any]],
        runs: Runs,
        folder: Path,
        *,
        first_sign: float = FIRST_SIGN,
        kill: Callable[[int], None] = lambda pid: os.kill(pid, signal.SIGKILL),
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        end: Callable[[str], None] = end_all,
    ) -> None:
        self._run_process = run_process
        self._runs = runs
        self._folder = folder
        self._first_sign = first_sign
        self._kill = kill
        self._pause = pause
        self._end = end
        self._ends: dict[UUID, list[str]] = {}
        """By run, how its processes ended before its flow began."""

    async def run_process(
        self, command: list[str], *, task_status_handler: Callable[[Any], Any], env: Mapping[str, str], **more: Any
    ) -> Attempt:
        """Run a flow process to its end, and have its run started again if its flow has not begun by then."""
        run_id, attempt, begin = UUID(env[RUN_ID]), Attempt(), self._folder / f"begin-{uuid.uuid4().hex}"
        limit = min(self._first_sign * 2 ** len(self._ends.get(run_id, ())), LONGEST)
        watch = asyncio.create_task(self._give_up_if_it_hangs(attempt, begin, limit))
        try:
            await self._run_process(
                command,
                task_status_handler=lambda process: task_status_handler(attempt.of(process)),
                env={**env, BEGIN: str(begin)},
                **more,
            )
            begun = not take(begin) and not attempt.hung
        finally:
            watch.cancel()
            begin.unlink(missing_ok=True)
        attempt.told = await (self._tell_death(run_id, attempt) if begun else self._again(run_id, attempt))
        return attempt

    async def _give_up_if_it_hangs(self, attempt: Attempt, begin: Path, limit: float) -> None:
        await self._pause(limit)
        if not attempt.exists.is_set():
            await self._pause(GRACE)
        if not attempt.exists.is_set():
            self._end(
                f"No process for a flow was started within {limit:.0f} s: what starts them hangs, or was stopped."
            )
        elif take(begin):
            attempt.hung = limit
            if attempt.code is None and attempt.pid:
                self._kill(attempt.pid)

    async def _tell_death(self, run_id: UUID, attempt: Attempt) -> bool:
        """Say how the process of a flow that had begun ended, unless it ended well."""
        self._ends.pop(run_id, None)
        return bool(attempt.code) and await self._tell(
            lambda: self._runs.crash(run_id, f"Its process {attempt.in_words()}.")
        )

    async def _again(self, run_id: UUID, attempt: Attempt) -> bool:
        """Have the run started again, or say that it was often enough; `False` if it is not ours to move."""
        ends = self._ends.setdefault(run_id, [])  # another process of the run may have ended, and its ends with it
        ends.append(attempt.in_words())
        if len(ends) > len(PAUSES):
            self._ends.pop(run_id, None)
            return await self._tell(lambda: self._runs.crash(run_id, said_in_the_end(ends)))
        pause, said = PAUSES[len(ends) - 1], said_of(ends)
        if await self._tell(lambda: self._runs.start_again(run_id, pause, said)):
            logger.warning("flow run %s: %s It starts again.", run_id, said)
            return True
        self._ends.pop(run_id, None)
        return False

    async def _tell(self, tell: Callable[[], bool]) -> bool:
        """Tell the server; `False` if it cannot be told: Prefect and recovery find the run then."""
        for left in reversed(range(TELL_TIMES)):
            try:
                return await asyncio.to_thread(tell)
            except ServerUnavailable as error:
                if not left:
                    logger.warning("%s", in_words(error))
                else:
                    await self._pause(TELL_AGAIN_AFTER)
        return False
