"""What a program of the same user reads of ours where nothing confines it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from irontree.domain.places import OPEN
from irontree.processes.children import ChildProcesses
from irontree.processes.family import ProcessLimits
from tests.support.containers import bubblewrap_place
from tests.support.nobody import as_nobody, needs_root
from tests.support.processes import AMPLE, MemoryRegistry

LOOK = "cat /proc/{pid}/environ > /dev/null && echo read; cat /proc/{pid}/mem > /dev/null; true"


@needs_root
@pytest.mark.skipif(sys.platform != "linux", reason="the system has no such protection")
def test_neither_our_environment_nor_our_memory():
    def look(folder: Path) -> None:
        # A process that gave up its rights is protected already; one that a user starts is not.
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
        words = ["sh", "-c", LOOK.format(pid=os.getpid())]
        assert "read" in subprocess.run(words, capture_output=True, text=True, check=True).stdout
        children = ChildProcesses(MemoryRegistry()).within(OPEN)
        done = children.run(words, cwd=folder, environment={"PATH": os.environ["PATH"]}, limits=AMPLE)
        assert "read" not in done.output.split()
        assert "Permission denied" in done.output

    as_nobody(look)


@needs_root
def test_a_user_without_rights_has_the_same_sandbox():
    """Also where folders on PATH are another user's, and once we are protected."""
    place = bubblewrap_place().spec

    def work(folder: Path) -> None:
        children = ChildProcesses(MemoryRegistry(), grace_seconds=0.5, environment=os.environ).within(place)
        (folder / "secret").write_text("secret")
        (folder / "work").mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        words = ["sh", "-c", "cat ../secret; echo made > made; id -u"]
        done = children.run(words, cwd=folder / "work", environment=environment, limits=AMPLE)
        assert done.output.split()[-1] == str(os.getuid()), done
        assert "secret" not in done.output.replace("../secret", "").split()
        assert (folder / "work" / "made").read_text() == "made\n"
        late = children.run(
            ["sh", "-c", "trap '' TERM; sleep 60"], cwd=folder, environment=environment, limits=ProcessLimits(1)
        )
        assert late.ended == "timeout"

    as_nobody(work)
