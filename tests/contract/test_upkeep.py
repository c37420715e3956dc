"""What every Upkeep keeps: what is left behind is removed and counted; what lives and what is true stays."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from irontree.store.documents import FileUpkeep
from irontree.store.layout import create
from irontree.store.memory import MemoryUpkeep


class OnDisk:
    def __init__(self, root: Path) -> None:
        self.layout = create(root)
        self.upkeep = FileUpkeep(root, temporary=root / "temporary")  # others use the real one meanwhile

    def leave(self) -> None:
        """A temporary of a process that is gone, and a stream that was being restored."""
        folder = self.layout.stream(12)
        folder.mkdir(parents=True)
        (folder / f".0002-run-started.yml.{dead_pid()}-1.tmp").write_text("half")
        half = self.layout.events / ".issue-13.restored"
        half.mkdir()
        (half / "0001-task-published.yml").write_text("half")


class InMemory:
    def __init__(self, root: Path) -> None:
        self.upkeep = MemoryUpkeep()

    def leave(self) -> None:
        self.upkeep.leftovers = 2


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.fixture(params=[OnDisk, InMemory])
def subject(request, tmp_path):
    return request.param(tmp_path)


def test_where_nothing_was_left_nothing_is_removed(subject):
    assert subject.upkeep.remove_leftovers() == 0


def test_what_was_left_is_removed_and_counted_once(subject):
    subject.leave()
    assert subject.upkeep.remove_leftovers() == 2
    assert subject.upkeep.remove_leftovers() == 0


def test_caches_can_be_dropped_at_any_time(subject):
    subject.upkeep.drop_caches()
    subject.upkeep.drop_caches()


def test_what_a_living_process_writes_and_what_is_true_stays(tmp_path):
    subject = OnDisk(tmp_path)
    subject.layout.events.mkdir()
    living = subject.layout.events / f".x.yml.{os.getpid()}-1.tmp"
    living.write_text("half")
    subject.layout.append_lock.touch()
    subject.upkeep.remove_leftovers()
    assert living.exists()
    assert subject.layout.append_lock.exists()
    assert (subject.layout.state / ".gitignore").exists()


def test_a_cache_is_gone_after_it_was_dropped(tmp_path):
    subject = OnDisk(tmp_path)
    subject.layout.cache.mkdir()
    (subject.layout.cache / "replays.json").write_text("{}")
    subject.upkeep.drop_caches()
    assert not subject.layout.cache.exists()
