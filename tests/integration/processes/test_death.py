"""We are killed: our children die with us, and what is left is recognised and killed later (R3)."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys

import pytest

from irontree.domain.child import Child
from irontree.processes.children import ChildProcesses
from irontree.processes.family import ProcessLimits
from tests.support.processes import MemoryRegistry

DRIVER = """
import dataclasses, json, os, sys
from pathlib import Path
from irontree.processes.children import ChildProcesses
from irontree.processes.family import ProcessLimits

class FileRegistry:
    def record(self, child):
        Path("registry.json").write_text(json.dumps(dataclasses.asdict(child)))
    def forget(self, pid): pass
    def recorded(self): return ()

ChildProcesses(FileRegistry()).run(
    ["/bin/sh", "-c", sys.argv[1]], cwd=Path.cwd(), environment=dict(os.environ), limits=ProcessLimits(60)
)
"""


@pytest.fixture
def driver(tmp_path, witness):
    """Starts another process that runs a child of its own; yields it once that child runs."""
    started = []

    def start(script: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", DRIVER, script]
        started.append(subprocess.Popen(words, cwd=tmp_path, start_new_session=True))
        witness.wait_until_held()
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def recorded_by(folder) -> Child:
    return Child(**json.loads((folder / "registry.json").read_text()))


def leftovers(*found: Child) -> ChildProcesses:
    registry = MemoryRegistry()
    for child in found:
        registry.record(child)
    return ChildProcesses(registry)


def test_the_whole_group_dies_with_us(driver, witness):
    process = driver(f"{witness.hold}; sleep 1000 & sleep 1000")
    process.kill()
    witness.wait_until_all_are_gone()


def test_it_dies_with_us_when_our_whole_group_is_killed(driver, witness):
    process = driver(f"{witness.hold}; trap '' TERM HUP; sleep 1000")
    os.killpg(process.pid, signal.SIGKILL)
    witness.wait_until_all_are_gone()


def test_recovery_kills_a_daemon_that_outlived_its_group(driver, witness, tmp_path):
    process = driver(f"{witness.take}; setsid sh -c \"trap '' TERM; echo up >&3; sleep 1000\" & sleep 1000")
    process.kill()
    process.wait()
    assert leftovers(recorded_by(tmp_path)).kill_leftovers() == 1
    witness.wait_until_all_are_gone()


def test_the_child_of_a_living_process_is_no_leftover(driver, witness, tmp_path):
    """Whoever only backs the log up holds no lock, and is not to be shot by the next driver."""
    process = driver(f"{witness.hold}; sleep 1000")
    assert leftovers(recorded_by(tmp_path)).kill_leftovers() == 0
    assert process.poll() is None


def test_a_dead_process_that_nobody_has_waited_for_owns_nothing(driver, witness, tmp_path):
    process = driver(f"{witness.take}; setsid sh -c \"trap '' TERM; echo up >&3; sleep 1000\" & sleep 1000")
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert leftovers(recorded_by(tmp_path)).kill_leftovers() == 1
    witness.wait_until_all_are_gone()


def test_recovery_leaves_another_process_with_the_same_pid_alone(tmp_path):
    stranger = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        reused = Child(stranger.pid, stranger.pid, "1", "another boot", "no such mark", "agent")
        assert leftovers(reused).kill_leftovers() == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_record_of_before_a_reboot_kills_nobody(driver, witness, tmp_path):
    process = driver(f"{witness.hold}; sleep 1000")
    old = dataclasses.replace(recorded_by(tmp_path), boot="another boot", mark="no such mark")
    assert leftovers(old).kill_leftovers() == 0
    assert process.poll() is None


def test_what_ran_when_its_driver_died_is_known_until_recovery(driver, witness, tmp_path):
    script = f"{witness.hold}; sleep 1000"
    process = driver(script)
    assert leftovers(recorded_by(tmp_path)).left_behind() == (), "its driver lives"
    process.kill()
    process.wait()
    left = leftovers(recorded_by(tmp_path))
    assert left.left_behind() == (script[:200],)
    left.kill_leftovers()
    assert left.left_behind() == ()


def test_what_is_recorded_of_a_program_is_its_command_alone_and_tells_no_secret(tmp_path):
    """Not the sandbox around it, nor the shell that looks for another."""
    seen: list[str] = []

    class Seen(MemoryRegistry):
        def record(self, child: Child) -> None:
            seen.append(child.command)
            super().record(child)

    children = ChildProcesses(Seen(), environment={"GITEA_TOKEN": "very-secret-4711"})
    for argv in (["/bin/sh", "-c", 'exec "$0" -c "$1"', "/bin/sh", "true 1"], ["true", "--token=very-secret-4711"]):
        children.run(argv, cwd=tmp_path, environment=dict(os.environ), limits=ProcessLimits(60))
    with children.answering(["cat"], cwd=tmp_path, environment=dict(os.environ), seconds=60) as cat:
        cat.stdin.write(b"hello\n")
        cat.stdin.flush()
        assert cat.stdout.readline() == b"hello\n"
    assert seen == ["true 1", "true --token=(secret)", ""], "what only answers is not what ran"


def test_recovery_with_nothing_recorded_does_nothing():
    assert leftovers().kill_leftovers() == 0


def test_what_was_recorded_is_forgotten_once_it_is_dealt_with():
    registry = MemoryRegistry()
    registry.record(Child(2**22 + 1, 2**22 + 1, "1", "boot", "no such mark", "gone"))
    ChildProcesses(registry).kill_leftovers()
    assert not registry.recorded()
