"""The world that tests/conftest.py promises to every test."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import pytest_collection_modifyitems


class Collected(NamedTuple):
    """What the order of the tests is made by, and where a test is defined: that may be another file."""

    nodeid: str
    location: tuple[str, int, str]


def test_none_is_lost_in_their_order_where_a_file_takes_in_those_of_another():
    there = ("tests/contract/test_forge.py", 1, "test_a")
    own = Collected("tests/contract/test_forge.py::test_a", there)
    waiting = Collected("tests/prefect/test_gate.py::test_b", ("tests/prefect/test_gate.py", 1, "test_b"))
    taken_in = Collected("tests/forges/test_contract.py::test_a", there)
    items = [own, waiting, taken_in]
    pytest_collection_modifyitems(items)
    assert items == [waiting, own, taken_in]


def test_a_make_that_a_test_runs_knows_nothing_of_the_one_that_runs_the_tests():
    assert {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}.isdisjoint(os.environ)


def test_the_network_ends_at_this_machine():
    with socket.socket() as outside, pytest.raises(PermissionError, match="beyond this machine"):
        outside.connect(("192.0.2.1", 80))


def test_loopback_can_be_reached():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()


def test_home_is_a_folder_of_this_test_run():
    assert Path.home().name.startswith("irontree-tests-")


def test_local_time_is_not_utc():
    assert time.localtime(0).tm_gmtoff != 0


def test_git_knows_the_test_author_and_nothing_of_this_machine():
    listed = subprocess.check_output(["git", "config", "--list", "--show-origin"], cwd="/", text=True)
    assert {line.split("\t")[0] for line in listed.splitlines()} == {f"file:{os.environ['GIT_CONFIG_GLOBAL']}"}
