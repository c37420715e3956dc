"""Whatever is lost of Prefect, its server, its database or a form, the work ends as if nothing had been."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from irontree.flows.runs import runs
from irontree.flows.runs.forms import open_question
from irontree.flows.runs.recovery import start_what_waits
from irontree.flows.serve.session import TerminalSession
from irontree.flows.server.connection import ServerState, local_environment
from irontree.flows.server.credentials import read_password
from irontree.flows.server.private import LocalServer
from tests.integration.crash.laboratory import faults
from tests.prefect.harness import ROOT, drain, prefect_at, prepare_folder
from tests.prefect.terminal import follower
from tests.prefect.toys import FRIENDLY, make_halted, make_toy, served, text_of, wait_until
from tests.support.crashes import Held, ends_as
from tests.support.soak import in_soak

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def mortal(tmp_path_factory) -> Iterator[tuple[Path, LocalServer]]:
    """A private server that may be killed, and its state folder."""
    state_folder = prepare_folder(tmp_path_factory.mktemp("mortal") / "state")
    with closing(LocalServer(state_folder, os.environ, linger=1).start()) as server:
        yield state_folder, server


@pytest.fixture
def own_server(mortal) -> Iterator[tuple[Path, dict[str, str]]]:
    """This process's Prefect is at that server; its state folder, and the environment of processes that use it."""
    state_folder, server = mortal
    api_url = server.wait_ready()
    with prefect_at(api_url, read_password(state_folder)):
        yield state_folder, local_environment(os.environ, state_folder, api_url) | {"PYTHONPATH": str(ROOT)}
        drain()


def kill_server(state_folder: Path) -> None:
    pid = json.loads((state_folder / "server.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(pid))


def test_the_private_server_is_killed_while_the_agent_works_and_comes_back(tmp_path, witness, undisturbed, own_server):
    state_folder, environment = own_server
    with runs.connect() as client:
        held = Held(tmp_path, client, witness)
        loop_id = held.toy.authorise()
        with TerminalSession(held.toy.app, environment=environment, folder=state_folder) as session:
            session.begin()
            session.runs.set_going(loop_id)
            witness.wait_until_held()
            kill_server(state_folder)
            held.release()
            assert follower(held.toy.app, session, loop_id).follow() == "completed"
            session.come_to_rest()
        assert ends_as(held.toy, undisturbed)


@in_soak
def test_the_server_is_killed_under_an_open_question_which_is_answered_when_it_is_back(tmp_path, own_server):
    state_folder, _ = own_server
    with runs.connect() as client:
        toy, loop_id = make_halted(tmp_path / "toy", client, "issue", "loop")
        drain()
        kill_server(state_folder)
        wait_until(lambda: ServerState(state_folder).address())
        with served(toy):
            toy.answer(toy.suspended()[0].id, "accept this commit")
            assert toy.rest(loop_id).state_name == "Goal reached"
        assert faults(toy.app) == []


def test_a_process_that_dies_before_its_form_is_stored_leaves_no_run_that_cannot_be_answered(tmp_path, client):
    """Prefect sets the state of a run first, then stores what it asks."""
    toy = make_toy(tmp_path, client, FRIENDLY, "issue", "loop")
    loop_id = toy.authorise()
    with served(toy):
        toy.go(loop_id)
        [asking] = toy.suspended()
        key = toy.asked(asking.id).key
        wait_until(lambda: toy.app.alive(str(asking.id)).holder() is None)
        for part in ("schema", "description"):
            client.request("DELETE", f"/flow_runs/{asking.id}/input/suspended-{key}-{part}")
        assert open_question(client, asking.id) is None
        start_what_waits(toy.app)
        assert wait_until(lambda: open_question(client, asking.id)).key != key
        toy.answer(asking.id, "accept this commit")
        assert toy.rest(loop_id).state_name == "Goal reached"


def test_prefects_database_is_deleted_under_an_open_question_and_the_janitor_has_it_asked_again(tmp_path, own_server):
    state_folder, _ = own_server
    with runs.connect() as client:
        toy, loop_id = make_halted(tmp_path / "toy", client, "issue", "loop")
        before = toy.asked(toy.suspended()[0].id)
        drain()
        (state_folder / "prefect.db").unlink()
        kill_server(state_folder)
        wait_until(lambda: ServerState(state_folder).address())
        toy.deploy("issue", "loop", "janitor")
        assert toy.all_runs() == []
        with served(toy):
            run = client.create_flow_run_from_deployment(toy.deployment("janitor"))
            wait_until(lambda: runs.state(client, run.id).final)
            toy.settle()
            [asking] = toy.suspended()
            assert text_of(toy.asked(asking.id)) == text_of(before)
            assert toy.asked(asking.id).key == before.key
            toy.answer(asking.id, "accept this commit")
            assert toy.rest(loop_id).state_name == "Goal reached"
