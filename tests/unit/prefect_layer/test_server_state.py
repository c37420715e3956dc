"""How the private server and its clients find each other: locks say who lives, files say where."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from irontree.flows.server.connection import Address, ServerState

HERE = Address(port=4280, pid=1, name="irontree-a.localhost")


@pytest.fixture
def state(tmp_path):
    """The state folder as one process sees it; locks are per opening, so a second object stands for another one."""
    return ServerState(tmp_path / "state")


@pytest.fixture
def other(state):
    return ServerState(state.folder)


def test_other_users_of_the_machine_cannot_read_its_folder(state):
    assert state.folder.stat().st_mode & 0o077 == 0


def test_only_one_process_becomes_the_server(state, other):
    assert state.become_the_server()
    assert not other.become_the_server()


def test_the_process_that_is_the_server_is_known_before_it_answers_and_not_after_it_has_gone(state, other):
    (state.folder / "start.lock").write_text("123456")
    assert other.server_pid() is None, "of a server before"
    state.become_the_server()
    state.come_alive()
    assert other.server_pid() == os.getpid()


def test_a_server_is_seen_from_its_start_and_found_when_it_answers(state, other):
    assert not other.lives()
    state.come_alive()
    assert (other.lives(), other.address()) == (True, None)
    state.publish(HERE)
    assert other.address() == HERE


def test_where_a_server_will_answer_is_known_before_it_does_and_not_of_one_that_is_gone(state, other):
    other.announce(HERE)
    assert state.announced() is None
    state.come_alive()
    assert other.announced() is None, "of a server before"
    state.announce(HERE)
    assert (other.announced(), other.address()) == (HERE, None)
    state.publish(HERE)
    assert other.announced() == HERE
    assert state.shut_out()
    assert other.announced() is None


def test_the_address_of_a_dead_server_is_not_trusted(state, other):
    state.publish(HERE)
    assert other.address() is None


def test_a_new_server_learns_the_port_of_the_one_before_and_takes_its_address_away(state, other):
    state.publish(HERE)
    assert other.come_alive() == HERE.port
    assert state.address() is None


def test_the_port_is_not_forgotten_over_a_server_that_could_not_start(state):
    """...but is when one answered and ended: nobody waits for it there."""
    start = "import sys, pathlib; from irontree.flows.server.connection import *"
    dies = f"{start}; print(ServerState(pathlib.Path(sys.argv[1])).come_alive())"
    begins = f"{start}; s = ServerState(pathlib.Path(sys.argv[1])); s.come_alive()"
    answers = f"{begins}; s.publish(Address(1, 1, 'n')); s.shut_out()"
    state.publish(HERE)

    def said(program: str) -> str:
        command = [sys.executable, "-c", program, str(state.folder)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert [said(dies), said(dies), said(answers), said(dies)] == [str(HERE.port), str(HERE.port), "", "None"]


@pytest.mark.parametrize(
    "left", ["", '{"port": 4280, "pi', "[]", "{}", '{"port": "x", "pid": 1, "host": "h"}', "\x00\x00"]
)
def test_a_file_that_a_power_cut_left_keeps_no_server_from_starting(state, other, left):
    (state.folder / "server.json").write_text(left)
    assert other.come_alive() is None
    state.publish(HERE)
    (state.folder / "server.json").write_text(left)
    assert state.address() is None


def test_what_another_version_has_to_say_beside_it_is_left_to_that(state, other):
    other.come_alive()
    written = HERE._asdict() | {"since": "noon"}
    (state.folder / "server.json").write_text(json.dumps(written))
    assert state.address() == HERE


def test_a_server_of_an_earlier_version_asks_nobody_for_a_password_and_is_found_only_to_be_ended(state, other):
    other.come_alive()
    (state.folder / "server.json").write_text('{"port": 4280, "pid": 1, "host": "127.0.0.1"}')
    assert state.address() is None
    assert state.found() == HERE._replace(name="")


def test_the_first_server_has_none_before_it(state):
    assert state.come_alive() is None


def test_a_server_is_in_use_while_it_has_any_client(state, other):
    assert not state.in_use()
    first, second = other.join(), other.join()
    os.close(first)
    assert state.in_use()
    assert not state.shut_out()
    os.close(second)
    assert not state.in_use()


def test_a_server_that_ends_takes_its_address_away_first(state, other):
    state.come_alive()
    state.publish(HERE)
    assert state.shut_out()
    assert other.address() is None


def test_the_address_is_that_of_the_api():
    assert HERE.api_url == "http://127.0.0.1:4280/api"
