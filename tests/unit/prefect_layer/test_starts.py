"""A run whose process ends or hangs before its flow began is started again, and no process drives it beside another."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from irontree.errors import ServerUnavailable
from irontree.flows.serve.starts import GRACE, PAUSES, RUN_ID, TELL_AGAIN_AFTER, TELL_TIMES, Starts
from irontree.flows.server.programs import BEGIN, begin, ended_by, take

RUN = uuid.UUID(int=7)
FIRST = "Its process ended with exit code 3 before its flow began (start 1 of 4)."


@dataclass
class Told:
    """The server as far as it is told of runs; it *refuses* to move a run, and is *away* that often."""

    refuses: bool = False
    away: int = 0
    calls: list[tuple[str, float, str]] = field(default_factory=list)

    def start_again(self, run_id: uuid.UUID, pause: float, said: str) -> bool:
        return self._take("again", run_id, pause, said)

    def crash(self, run_id: uuid.UUID, said: str) -> bool:
        return self._take("crash", run_id, 0, said)

    def _take(self, what: str, run_id: uuid.UUID, pause: float, said: str) -> bool:
        assert run_id == RUN
        if self.away:
            self.away -= 1
            raise ServerUnavailable("it is away")
        self.calls.append((what, pause, said))
        return not self.refuses


@dataclass
class Ended:
    """A process that ran to its end."""

    returncode: int | None
    pid: int = 0


def ending(code: int, *, begins: bool = False, seen: list[int | None] | None = None):
    """A process that ends with *code*, whose flow *begins* before; *seen* is what Prefect sees before and after."""

    async def run_process(command, *, task_status_handler, env, **_):
        handle = task_status_handler(process := Ended(None))
        if seen is not None:
            seen.append(handle.returncode)
        await asyncio.sleep(0)
        if begins:
            begin(dict(env), end=lambda: pytest.fail("it was given up"))
        process.returncode = code

    return run_process


def run(starts: Starts, times: int = 1):
    """What Prefect sees of the last of so many starts of the run."""

    async def all_of_them():
        for _ in range(times):
            last = await starts.run_process([], task_status_handler=lambda process: process, env={RUN_ID: str(RUN)})
        return last

    return asyncio.run(all_of_them())


async def at_once(seconds: float) -> None:
    """No pause worth waiting for."""


async def between_tries_none(seconds: float) -> None:
    """Those between two tries to tell the server are none; that until a process is given up is for ever."""
    if seconds != TELL_AGAIN_AFTER:
        await for_ever(seconds)


async def for_ever(seconds: float) -> None:
    await asyncio.Event().wait()


def test_a_process_that_ends_before_its_flow_begins_has_its_run_started_again_at_once(tmp_path):
    """For Prefect it ended well: otherwise it would call the run crashed that is scheduled anew by then."""
    told, seen = Told(), []
    attempt = run(Starts(ending(3, seen=seen), told, tmp_path))
    assert told.calls == [("again", 0.0, FIRST)]
    assert (seen, attempt.returncode) == ([None], 0)
    assert list(tmp_path.iterdir()) == []


def test_after_three_more_starts_the_run_says_so_and_is_left_to_recovery(tmp_path):
    told = Told()
    run(Starts(ending(-signal.SIGSEGV), told, tmp_path), times=4)
    assert [call[:2] for call in told.calls] == [*(("again", pause) for pause in PAUSES), ("crash", 0)]
    assert PAUSES == (0, 5, 20)
    assert "did not begin in 4 starts: its process was killed by SIGSEGV (4 times). Recovery" in told.calls[-1][2]
    run(Starts(ending(3), told, tmp_path))
    assert told.calls[-1][:2] == ("again", 0.0), "recovery's start is a first one"


def test_a_flow_that_began_has_its_starts_counted_anew(tmp_path):
    told, ends = Told(), iter((3, 0, 3))

    async def process(command, **more):
        code = next(ends)
        await ending(code, begins=code == 0)(command, **more)

    run(Starts(process, told, tmp_path), times=3)
    assert [said for _, _, said in told.calls] == [FIRST, FIRST]


def test_a_flow_that_began_and_died_is_not_started_again_but_said_to_have_crashed_in_plain_words(tmp_path):
    """Prefect would speak of memory limits, whatever it was."""
    told = Told()
    assert run(Starts(ending(-signal.SIGKILL, begins=True), told, tmp_path)).returncode == 0
    assert told.calls == [("crash", 0, "Its process was killed by SIGKILL.")]


def test_a_flow_that_began_and_ended_well_is_nothing_to_tell(tmp_path):
    told = Told()
    assert run(Starts(ending(0, begins=True), told, tmp_path)).returncode == 0
    assert told.calls == []


@pytest.mark.parametrize("begins", [True, False])
def test_a_run_that_somebody_cancelled_meanwhile_is_left_to_prefect(tmp_path, begins):
    told = Told(refuses=True)
    assert run(Starts(ending(-signal.SIGTERM, begins=begins), told, tmp_path)).returncode == -signal.SIGTERM


def test_a_server_that_is_away_for_a_moment_is_told_when_it_is_back(tmp_path):
    told = Told(away=TELL_TIMES - 1)
    assert run(Starts(ending(3), told, tmp_path, pause=between_tries_none)).returncode == 0
    assert told.calls == [("again", 0.0, FIRST)]


def test_a_server_that_stays_away_leaves_the_run_to_recovery(tmp_path):
    assert run(Starts(ending(3), Told(away=TELL_TIMES), tmp_path, pause=between_tries_none)).returncode == 3


def test_two_processes_of_one_run_that_end_at_once_each_have_their_end_told(tmp_path):
    """The run is not ours to move, and whoever hears that first forgets the ends of both."""
    told = Told(refuses=True)
    starts = Starts(ending(3), told, tmp_path, pause=between_tries_none)

    async def both():
        one = {"task_status_handler": lambda process: process, "env": {RUN_ID: str(RUN)}}
        return await asyncio.gather(*(starts.run_process([], **one) for _ in range(2)))

    assert sorted(attempt.returncode for attempt in asyncio.run(both())) == [3, 3]
    assert [call[0] for call in told.calls] == ["again", "again"]


def test_a_process_that_ends_after_another_of_its_run_had_begun_is_a_first_one(tmp_path):
    told, ended = Told(), asyncio.Event()
    started = iter((True, False))

    async def process(command, **more):
        first = next(started)
        if not first:
            await ended.wait()
        await ending(0 if first else 3, begins=first)(command, **more)

    starts = Starts(process, told, tmp_path, pause=between_tries_none)

    async def in_order():
        one = {"task_status_handler": lambda process: process, "env": {RUN_ID: str(RUN)}}
        first, second = (asyncio.create_task(starts.run_process([], **one)) for _ in range(2))
        await first
        ended.set()
        await second

    asyncio.run(in_order())
    assert told.calls == [("again", 0.0, FIRST)]


# --- Those of which no process comes


def test_where_no_process_comes_of_an_order_what_serves_is_ended_with_the_reason(tmp_path):
    """It may come later, when what starts processes goes on: started again beside that, a flow would run twice."""
    waited, said, told = [], asyncio.Queue(), Told()

    async def nothing_comes(command, **_):
        await asyncio.Event().wait()

    async def note(seconds: float) -> None:
        waited.append(seconds)

    starts = Starts(nothing_comes, told, tmp_path, pause=note, end=said.put_nowait)

    async def until_it_is_said():
        order = asyncio.create_task(starts.run_process([], task_status_handler=None, env={RUN_ID: str(RUN)}))
        reason = await asyncio.wait_for(said.get(), 30)
        order.cancel()
        return reason

    reason = asyncio.run(until_it_is_said())
    assert reason == "No process for a flow was started within 30 s: what starts them hangs, or was stopped."
    assert (waited, told.calls) == ([30, GRACE], [])


def test_a_process_whose_start_was_only_told_late_is_given_no_blame(tmp_path):
    """All of us were stopped and went on: the clock has run out, and the word of the start lies unread."""

    async def run_process(command, *, task_status_handler, env, **_):
        await asyncio.sleep(0.05)
        begin(dict(env), end=lambda: pytest.fail("it was given up"))
        task_status_handler(process := Ended(None))
        await asyncio.sleep(0.05)
        process.returncode = 0

    async def little(seconds: float) -> None:
        await asyncio.sleep(0.2 if seconds == GRACE else 0)

    told = Told()
    run(Starts(run_process, told, tmp_path, pause=little, end=pytest.fail, kill=lambda _: pytest.fail("it has begun")))
    assert told.calls == []


# --- Those that hang, as real processes


PROGRAM = """
import os, sys, time
from irontree.flows.server.programs import begin
time.sleep(float(sys.argv[1]))
begin()
print("began", flush=True)
time.sleep(float(sys.argv[2]))
"""


def a_process(before: float, after: float, output: Path):
    """A process whose flow begins after so many seconds and lasts so many."""

    async def run_process(command, *, task_status_handler, env, **_):
        with output.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", PROGRAM, str(before), str(after), stdout=out, env={**os.environ, **env}
            )
        task_status_handler(process)
        await process.wait()

    return run_process


def test_one_that_hangs_is_killed_and_reaped_before_its_run_is_started_again(tmp_path):
    killed: list[int] = []

    def kill(pid: int) -> None:
        killed.append(pid)
        os.kill(pid, signal.SIGKILL)

    class Looks(Told):
        def start_again(self, run_id, pause, said):
            with pytest.raises(ProcessLookupError):
                os.kill(killed[-1], 0)
            return super().start_again(run_id, pause, said)

    told, output = Looks(), tmp_path / "output"
    run(Starts(a_process(60, 0, output), told, tmp_path, first_sign=0.2, kill=kill))
    assert [call[0] for call in told.calls] == ["again"]
    assert "was killed after 0 s without a sign before its flow began" in told.calls[0][2]
    assert output.read_text() == ""


def test_one_that_has_begun_may_take_as_long_as_it_likes(tmp_path):
    told, output = Told(), tmp_path / "output"

    async def until_it_has_begun(_: float) -> None:
        while not (output.exists() and output.read_text()):  # noqa: ASYNC110  (another process writes it)
            await asyncio.sleep(0.01)

    run(Starts(a_process(0, 0.5, output), told, tmp_path, pause=until_it_has_begun))
    assert (told.calls, output.read_text()) == ([], "began\n")


def test_each_further_start_may_take_twice_as_long_but_not_as_long_as_recovery_waits(tmp_path):
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(seconds)
        await for_ever(seconds)

    run(Starts(ending(3), Told(), tmp_path, pause=note), times=4)
    assert waited == [30, 60, 90, 90]


def test_a_flow_that_begins_just_as_it_is_given_up_ends_before_it_begins(tmp_path):
    """The limit passes first: whoever waits for the process then starts another, and this one must do nothing."""
    given_up: list[str] = []

    async def run_process(command, *, task_status_handler, env, **_):
        task_status_handler(process := Ended(None, pid=4711))
        await asyncio.sleep(0.05)
        begin(dict(env), end=lambda: given_up.append("ended itself"))
        process.returncode = -signal.SIGKILL

    told = Told()
    run(Starts(run_process, told, tmp_path, pause=at_once, kill=lambda _: None))
    assert given_up == ["ended itself"]
    assert [call[0] for call in told.calls] == ["again"]


def test_a_flow_that_begins_just_before_it_would_be_given_up_is_left_alone(tmp_path):
    async def run_process(command, *, task_status_handler, env, **_):
        begin(dict(env), end=lambda: pytest.fail("it was first"))
        task_status_handler(process := Ended(None))
        await asyncio.sleep(0.05)
        process.returncode = 0

    told = Told()
    run(Starts(run_process, told, tmp_path, pause=at_once, kill=lambda _: pytest.fail("it was first")))
    assert told.calls == []


# --- What a flow process and whoever started it agree by


def test_only_one_of_many_takes_it(tmp_path):
    assert [take(tmp_path / "begin") for _ in range(3)] == [True, False, False]


def test_a_flow_whose_starter_is_gone_with_its_folder_ends(tmp_path):
    ended: list[bool] = []
    begin({BEGIN: str(tmp_path / "gone" / "begin")}, end=lambda: ended.append(True))
    assert ended == [True]


def test_a_flow_that_nobody_watches_begins_without_a_word():
    begin({}, end=lambda: pytest.fail("nobody gave it up"))


def test_it_is_said_once_and_told_to_no_program_that_the_flow_starts(tmp_path):
    environ = {BEGIN: str(tmp_path / "begin")}
    begin(environ, end=lambda: pytest.fail("it was first"))
    assert environ == {}
    begin(environ, end=lambda: pytest.fail("it has begun"))


def test_a_process_that_was_given_up_kills_itself(tmp_path):
    (tmp_path / "begin").touch()
    program = "from irontree.flows.server.programs import begin; begin(); print('at work')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, BEGIN: str(tmp_path / "begin")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


@pytest.mark.parametrize(
    ("code", "words"),
    [(1, "ended with exit code 1"), (-9, "was killed by SIGKILL"), (-250, "was killed by signal 250")],
)
def test_an_end_in_words(code, words):
    assert ended_by(code) == words
