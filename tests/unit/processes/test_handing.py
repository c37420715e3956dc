"""The socket that hands secrets: nobody waits for a client that is silent, and clients are bounded."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from irontree.errors import EnvironmentRefused
from irontree.processes.containers import CREDENTIALS, given_environment
from irontree.processes.handing import MOST_AT_ONCE, SECONDS, ask, handing


def client(path: Path, words: bytes = b"") -> socket.socket:
    """One that has said *words* and has not ended."""
    talking = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    talking.settimeout(SECONDS)
    talking.connect(str(path))
    talking.sendall(words)
    return talking


def test_who_connects_and_says_nothing_keeps_nobody_waiting():
    with handing(lambda said: said) as path, ExitStack() as silent:
        for _ in range(3):
            silent.enter_context(client(path))
        assert ask(str(path), b"hello") == b"hello"


def test_so_many_are_answered_at_once_and_the_others_after_them():
    busy, most, full, go_on = set[int](), list[int](), threading.Event(), threading.Event()

    def answer(said: bytes) -> bytes:
        busy.add(threading.get_ident())
        most.append(len(busy))
        if most[-1] >= MOST_AT_ONCE:
            full.set()
        go_on.wait(SECONDS)
        busy.discard(threading.get_ident())
        return said

    with handing(answer) as path, ExitStack() as clients:
        asking = [clients.enter_context(client(path, b"%d" % number)) for number in range(MOST_AT_ONCE + 8)]
        for one in asking:
            one.shutdown(socket.SHUT_WR)
        assert full.wait(SECONDS)
        go_on.set()
        assert [one.recv(100) for one in asking] == [b"%d" % number for number in range(len(asking))]
    assert max(most) == MOST_AT_ONCE


def test_a_runner_that_did_not_answer_is_asked_again():
    answers = [b'{"GITEA_TOKEN": "secret"}', b'{"GITEA_TOK', b""]
    with handing(lambda _: answers.pop() if answers else b"") as path:
        told = {CREDENTIALS: str(path)}
        assert given_environment(told) == {**told, "GITEA_TOKEN": "secret"}


def test_a_runner_that_lives_and_does_not_answer_is_named():
    """A process that went on without the credential would say that there is no token."""
    with handing(lambda _: b"") as path, pytest.raises(EnvironmentRefused, match="does not tell"):
        given_environment({CREDENTIALS: str(path)})
