"""`irontree demo` as a newcomer types it: a home of its own, a private server, real processes, and a shot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.cli.demo import ANSWERS
from irontree.demo.layout import REQUIREMENTS
from irontree.services.record import read_world
from tests.integration.crash.laboratory import faults
from tests.prefect.harness import prepare_folder
from tests.support.repositories import git

pytestmark = pytest.mark.timeout(400)

NAME = r"[0-9a-f]{16}"
SHOT = 4


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A home in which nothing was ever done but to make an empty database."""
    home = tmp_path_factory.mktemp("home")
    prepare_folder(state_in(home))
    return home


def state_in(home: Path) -> Path:
    """Where the private server of everything else would be."""
    return home / ".local" / "state" / "irontree" / f"prefect-{version('prefect')}"


def typed(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`irontree` in that home, without a terminal."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_CONFIG")}
    return subprocess.run(
        [sys.executable, "-m", "irontree", *words],
        cwd=home,
        env={**environment, "HOME": str(home), "TMPDIR": str(home)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def demo(home) -> subprocess.CompletedProcess[str]:
    """`make demo` as a script types it, with its flows shot in the middle of an attempt."""
    return typed(home, "demo", "here", "--kill")


@pytest.fixture(scope="module")
def place(home, demo) -> Path:
    """Where it was laid out."""
    assert demo.returncode == 0, demo.stdout + demo.stderr
    return home / "here"


@pytest.fixture
def world(place, home):
    return read_world(open_app(place / "fairshare", origin=Origin("eve")))


def test_it_shows_what_it_does_and_what_to_do_next(place, demo):
    for said in (
        "There is no terminal to ask on, so the demo answers for you",
        *ANSWERS[REQUIREMENTS],
        "replays prepared patches; no model is called",
        "Approve `",
        "sent back by Iron Tree Demo: “Begin with the total",
        "`python3 -m unittest -q`",
        "`main` of `origin`",
        "verification failed at attempt 1 of 4",
        "| $ python3 -m unittest -q",
        "Shot the flows in the middle of that (SIGKILL)",
        "accepted by",
        "goal reached: everything in scope is done",
        "irontree task SPEC.md",
    ):
        assert said in demo.stdout
    assert re.search(r"Watch it in the browser: http://127\.0\.0\.1:\d+/runs/flow-run/", demo.stdout)
    assert "Traceback" not in demo.stdout + demo.stderr


def test_its_server_ended_with_it_and_left_nothing(home, place):
    """...and none that others use was begun: there is the empty database, and the pages beside it."""
    assert {path.name for path in state_in(home).iterdir()} == {"template.db", "ui"}
    assert list(home.glob("irontree-server-*")) == []


def test_everything_is_done_by_evidence_and_the_shot_cost_nobody_an_attempt(place, world):
    assert all(state.done for state in world.states.values())
    attempts = {number: world.state(number).attempt_count for number in range(1, 8)}
    assert attempts == {1: 1, 2: 0, 3: 2, 4: 1, 5: 1, 6: 2, 7: 1}
    assert world.state(SHOT).given_back == 1
    assert world.state(2).completion_basis == "aggregated"


def test_the_remote_has_one_commit_for_each_task_and_the_program_works(place):
    subjects = git(place / "fairshare.git", "log", "--format=%s", "main").splitlines()
    runs = [subject.partition(":")[0] for subject in subjects if subject.startswith("[run]")]
    assert sorted(runs) == [f"[run] #{number}" for number in (1, 3, 4, 5, 6, 7)]
    clone = place / "clone"
    git(place, "clone", "--quiet", str(place / "fairshare.git"), str(clone))
    settle = [sys.executable, "-m", "fairshare", "settle", "examples/lisbon.txt"]
    assert b"Dan pays Cleo 13.43" in subprocess.check_output(settle, cwd=clone)


def test_the_log_is_complete_and_nothing_is_left_over(place):
    app = open_app(place / "fairshare", origin=Origin("eve"))
    assert faults(app) == []
    assert (place / "fairshare" / ".mino" / "reports" / "issue-6" / "report.md").is_file()
    assert git(place / "fairshare", "status", "--porcelain") == "?? .mino/"
    assert [app.forge().read_issue(number).state for number in range(1, 8)] == ["closed"] * 7


def test_without_a_terminal_no_real_agent_is_paid_for_unasked(home):
    asked = typed(home, "demo", "unasked", "--agent", "true")
    assert asked.returncode == 1
    assert re.search(rf"nobody is here to ask.*add --approve {NAME}$", asked.stderr.strip(), re.DOTALL)


# --- before anything is laid out -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--approve", "00000000"), "00000000 does not name an approval"),
        (("--answer", "issue-8=accept"), "there is no such issue here"),
        (("--answer", "issue-6=perhaps"), "there is no answer “perhaps”"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_laid_out(home, words, said):
    refused = typed(home, "demo", "elsewhere", *words)
    assert refused.returncode == 1
    assert said in refused.stderr
    assert not (home / "elsewhere").exists()
