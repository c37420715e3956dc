"""What a program takes of the machine, in every place: processes, output, files, memory of ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from irontree.agents.registry import open_agent
from irontree.agents.transcript import LOG_BYTES
from irontree.domain.agents import AgentSpec
from irontree.domain.places import OPEN
from irontree.domain.text import TRUNCATION_MARKER
from irontree.ports import AgentTask
from irontree.processes.children import KEEP_BYTES, ChildProcesses
from irontree.processes.family import LARGEST_FILE, ProcessLimits, family
from irontree.processes.running import MOST_PROCESSES
from tests.support.containers import bubblewrap_place
from tests.support.nobody import as_nobody, needs_root
from tests.support.processes import AMPLE, NEVER, MemoryRegistry
from tests.support.soak import in_soak

FEW = 150
# What waits does not slow the tests beside it down; what doubles does, and is let go in the soak.
BOMBS = {
    "in its group": "while :; do sleep 60 & done",
    "out of its group": "while :; do setsid sleep 60 & done",
    "doubling in its group": "bomb() { bomb | bomb & }; bomb; sleep 60",
    "doubling out of its group": "printf 'setsid sh bomb & setsid sh bomb & sleep 60' > bomb; sh bomb; sleep 60",
}
EACH_BOMB = pytest.mark.parametrize(
    "bomb",
    [pytest.param(bomb, id=name, marks=in_soak if "doubling" in name else ()) for name, bomb in BOMBS.items()],
)
MEGABYTE = 1024 * 1024


@pytest.fixture(params=["none", "bubblewrap"])
def place(request):
    return OPEN if request.param == "none" else bubblewrap_place().spec


def explode(bomb, place, folder):
    """Let it go off; it is gone, with all that it started."""
    registry = MemoryRegistry()
    done = (
        ChildProcesses(registry, grace_seconds=0.5, environment=os.environ)
        .within(place)
        .run(
            ["sh", "-c", bomb],
            cwd=folder,
            environment={"PATH": os.environ["PATH"], "HOME": str(folder)},
            limits=ProcessLimits(60, processes=FEW),
        )
    )
    assert done.ended == "exited"
    assert done.exit_code in (-9, 128 + 9), "bubblewrap may tell of its program's end before its own"
    assert done.output.endswith(f"killed, because it had more than {FEW} processes\n")
    assert family(registry.history[0], sure=False) == []


@pytest.mark.skipif(sys.platform != "linux", reason="processes are counted on Linux")
@EACH_BOMB
def test_a_program_that_starts_processes_without_end_is_ended(tmp_path, bomb):
    """Also if it is root's, whom no limit of the system holds."""
    explode(bomb, bubblewrap_place().spec, tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are counted on Linux")
def test_the_same_where_nothing_confines_it_as_long_as_it_stays_in_its_group(tmp_path):
    explode(BOMBS["in its group"], OPEN, tmp_path)


@needs_root
def test_the_same_of_a_user_without_rights():
    place = bubblewrap_place().spec
    as_nobody(lambda folder: explode(BOMBS["out of its group"], place, folder))


@in_soak
@needs_root
def test_the_same_of_a_user_without_rights_where_nothing_confines_it():
    as_nobody(lambda folder: explode(BOMBS["doubling out of its group"], OPEN, folder))


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set on Linux")
def test_what_it_may_take_is_bounded_and_the_system_ends_it_first(tmp_path, place):
    done = (
        ChildProcesses(MemoryRegistry(), environment=os.environ)
        .within(place)
        .run(
            ["sh", "-c", "cat /proc/self/limits /proc/self/oom_score_adj"],
            cwd=tmp_path,
            environment={"PATH": os.environ["PATH"]},
            limits=AMPLE,
        )
    )
    found = {line[:25].strip(): line[26:].split()[:2] for line in done.output.splitlines()[:-1]}
    assert int(found["Max processes"][1]) <= MOST_PROCESSES
    assert int(found["Max file size"][1]) <= LARGEST_FILE + 2**28
    assert found["Max core file size"] == ["0", "0"]
    assert int(found["Max open files"][1]) <= 65536
    assert int(done.output.splitlines()[-1]) >= 500


class Memory:
    """How much more of it this process had at its highest than at the beginning, in bytes; on Linux."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the highest begins anew
        self._began = self._read("VmRSS")

    def grown(self) -> int:
        return self._read("VmHWM") - self._began

    def _read(self, name: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


class Deaf:
    """A progress that keeps nothing."""

    def note(self, text: str) -> None:
        """Forget it."""


FLOOD = "echo begins; head -c {bytes} /dev/zero | tr '\\\\0' x | fold -w 8000; echo; echo ends"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured on Linux")
def test_output_without_end_takes_no_memory_of_ours(tmp_path, place):
    memory = Memory()
    done = (
        ChildProcesses(MemoryRegistry(), environment=os.environ)
        .within(place)
        .run(
            ["sh", "-c", FLOOD.format(bytes=200 * MEGABYTE)],
            cwd=tmp_path,
            environment={"PATH": os.environ["PATH"]},
            limits=AMPLE,
        )
    )
    assert done.ok
    assert done.output.startswith("begins\n")
    assert done.output.endswith("\nends\n")
    assert len(done.output) <= KEEP_BYTES + 100
    assert memory.grown() < 32 * MEGABYTE


@in_soak
def test_of_an_agent_s_gigabyte_the_beginning_and_the_end_are_kept(tmp_path, place):
    spec = AgentSpec(command=("sh", "-c", FLOOD.format(bytes=1024 * MEGABYTE)), place=place, wall_seconds=600)
    (tmp_path / "workspace").mkdir()
    task = AgentTask(7, "task", 1, "Work.", tmp_path / "workspace", tmp_path / "transcript")
    children, memory = ChildProcesses(MemoryRegistry(), environment=os.environ), Memory()
    result = open_agent(spec, children, os.environ).attempt(task, cancel=NEVER, progress=Deaf())
    assert memory.grown() < LOG_BYTES + 32 * MEGABYTE
    assert (result.ended, result.exit_code) == ("exited", 0)
    log = (task.transcript / "output.log").read_bytes()
    assert log.startswith(b"begins\n")
    assert log.endswith(b"\nends\n")
    assert TRUNCATION_MARKER.encode() in log
    assert len(log) <= LOG_BYTES + 100
