"""What a kill leaves outside `.mino/` goes at the next start or with `checkup repair`; what somebody uses stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import get_args

import pytest

from irontree.files import ALIVE, Purpose, ScratchFolder, is_held, remove_abandoned_scratch
from irontree.processes.handing import handing
from irontree.store.archive import write_archive
from irontree.store.documents import FileUpkeep
from irontree.store.layout import create
from tests.support.repositories import make_project

MAKER = """
import sys, time
from pathlib import Path
from irontree.files import ScratchFolder
folder = ScratchFolder(sys.argv[2], Path(sys.argv[1]))
(folder.path / "finish").touch()
print(folder.path, flush=True)
time.sleep(60)
"""
WITHOUT_DESCRIPTORS = """
import resource, sys
from pathlib import Path
from irontree.files import ScratchFolder
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    ScratchFolder("serving", Path(sys.argv[1]))
except OSError:
    print("refused")
"""
LONG_AGO = 61


@pytest.fixture
def place(tmp_path):
    found = tmp_path / "temporary"
    found.mkdir()
    return found


def age(folder, seconds=LONG_AGO):
    os.utime(folder, (time.time() - seconds,) * 2)


def test_a_process_that_hands_credentials_holds_the_same_lock():
    with handing(lambda said: said) as path:
        assert is_held(path.parent / ALIVE)


def left_by_a_kill(place, purpose="serving", *, seconds=LONG_AGO):
    """What a process that is killed leaves, so long ago."""
    maker = subprocess.Popen([sys.executable, "-c", MAKER, str(place), purpose], stdout=subprocess.PIPE)
    maker.stdout.readline()
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    (folder,) = place.iterdir()
    age(folder, seconds)
    return folder


@pytest.mark.parametrize("purpose", get_args(Purpose))
def test_the_next_start_removes_what_a_killed_process_left(place, purpose):
    left = left_by_a_kill(place, purpose)
    with ScratchFolder("handing", place) as mine:
        assert [*place.iterdir()] == [mine.path]
    assert not left.exists()
    assert [*place.iterdir()] == []


def test_one_that_cannot_be_locked_is_not_made(place):
    """Nobody would remove it, and a program that tries again and again would make many."""
    script = [sys.executable, "-c", WITHOUT_DESCRIPTORS, str(place)]
    assert subprocess.run(script, capture_output=True, check=True).stdout == b"refused\n"
    assert [*place.iterdir()] == []


def test_a_folder_whose_maker_lives_or_that_is_new_stays(place):
    left_by_a_kill(place, seconds=0)
    with ScratchFolder("export", place) as mine:
        age(mine.path)
        assert remove_abandoned_scratch(place) == 0
    assert len([*place.iterdir()]) == 1


@pytest.mark.parametrize("name", ["irontree-serving-20261124", "irontree-mine", "irontree-other-abcdefgh"])
def test_a_folder_that_may_be_the_users_own_stays(place, name):
    (place / name).mkdir()
    age(place / name)
    assert remove_abandoned_scratch(place) == 0
    assert (place / name).exists()


def test_a_link_with_the_name_of_such_a_folder_is_not_followed(place, tmp_path):
    target = left_by_a_kill(place).rename(tmp_path / "elsewhere")
    (place / "irontree-serving-abcdefgh").symlink_to(target)
    os.utime(place / "irontree-serving-abcdefgh", (time.time() - LONG_AGO,) * 2, follow_symlinks=False)
    assert remove_abandoned_scratch(place) == 0
    assert (target / "finish").exists()


def test_repair_removes_what_an_agent_was_lent(tmp_path):
    project = make_project(tmp_path)
    beside = project.run_workspace().path.parent
    beside.mkdir(parents=True)
    left_by_a_kill(beside, "agent")
    assert project.repository.remove_leftovers() == 1
    assert [*beside.iterdir()] == []


def test_repair_removes_them_too(place, tmp_path):
    left_by_a_kill(place)
    create(tmp_path)
    assert FileUpkeep(tmp_path, place).remove_leftovers() == 1
    assert [*place.iterdir()] == []


def test_an_export_removes_what_a_killed_one_to_the_same_name_wrote(tmp_path):
    mine, others = tmp_path / ".log.tar.1.tmp", tmp_path / ".other.tar.1.tmp"
    mine.touch(), others.touch()
    with pytest.raises(AttributeError):
        write_archive(tmp_path / "log.tar", None, {})
    assert not mine.exists()
    assert others.exists()
