"""`irontree demo --toolchain`: a team talks an issue over, divides it and does it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.services.record import read_world
from tests.e2e.test_demo import home, typed
from tests.integration.crash.laboratory import faults
from tests.support.soak import SOAK

__all__ = ["home"]  # the fixture

pytestmark = pytest.mark.timeout(400)
LONGER = pytest.mark.skipif(os.environ.get("E2E") != "all" and not SOAK, reason="a longer form: make test-e2e")


@pytest.fixture(scope="module", params=[(), pytest.param(("--kill",), marks=LONGER)], ids=["", "shot"])
def demo(home, request) -> tuple[subprocess.CompletedProcess[str], Path]:
    place = "-".join(("here", *request.param))
    return typed(home, "demo", place, "--toolchain", *request.param), home / place


def test_what_the_team_says_becomes_parts_that_are_done_and_the_lead_looks_at_them(demo):
    done, place = demo
    assert done.returncode == 0, done.stdout + done.stderr
    for said in (
        "[coder] The ledger and its sums are mine",
        "- #1 Split an expense fairly",
        "attempt 2 of 4: tester works",
        "goal reached: everything in scope is done",
        "[chief] Both parts go together",
    ):
        assert said in done.stdout
    assert "Not used" not in done.stdout
    assert "is in no commit yet" not in done.stdout
    app = open_app(place / "fairshare", origin=Origin("eve"))
    world = read_world(app)
    assert {number: world.state(number).done for number in (1, 2, 3)} == dict.fromkeys((1, 2, 3), True)
    kept = {
        re.sub(r"n2-[0-9a-f]{12}-", "n2-", path.stem)
        for path in (place / "fairshare" / ".mino" / "agent-requests").glob("*-*.yml")
    }
    assert kept == {*(f"discussion-I1-{member}" for member in ("chief", "coder", "tester")), "round-I1n2-chief"}
    said = [comment.body for comment in app.forge().comments(1)]
    assert len([body for body in said if body.startswith("[")]) == 4
    assert any(body.startswith("[Action Report]") for body in (c.body for c in app.forge().comments(3)))
    assert faults(app) == []


def test_a_demo_is_of_one_thing(home):
    refused = typed(home, "demo", "both", "--toolchain", "--workflow")
    assert refused.returncode == 2
    assert not (home / "both").exists()
