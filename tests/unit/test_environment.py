"""The world that tests/conftest.py promises to every test."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest


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
