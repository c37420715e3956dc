"""`irontree serve` as a program: it takes up what is open, survives deaths, and stops as it is told."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from irontree.flows.runs import runs
from irontree.flows.serve.serving import POOL
from irontree.services.views.overview import SERVING
from irontree.tasks.stages import app_of
from tests.integration.crash.laboratory import faults
from tests.prefect.terminal import typed
from tests.prefect.toys import FRIENDLY, make_toy, wait_until

LONG = 120.0
"""For what several processes that import Prefect have to be started."""


@pytest.fixture
def held(tmp_path, client):
    """A project whose agent, in its first attempt, works until a file is gone."""
    agent = f"""\
if mkdir {tmp_path}/started; then
  while [ -e {tmp_path}/hold ]; do sleep 0.05; done
fi
echo whole > greeting.txt
"""
    (tmp_path / "hold").touch()
    return make_toy(tmp_path / "toy", client, FRIENDLY, agent=agent)


@pytest.fixture
def environment_of_user(api_url, tmp_path):
    return {"PREFECT_API_URL": api_url, "XDG_STATE_HOME": str(tmp_path / "state")}


def processes_of(program) -> list[psutil.Process]:
    return psutil.Process(program.process.pid).children(recursive=True)


def worker_of(program) -> psutil.Process:
    [worker] = psutil.Process(program.process.pid).children()
    return worker


def is_served(toy, client) -> tuple[bool, bool]:
    """Whether somebody holds it, and whether its queue's runs are taken up."""
    slots = client.read_work_queue_by_name(toy.id, work_pool_name=POOL).concurrency_limit
    return toy.app.alive(SERVING).holder() is not None, slots > 0


@pytest.mark.timeout(300)
def test_served_a_loop_survives_the_death_of_everything_and_ends_when_a_person_answers(
    held, environment_of_user, tmp_path, client
):
    loop_id = held.authorise()
    with typed(held.root, ["serve", "--attach"], environment_of_user, tmp_path / "first") as first:
        first.wait_until_it_says("Ctrl-C stops")
        first.wait_until_there_is(tmp_path / "started", patience=LONG)
        at_work = processes_of(first)
        os.kill(first.process.pid, signal.SIGKILL)
        assert not psutil.wait_procs(at_work, timeout=20)[1]
    with typed(held.root, ["serve", "--attach"], environment_of_user, tmp_path / "second") as second:
        second.wait_until_it_says("#1 Greeting: Your acceptance is needed: http", patience=LONG)
        assert app_of(held.id, origin=held.app.origin).repository.root == held.root  # its block, in the UI
        worker_of(second).kill()
        second.wait_until_it_says("the worker died; starting another")
        words = ["checkup", "accept", "issue-1"]
        with typed(held.root, words, environment_of_user, tmp_path / "answer") as answered:
            assert answered.end() == 0, answered.said
        wait_until(lambda: held.loop(loop_id).entity.status == "completed", patience=LONG)
        for verb, serves in (("remove", False), ("add", True)):
            with typed(held.root, ["repos", verb], environment_of_user, tmp_path / verb) as listed:
                assert listed.end() == 0, listed.said
            wait_until(lambda both=(serves, serves): is_served(held, client) == both, patience=LONG)
        wait_until(lambda: second.said.count("served: ") == 3, patience=LONG)
        assert "not served any more: " in second.said
        second.interrupt()
        assert second.end() == 0, second.said
    assert second.said.splitlines()[-1] == "Stopped. Go on with: irontree serve --attach"
    assert held.events().count("run_interrupted") == 1
    assert held.events()[-1] == "checkup_done"
    assert [run for run in runs.taken_up(client, held.id) if run.name != "janitor"] == []
    assert held.app.alive(SERVING).holder() is None
    assert faults(held.app) == []
