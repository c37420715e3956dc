"""The lock files of flow runs: held as long as a process lives, and tidied away when none does."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from irontree.flows.runs.recovery import hold_liveness_lock, tidy
from irontree.store.locks import FileLock


class Wall:
    """The real time."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class Project:
    """What `tidy` needs of an App: where the repository is."""

    def __init__(self, root) -> None:
        self.repository, self.root = self, root
        self.folder = root / ".mino" / ".runs"

    def lock(self, name: str) -> FileLock:
        return FileLock(self.folder / name, Wall(), "here")


@pytest.fixture
def project(tmp_path) -> Project:
    (tmp_path / ".mino").mkdir()
    return Project(tmp_path)


def test_only_the_files_of_flow_runs_that_nobody_holds_are_removed(project):
    living, dead = str(uuid4()), str(uuid4())
    for name in (dead, "serving"):
        with project.lock(name).hold("was here"):
            pass
    with project.lock(living).hold("is here"):
        assert tidy(project) == 1
        assert {path.name for path in project.folder.iterdir()} == {living, "serving"}
        assert project.lock(living).holder().what == "is here"


def test_a_process_whose_file_is_tidied_away_while_it_takes_the_lock_takes_it_again(project):
    """It has opened the file, and not locked it yet."""
    run_id = str(uuid4())

    class TidiedAway:
        """The lock of a process that is that unlucky once."""

        lock, unlucky = project.lock(run_id), True

        @contextmanager
        def hold(self, what: str, *, wait_seconds: float = 0):
            with self.lock.hold(what, wait_seconds=wait_seconds):
                if self.unlucky:
                    (project.folder / run_id).unlink()
                TidiedAway.unlucky = False
                yield

        def holder(self):
            return self.lock.holder()

    async def process() -> None:
        async with hold_liveness_lock(TidiedAway(), "flow run", waits=lambda: pytest.fail("nobody else has it")):
            assert project.lock(run_id).holder().what == "flow run"

    asyncio.run(process())
    assert project.lock(run_id).holder() is None


def test_a_second_process_of_a_run_says_once_that_it_waits_for_the_first_and_lets_others_work_meanwhile(project):
    async def process() -> None:
        lock, order = project.lock(str(uuid4())), []

        async def second() -> None:
            async with hold_liveness_lock(lock, "second", waits=lambda: order.append("waits")):
                order.append("second")

        async with hold_liveness_lock(lock, "first", waits=lambda: order.append("never")):
            waiting = asyncio.create_task(second())
            await asyncio.wait([waiting], timeout=0.5)
            order.append("first")
        await waiting
        assert order == ["waits", "first", "second"]

    asyncio.run(process())


def test_without_any_run_there_is_nothing_to_tidy(project):
    assert tidy(project) == 0
