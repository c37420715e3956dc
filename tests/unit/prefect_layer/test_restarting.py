"""The private server is kept: one that cannot start is started again, and it is told why until one answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from irontree.errors import ServerUnavailable
from irontree.flows.server.connection import Address, ServerState
from irontree.flows.server.private import LocalServer


class Program:
    """A server that ended at its start with this exit code; one that runs has none."""

    def __init__(self, code: int | None) -> None:
        self._code = code

    def poll(self) -> int | None:
        return self._code

    def wait(self) -> int | None:
        return self._code


class Starts:
    """Starts servers that die, until the test says that they shall live."""

    def __init__(self, folder) -> None:
        self._state, self._number = ServerState(folder), 0
        self.again, self.lives = threading.Event(), False

    def __call__(self, *_: object, **__: object) -> Program:
        self._number += 1
        self._state.log.write_text(f"attempt {self._number}: the database cannot be read")
        if self._number > 2:
            self.again.set()
        if not self.lives:
            return Program(1)
        self._state.come_alive()
        self._state.publish(Address(port=4280, pid=os.getpid(), name="irontree-a.localhost"))
        return Program(None)


def test_a_server_that_could_not_be_started_again_is_tried_again_and_named_until_one_answers(tmp_path):
    starts, left = Starts(tmp_path), threading.Event()
    with closing(LocalServer(tmp_path, {}, pause=0.001, start=starts).start()) as server:
        with pytest.raises(ServerUnavailable, match="the database cannot be read"):
            server.wait_ready()
        assert starts.again.wait(30)
        assert "the database cannot be read" in server.trouble().message
        starts.lives = True
        while server.trouble():
            left.wait(0.01)


def test_a_disk_that_refuses_for_a_while_does_not_end_the_keeping(tmp_path):
    tries, again = [], threading.Event()

    def refuse(*_: object, **__: object) -> Program:
        tries.append("tried")
        if len(tries) > 1:
            again.set()
        raise OSError("no space left on device")

    with closing(LocalServer(tmp_path, {}, pause=0.001, start=refuse).start()) as server:
        with pytest.raises(ServerUnavailable, match="no space left on device"):
            server.wait_ready()
        assert again.wait(30)


@contextmanager
def process_with(folder: Path, does: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does this with its `state` of the server's folder, and then nothing more."""
    begin = "import pathlib, sys, time; from irontree.flows.server.connection import ServerState"
    program = f"{begin}; state = ServerState(pathlib.Path(sys.argv[1])); {does}; print('did', flush=True)"
    command = [sys.executable, "-c", f"{program}; time.sleep(600)", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("wait", [LocalServer.wait_ready, LocalServer.expected])
def test_a_server_that_hangs_at_its_start_is_named_with_how_to_end_it_and_how_long_it_was_waited_for(tmp_path, wait):
    """While it holds its locks, no other can start."""
    with process_with(tmp_path, "state.become_the_server(); state.come_alive()") as hung:
        with closing(LocalServer(tmp_path, {})) as server, pytest.raises(ServerUnavailable) as found:
            wait(server, timeout=1)
        assert found.value.message == (
            f"The private Prefect server (process {hung.pid}) did not answer within 1 s. It has said nothing."
        )
        assert f"end it: `kill -9 {hung.pid}`. Then repeat the command, or `irontree resume`." in found.value.remedy


def test_a_server_of_an_earlier_version_is_ended_although_others_use_it(tmp_path):
    """It asks nobody for a password."""
    state, starts = ServerState(tmp_path), Starts(tmp_path)
    starts.lives = True
    used = state.join()
    with process_with(tmp_path, "state.come_alive()") as program:
        (tmp_path / "server.json").write_text(json.dumps({"port": 1, "pid": program.pid, "host": "127.0.0.1"}))
        with closing(LocalServer(tmp_path, {}, pause=0.001, start=starts).start()):
            assert program.wait(30) == -signal.SIGTERM
    os.close(used)
