"""Repositories are worked on by workers of their own, behind several API servers with PostgreSQL and Redis.

`make test-scale` runs all of it; with SCALE=one, as CI runs it, one repository and one question are tried.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.flows.runs import runs
from irontree.flows.runs.recovery import newest_run, start_loop
from tests.integration.crash.laboratory import faults, lay_out
from tests.prefect.harness import prefect_at
from tests.prefect.toys import AGENT, FRIENDLY, GREETING, Toy, wait_until
from tests.support.soak import SOAK

SCALE = "all" if SOAK else os.environ.get("SCALE")
pytestmark = [pytest.mark.timeout(600), pytest.mark.skipif(not SCALE, reason="a longer form: make test-scale")]
in_full = pytest.mark.skipif(SCALE != "all", reason="a longer form: make test-scale")
LONG = 120.0
"""Seconds for what takes ten on a machine that has nothing else to do."""
ACCEPT = "accept this commit"


@pytest.fixture
def make(scaled, client, tmp_path):
    """Makes repositories whose flows are deployed."""

    def made(name: str, spec: str = FRIENDLY, agent: str = AGENT) -> Toy:
        place = tmp_path / name
        place.mkdir()
        toy = Toy(lay_out(place, agent, spec), client)
        scaled.deploy(toy.root, toy.id)
        return toy

    return made


def begin(toy):
    """Approve the document, and leave the loop to a worker."""
    loop_id = toy.authorise()
    start_loop(toy.app, loop_id)
    return loop_id


def is_done(toy, loop_id):
    return toy.loop(loop_id).entity.status == "completed"


def answer_through(toy, api_url):
    """Accept what is asked, as somebody whose browser talks with that server."""
    [asking] = wait_until(toy.suspended, patience=LONG)
    with prefect_at(api_url), runs.connect() as client:
        Toy(toy.root, client).answer(asking.id, ACCEPT)


def test_a_question_is_answered_through_another_server_than_that_which_is_asked_first(scaled, make):
    toy = make("one")
    with scaled.worker(toy.id):
        loop_id = begin(toy)
        answer_through(toy, scaled.api_of(1))
        wait_until(lambda: is_done(toy, loop_id), patience=LONG)
    assert toy.events()[-2:] == ["checkup_accept_recorded", "checkup_done"]


@in_full
def test_two_repositories_are_worked_on_side_by_side_each_by_the_worker_of_its_queue(scaled, make):
    toys = [make("left"), make("right")]
    with ExitStack() as working:
        for toy in toys:
            working.enter_context(scaled.worker(toy.id))
        loops = [begin(toy) for toy in toys]
        for toy, number in zip(toys, (0, 1), strict=True):
            answer_through(toy, scaled.api_of(number))
        for toy, loop_id in zip(toys, loops, strict=True):
            wait_until(lambda toy=toy, loop_id=loop_id: is_done(toy, loop_id), patience=LONG)
    assert [faults(toy.app) for toy in toys] == [[], []]


@in_full
def test_an_api_server_that_dies_while_a_run_waits_is_missed_by_nobody(scaled, make):
    toy = make("one")
    with scaled.worker(toy.id):
        loop_id = begin(toy)
        wait_until(toy.suspended, patience=LONG)
        scaled.programs["server-0"].kill()
        try:
            answer_through(toy, scaled.api_of(1))
            wait_until(lambda: is_done(toy, loop_id), patience=LONG)
        finally:
            scaled.serve_api(0)
    assert faults(toy.app) == []


@in_full
@pytest.mark.timeout(900)
def test_what_a_machine_did_that_died_is_taken_up_by_the_next_worker_of_the_queue(scaled, make, tmp_path):
    begun = tmp_path / "begun"
    toy = make("one", GREETING, f"if [ ! -e '{begun}' ]; then touch '{begun}'; sleep 600; fi\n{AGENT}")
    with scaled.worker(toy.id) as worker:
        loop_id = begin(toy)
        wait_until(begun.exists, patience=LONG)
        worker.kill()
    with scaled.worker(toy.id):
        wait_until(lambda: _taken_up(toy, loop_id), every=30, patience=400)
    assert toy.events().count("run_interrupted") == 1
    assert faults(toy.app) == []


def _taken_up(toy, loop_id):
    """Have the janitor look, as its schedule does, until the loop is done."""
    if is_done(toy, loop_id):
        return True
    toy.client.create_flow_run_from_deployment(toy.deployment("janitor"))
    return False


@in_full
@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "--uts", "hostname", "builder-2"], check=False, capture_output=True).returncode != 0,
    reason="needs the right to give a process another host name",
)
def test_a_run_that_lands_on_a_host_which_is_not_the_home_refuses_and_changes_nothing(scaled, make):
    """R21"""
    toy = make("one")
    loop_id = toy.authorise()
    before = toy.loop_events(loop_id)
    with scaled.worker(toy.id, host="builder-2"):
        start_loop(toy.app, loop_id)
        run = wait_until(lambda: (found := newest_run(toy.app, loop_id)) and found.final and found, patience=LONG)
    assert run.state_name == "Waiting"
    assert "the home of this repository is" in run.message
    assert "builder-2" in run.message
    assert toy.loop_events(loop_id) == before
    assert open_app(toy.root, origin=Origin("ada")).lease.holder() is None
