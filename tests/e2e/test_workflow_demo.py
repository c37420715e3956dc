"""`irontree demo --workflow`: a workflow file from its approval to its end, shot in the middle."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.cli.demo import ANSWERS
from irontree.demo.layout import WORKFLOW
from irontree.services.record import read_world
from tests.e2e.test_demo import home, typed
from tests.integration.crash.laboratory import faults
from tests.support.repositories import git
from tests.support.soak import SOAK

__all__ = ["home"]  # the fixture

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(os.environ.get("E2E") != "all" and not SOAK, reason="a longer form: make test-e2e"),
]


@pytest.fixture(scope="module", params=[(), ("--kill",)], ids=["", "shot"])
def demo(home, request) -> tuple[subprocess.CompletedProcess[str], Path]:
    place = "-".join(("here", *request.param))
    return typed(home, "demo", place, "--workflow", *request.param), home / place


def test_it_ends_the_same_whether_it_is_shot_or_not(demo):
    done, place = demo
    assert done.returncode == 0, done.stdout + done.stderr
    for said in (
        *ANSWERS[WORKFLOW],
        "Step 2: until all tests pass, at most 5 iterations",
        "sent back by Iron Tree Demo: “Say how to keep the page in a file”; attempts used up: 1",
        "goal reached: everything in scope is done",
    ):
        assert said in done.stdout
    assert "Not used" not in done.stdout
    app = open_app(place / "fairshare", origin=Origin("eve"))
    world = read_world(app)
    assert {number: world.state(number).attempt_count for number in range(1, 6)} == {1: 0, 2: 1, 3: 3, 4: 1, 5: 2}
    assert all(state.done for state in world.states.values())
    assert faults(app) == []
    page = subprocess.check_output(["python3", "-m", "fairshare", "page", "examples/lisbon.txt"], cwd=work(place))
    assert b"<td>Cleo</td><td>100.00</td>" in page


def work(place: Path) -> Path:
    """A clone of what was published."""
    clone = place / "clone"
    git(place, "clone", "--quiet", "--branch", "hotl/trip-page", str(place / "fairshare.git"), str(clone))
    return clone
