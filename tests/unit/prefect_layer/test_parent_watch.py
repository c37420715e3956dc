"""Processes end with what started them; a person's wish to stop is seen between steps."""

from __future__ import annotations

import os
import threading

from irontree.flows.server.programs import FINISH, end_with, end_with_runner, finish_asked


def test_the_end_of_the_parent_is_noticed():
    ended = threading.Event()
    end_with(os.getppid() + 1, ended.set)
    assert ended.wait(timeout=10)


def test_a_living_parent_changes_nothing():
    ended = threading.Event()
    end_with(os.getppid(), ended.set)
    assert not ended.wait(timeout=0.5)


def test_a_flow_under_a_worker_is_bound_to_nobody():
    before = threading.active_count()
    end_with_runner({})
    assert threading.active_count() == before


def test_asked_to_finish_once_the_file_is_there(tmp_path):
    environ = {FINISH: str(tmp_path / "finish")}
    assert not finish_asked(environ)
    (tmp_path / "finish").touch()
    assert finish_asked(environ)


def test_a_flow_under_a_worker_is_never_asked_to_finish():
    assert not finish_asked({})
