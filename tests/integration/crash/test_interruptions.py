"""Killed in the middle of what others do for us (agent, check, hook): nothing survives, nothing is lost (R3, R11)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

import psutil
import pytest

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.domain.state import Phase
from irontree.services.record import read_world
from tests.integration.crash.laboratory import Drivers, faults, lay_out, leftover_processes
from tests.support.processes import Witness
from tests.support.repositories import git, hook

SPEC = """\
# Toy

## Greeting

- [ ] it says hello `$ sh {check}`
"""


@dataclass(frozen=True)
class Place:
    """A project whose agent, check and hook wait for ever the first time they are told to, and then hold the pipe."""

    folder: Path
    witness: Witness
    drivers: Drivers

    @property
    def root(self) -> Path:
        return self.folder / "project"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }

    def once(self, words: str) -> str:
        """Shell words that come true the first time only."""
        return f"if [ ! -e '{self.folder}/begun' ]; then touch '{self.folder}/begun'; {words}; fi"

    def wait_once(self, after: str = ":") -> str:
        """Do something, hold the pipe and wait for ever; the first time only."""
        return self.once(f"{after}; {self.witness.hold}; sleep 1000 & sleep 1000")

    def lay_out(self, *, agent: str = "", check: str = "") -> None:
        """An agent and a check of a good day, with these words before they do their work."""
        (self.folder / "check.sh").write_text(f"{check}\ngrep -q hello greet.txt\n")
        lay_out(self.folder, f"{agent}\necho hello > greet.txt\n", SPEC.format(check=self.folder / "check.sh"))

    def start(self) -> int:
        """A driver in a process of its own; its id."""
        return self.drivers.start(self.root)

    def kill(self, driver: int) -> None:
        os.kill(driver, SIGKILL)
        assert self.drivers.end().code == -SIGKILL

    def kill_in_the_middle(self) -> None:
        """Start a driver, wait until what it started waits, and kill it."""
        driver = self.start()
        self.witness.wait_until_held()
        self.kill(driver)

    def finish(self) -> App:
        """Start a driver again, which must reach the goal; the App to look at what is there."""
        self.start()
        ended = self.drivers.end()
        assert ended.code == 0, ended.said
        return self.open()

    def open(self) -> App:
        return open_app(self.root, origin=Origin("eve", "command"), environment=self.environment)


@pytest.fixture(scope="module")
def drivers() -> Iterator[Drivers]:
    with closing(Drivers()) as made:
        yield made


@pytest.fixture
def place(tmp_path, drivers) -> Iterator[Place]:
    witness = Witness(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        yield Place(tmp_path, witness, drivers)
    witness.close()


def events(app: App) -> list[str]:
    return [record.event.event for record in app.log.read(1).records]


def commits(place: Place) -> list[str]:
    return git(place.folder / "remote.git", "log", "--format=%s", "main").splitlines()


def assert_done_once(place: Place, app: App) -> None:
    assert events(app)[-2:] == ["verify_passed", "checkup_done"]
    assert commits(place) == ["[run] #1: Greeting", "first"]
    assert faults(app) == []


UNHARMED = ["task_published", "run_started", "run_completed", "verify_passed", "checkup_done"]
GIVEN_BACK = ["task_published", "run_started", "run_interrupted", *UNHARMED[1:]]


def test_killed_in_the_agent_its_half_edits_are_kept_and_the_attempt_given_back(place):
    place.lay_out(agent=f"echo half > greet.txt; echo new > extra.txt; {place.wait_once()}; rm -f extra.txt")
    place.kill_in_the_middle()
    place.witness.wait_until_all_are_gone()
    app = place.finish()
    assert events(app) == GIVEN_BACK
    ref = app.log.read(1).records[2].meta["salvage_ref"]
    assert git(place.root, "show", f"{ref}:greet.txt") == "half"
    assert git(place.root, "show", f"{ref}:extra.txt") == "new"
    assert git(place.root, "status", "--porcelain") == "?? SPEC.md", "the user's own folder was never touched"
    assert_done_once(place, app)


def test_what_the_agent_committed_itself_is_kept_as_files_and_never_published(place):
    commit = "git -c user.name=Agent -c user.email=agent@example.com commit --quiet --message own"
    place.lay_out(agent=place.wait_once(f"echo own > greet.txt; git add .; {commit}; echo more > more.txt"))
    place.kill_in_the_middle()
    app = place.finish()
    ref = app.log.read(1).records[2].meta["salvage_ref"]
    assert git(place.root, "show", f"{ref}:greet.txt") == "own"
    assert "own" not in git(place.root, "log", "--format=%s", ref).splitlines()
    assert git(place.root, "show", f"{ref}:more.txt") == "more"
    assert events(app) == GIVEN_BACK
    assert_done_once(place, app)


def test_killed_in_a_check_it_is_checked_again_and_nothing_is_given_back(place):
    place.lay_out(check=place.wait_once())
    place.kill_in_the_middle()
    place.witness.wait_until_all_are_gone()
    app = place.finish()
    assert events(app) == UNHARMED
    assert_done_once(place, app)


def test_killed_in_a_slow_hook_there_is_one_commit_in_the_end(place):
    place.lay_out()
    hook(place.root / ".git" / "hooks", "pre-commit", place.wait_once())
    place.kill_in_the_middle()
    place.witness.wait_until_all_are_gone()
    app = place.finish()
    assert events(app) == GIVEN_BACK
    assert_done_once(place, app)


def test_killed_after_the_commit_and_before_anybody_knew_of_it_the_commit_is_found(place):
    """It is in the private store then, and is about to be fetched to its ref."""
    place.lay_out()
    waits = f"[ $1 = prepared ] && grep -q refs/irontree/issue-1/ && {{ {place.wait_once()}; }}; exit 0"
    hook(place.root / ".git" / "hooks", "reference-transaction", waits)
    place.kill_in_the_middle()
    place.witness.wait_until_all_are_gone()
    app = place.finish()
    assert events(app) == UNHARMED
    assert app.log.read(1).records[2].meta["recovered"] == "true"
    assert_done_once(place, app)


def test_a_lock_that_git_left_in_our_store_is_in_nobodys_way(place):
    place.lay_out(agent=place.wait_once())
    place.kill_in_the_middle()
    state = place.folder / "state" / "irontree" / place.open().repository.id
    for name in ("run.index.lock", "store.git/HEAD.lock", "store.git/refs/made/run.lock"):
        (state / name).parent.mkdir(exist_ok=True)
        (state / name).touch()
    assert_done_once(place, place.finish())


def test_a_lock_that_git_left_in_the_users_repository_is_not_ours_to_remove(place):
    place.lay_out(agent=place.wait_once())
    place.kill_in_the_middle()
    lock = place.root / ".git" / "index.lock"
    lock.touch()
    place.finish()
    assert lock.exists()


def test_killed_while_the_users_checkout_is_moved_nothing_of_it_is_left_half_done(place):
    """Files and index are written by then, and HEAD and the branch are locked (R5)."""
    place.lay_out()
    waits = f"[ $1 = prepared ] && grep -q refs/heads/main && {{ {place.wait_once()}; }}; exit 0"
    hook(place.root / ".git" / "hooks", "reference-transaction", waits)
    place.kill_in_the_middle()
    place.witness.wait_until_all_are_gone()
    assert [path.name for path in (place.root / ".git").glob("HEAD.lock")] == ["HEAD.lock"]
    assert "A  greet.txt" in git(place.root, "status", "--porcelain")
    app = place.finish()
    assert events(app) == UNHARMED
    assert git(place.root, "status", "--porcelain") == "?? SPEC.md"
    assert git(place.root, "rev-parse", "main") == git(place.folder / "remote.git", "rev-parse", "main")
    assert [*(place.root / ".git").rglob("*.lock")] == []
    assert_done_once(place, app)


def test_of_two_drivers_one_is_told_that_the_other_is_at_work(place):
    place.lay_out(agent=place.wait_once())
    first = place.start()
    place.witness.wait_until_held()
    with closing(Drivers()) as others:
        others.start(place.root)
        second = others.end()
    place.kill(first)
    assert second.code == 1
    assert "Busy" in second.said
    assert "greeting, run" in second.said
    assert events(place.open()) == ["task_published", "run_started"], "it wrote nothing"


def test_when_the_guard_is_killed_too_recovery_kills_what_was_left(place):
    place.lay_out(agent=place.wait_once())
    driver = place.start()
    place.witness.wait_until_held()
    guards = [child for child in psutil.Process(driver).children() if "irontree-guard" in child.cmdline()]
    assert guards
    for guard in guards:
        guard.kill()
    place.kill(driver)
    assert leftover_processes(place.folder), "nobody was there to kill it"
    app = place.finish()
    place.witness.wait_until_all_are_gone()
    assert events(app) == GIVEN_BACK
    assert_done_once(place, app)


def test_a_check_that_outlived_everybody_is_killed_before_its_workspace_is_used_again(place):
    place.lay_out(check=place.wait_once())
    driver = place.start()
    place.witness.wait_until_held()
    for child in psutil.Process(driver).children():
        if "irontree-guard" in child.cmdline():
            child.kill()
    place.kill(driver)
    app = place.finish()
    place.witness.wait_until_all_are_gone()
    assert events(app) == UNHARMED


def test_a_driver_that_dies_again_and_again_is_stopped_by_a_question(place):
    """R12: an agent that brings the machine down is not started for ever."""
    place.lay_out(agent=f"{place.witness.hold}; sleep 1000")
    for _ in range(3):
        place.kill_in_the_middle()
    place.start()
    said = place.drivers.end().said
    state = read_world(place.open()).states["greeting"]
    assert (state.phase, state.blocking_check) == (Phase.BLOCKED, "run-interrupted")
    assert state.attempt_count == 0
    assert "blocked" in said
