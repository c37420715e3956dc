"""What a program that we start can count on, and what it cannot do to us (R3)."""

from __future__ import annotations

import hashlib
import os
import sys
import threading

import pytest

from irontree.domain.child import Child
from irontree.errors import EnvironmentRefused
from irontree.processes.children import ChildProcesses
from irontree.processes.family import MARK, ProcessLimits
from irontree.processes.running import capture
from tests.support.processes import AMPLE, MemoryRegistry, children

DEAF = "trap '' TERM"


def sh(script, tmp_path, *, starter=None, limits=AMPLE, **more):
    starter = starter or children()
    return starter.run(["sh", "-c", script], cwd=tmp_path, environment=dict(os.environ), limits=limits, **more)


def test_a_program_that_ends_is_reported_with_its_exit_code_and_output(tmp_path):
    done = sh("echo out; echo err >&2; exit 3", tmp_path)
    assert (done.ended, done.exit_code, done.ok) == ("exited", 3, False)
    assert sorted(done.output.split()) == ["err", "out"]
    assert sh("true", tmp_path).ok


def test_stdin_arrives_whole_and_is_closed(tmp_path):
    text = b"line\n" * 100_000
    done = sh("cat", tmp_path, stdin=text)
    assert done.output_digest == hashlib.sha256(text).hexdigest()


def test_a_program_that_does_not_read_its_stdin_is_no_problem(tmp_path):
    assert sh("exec <&-; echo done", tmp_path, stdin=b"x" * 1_000_000).output == "done\n"


def test_lines_are_passed_on_as_they_come(tmp_path):
    heard: list[bytes] = []
    sh("printf 'one\\ntwo\\nno end'", tmp_path, on_line=heard.append)
    assert heard == [b"one\n", b"two\n", b"no end"]


def test_a_line_reaches_the_listener_while_the_program_still_runs(tmp_path):
    """The program ends only after its first line was heard."""
    bell = tmp_path / "bell"
    done = sh(
        f"echo first; until [ -e '{bell}' ]; do sleep 0.02; done", tmp_path, on_line=lambda _: bell.touch(), keep=100
    )
    assert done.ok


def test_endless_output_without_line_ends_is_passed_on_in_pieces(tmp_path):
    heard: list[bytes] = []
    sh("head -c 1000000 /dev/zero", tmp_path, on_line=heard.append)
    assert sum(map(len, heard)) == 1_000_000
    assert max(map(len, heard)) < 300_000


def test_long_output_keeps_both_ends_and_the_digest_is_over_all_of_it(tmp_path):
    done = sh("echo begin; seq 100000; echo end", tmp_path, keep=1000)
    whole = b"begin\n" + b"".join(b"%d\n" % n for n in range(1, 100_001)) + b"end\n"
    assert done.output.startswith("begin\n1\n")
    assert done.output.endswith("100000\nend\n")
    assert "...(truncated)..." in done.output
    assert len(done.output) < 1100
    assert done.output_digest == hashlib.sha256(whole).hexdigest()


@pytest.mark.parametrize("size", [999, 1000])
def test_output_that_fits_is_kept_whole(tmp_path, size):
    assert sh(f"head -c {size} /dev/zero | tr '\\0' x", tmp_path, keep=1000).output == "x" * size


def test_bytes_that_are_no_text_do_not_stop_anything(tmp_path):
    assert sh("printf 'a\\377b'", tmp_path).output == "a\ufffdb"


@pytest.mark.parametrize("program", ["no-such-program-anywhere", "./no-such-file", "/no/such/file"])
def test_a_missing_program_is_not_started(tmp_path, program):
    registry = MemoryRegistry()
    done = ChildProcesses(registry).run([program], cwd=tmp_path, environment=dict(os.environ), limits=AMPLE)
    assert (done.ended, done.exit_code) == ("not_started", None)
    assert program in done.output
    assert not registry.history


@pytest.mark.parametrize("gone", ["folder", "file/folder"])
def test_a_folder_that_is_gone_is_named_and_not_taken_for_a_missing_program(tmp_path, gone):
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentRefused, match=f"{gone} is gone"):
        sh("true", tmp_path / gone)
    with pytest.raises(EnvironmentRefused, match=f"{gone} is gone"):
        capture(["true"], cwd=tmp_path / gone, environment=dict(os.environ), seconds=10)
    with pytest.raises(EnvironmentRefused, match="no-such-program"):
        capture(["no-such-program"], cwd=tmp_path, environment=dict(os.environ), seconds=10)


def test_a_program_is_found_relative_to_its_own_folder(tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho here\n")
    tool.chmod(0o755)
    assert children().run(["./tool"], cwd=tmp_path, environment={}, limits=AMPLE).output == "here\n"


def test_a_child_is_recorded_before_it_runs_and_forgotten_after(tmp_path):
    proof = tmp_path / "ran"

    class Curious(MemoryRegistry):
        def record(self, child: Child) -> None:
            super().record(child)
            self.ran_before_recorded = proof.exists()

    registry = Curious()
    sh(f"touch '{proof}'", tmp_path, starter=ChildProcesses(registry))
    assert proof.exists()
    assert not registry.ran_before_recorded
    assert not registry.recorded()
    (child,) = registry.history
    assert child.pid == child.pgid
    assert child.started
    assert child.boot


def test_a_child_that_cannot_be_recorded_never_runs(tmp_path):
    proof = tmp_path / "ran"

    class Full(MemoryRegistry):
        def record(self, child: Child) -> None:
            raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        sh(f"touch '{proof}'", tmp_path, starter=ChildProcesses(Full()))
    assert not proof.exists()


def test_a_child_leads_its_own_session_and_group(tmp_path):
    script = "import os; print(os.getpid(), os.getpgid(0), os.getsid(0))"
    done = children().run([sys.executable, "-c", script], cwd=tmp_path, environment={}, limits=AMPLE)
    assert len(set(done.output.split())) == 1


def test_descendants_inherit_the_mark_of_the_child(tmp_path):
    registry = MemoryRegistry()
    done = sh(f'sh -c "echo \\${MARK}"', tmp_path, starter=ChildProcesses(registry))
    assert done.output.strip() == registry.history[0].mark


def test_time_over_is_a_timeout_and_nobody_is_left(tmp_path, witness):
    done = sh(f"{witness.hold}; sleep 1000", tmp_path, limits=ProcessLimits(0.2))
    assert done.ended == "timeout"
    assert witness.says_all_are_gone()


def test_a_program_that_cleans_up_on_sigterm_is_given_the_time(tmp_path):
    script = "trap 'echo cleaned; exit 7' TERM; echo up; while :; do sleep 0.02; done"
    done = sh(script, tmp_path, starter=children(grace_seconds=30), limits=ProcessLimits(0.3))
    assert (done.ended, done.exit_code) == ("timeout", 7)
    assert done.output.endswith("cleaned\n")


def test_a_program_that_ignores_sigterm_is_killed(tmp_path, witness):
    done = sh(f"{DEAF}; {witness.hold}; while :; do sleep 0.05; done", tmp_path, limits=ProcessLimits(0.2))
    assert (done.ended, done.exit_code) == ("timeout", -9)
    assert witness.says_all_are_gone()


def test_silence_is_a_stall_but_talking_is_not(tmp_path):
    assert sh("sleep 1000", tmp_path, limits=ProcessLimits(60, stall_seconds=0.2)).ended == "stalled"
    talking = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done"
    assert sh(talking, tmp_path, limits=ProcessLimits(60, stall_seconds=0.6)).ended == "exited"


def test_asked_to_stop_it_stops_at_once_and_nobody_is_left(tmp_path, witness):
    stop = threading.Event()
    done = sh(
        f"{witness.hold}; echo started; sleep 1000",
        tmp_path,
        limits=ProcessLimits(60, cancel=stop),
        on_line=lambda _: stop.set(),
    )
    assert done.ended == "cancelled"
    assert witness.says_all_are_gone()


@pytest.mark.parametrize(
    "escape",
    [
        "sleep 1000 &",
        f"({DEAF}; sleep 1000) &",
        "setsid sleep 1000 &",
        f"setsid sh -c \"{DEAF}; setsid sh -c '{DEAF}; sleep 1000' & sleep 1000\" &",
        "env -i sleep 1000 &",
    ],
    ids=["background", "deaf", "own session", "daemon of a daemon, deaf", "without our mark"],
)
@pytest.mark.parametrize("end", ["exit 0", "sleep 1000"], ids=["after its own end", "at a timeout"])
def test_what_a_program_leaves_running_is_gone_when_we_return(tmp_path, witness, escape, end):
    done = sh(f"{witness.hold}; {escape} {end}", tmp_path, limits=ProcessLimits(0.4))
    assert done.ended == ("exited" if end == "exit 0" else "timeout")
    assert witness.says_all_are_gone()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not show the tree of a process that left it")
def test_a_process_that_left_the_session_and_wiped_its_environment_is_found_while_its_parent_lives(tmp_path, witness):
    sh(f"{witness.hold}; env -i setsid sleep 1000 & sleep 1000", tmp_path, limits=ProcessLimits(0.3))
    assert witness.says_all_are_gone()


def test_a_daemon_that_holds_the_output_open_does_not_hold_us(tmp_path):
    """git leaves its credential cache running; nobody waits for that to end."""
    pid_file = tmp_path / "pid"
    done = sh(f"setsid sleep 1000 & echo $! > '{pid_file}'; echo done", tmp_path, leave_daemons=True)
    daemon = int(pid_file.read_text())
    assert (done.ended, done.output) == ("exited", "done\n")
    os.kill(daemon, 9)  # raises if it was not left alone


def test_a_listener_that_fails_leaves_nobody_behind(tmp_path, witness):
    registry = MemoryRegistry()

    def fail(line: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sh(f"{witness.hold}; echo now; sleep 1000", tmp_path, starter=ChildProcesses(registry), on_line=fail)
    assert witness.says_all_are_gone()
    assert not registry.recorded()


def test_children_of_several_threads_do_not_disturb_each_other(tmp_path):
    starter, results = children(), {}

    def one(number: int) -> None:
        results[number] = sh(f"read x; echo {number} $x", tmp_path, starter=starter, stdin=b"%d\n" % number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: done.output for number, done in results.items()} == {n: f"{n} {n}\n" for n in range(6)}
