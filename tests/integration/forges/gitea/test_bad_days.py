"""Failures, limits and slowness: what is waited for, what is repeated, and what is not."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from irontree.errors import RemoteFailed, RemoteUnavailable
from irontree.forges.gitea import GiteaForge
from tests.support.forges import Noon
from tests.support.gitea.server import Fault, GiteaServer
from tests.support.gitea.stage import ALWAYS, MARKER, Waits, settings


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_failure_that_passes_is_waited_for_when_reading(server, forge, waits, status: int):
    number = forge.create_issue("Title", "").number
    server.faults.append(Fault("GET", "/issues/1", status=status, times=2))
    assert forge.read_issue(number)
    assert waits == [1.0, 2.0]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_what_writes_is_sent_once_though_the_server_fails(server: GiteaServer, forge: GiteaForge, status: int):
    server.faults.append(Fault("POST", status=status, times=ALWAYS))
    with pytest.raises(RemoteUnavailable):
        forge.create_issue("Title", "")
    assert server.writes() == ["POST /api/v1/repos/palms/iron/issues"]


@pytest.mark.parametrize("drop", ["before", "after"])
def test_what_writes_is_sent_once_though_the_connection_breaks(server: GiteaServer, forge: GiteaForge, drop: str):
    server.faults.append(Fault("POST", drop=drop))
    with pytest.raises(RemoteUnavailable):
        forge.create_issue("Title", "")
    assert len(server.writes()) == 1
    assert len(server.contents.issues) == (drop == "after")


def test_a_broken_connection_is_no_matter_when_reading(server: GiteaServer, forge: GiteaForge):
    server.faults.append(Fault("GET", drop="after", times=2))
    assert forge.about().account == "irontree"


def test_part_of_the_comments_is_never_taken_for_all(server: GiteaServer, forge: GiteaForge):
    """Who misses a comment of ours posts it again."""
    number = forge.create_issue("Title", "").number
    posted = tuple(forge.post_comment(number, text) for text in ("one", "two"))
    server.faults.append(Fault("GET", "/comments", shown=1))
    assert forge.comments(number) == posted
    server.faults.append(Fault("GET", "/comments", shown=1, times=ALWAYS))
    with pytest.raises(RemoteUnavailable, match="breaks off"):
        forge.comments(number)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_short_limit_is_waited_out_even_when_writing(server, forge, waits, method: str):
    """The server says that it did nothing, and for how long."""
    server.faults.append(Fault(method, "/issues", status=429, headers={"Retry-After": "7"}))
    forge.create_issue("Title", MARKER)
    assert len(forge.find_issues(MARKER)) == 1
    assert waits == [7.0]


def test_a_long_limit_is_the_callers_with_its_end(server: GiteaServer, forge: GiteaForge, waits: Waits):
    server.faults.append(Fault(status=429, headers={"Retry-After": "3600"}))
    with pytest.raises(RemoteUnavailable) as refused:
        forge.about()
    assert refused.value.not_before == Noon().now() + timedelta(hours=1)
    assert not waits


def test_a_limit_may_end_at_a_date(server: GiteaServer, forge: GiteaForge):
    server.faults.append(Fault(status=429, headers={"Retry-After": "Fri, 02 Jan 2026 13:30:00 GMT"}))
    with pytest.raises(RemoteUnavailable) as refused:
        forge.about()
    assert refused.value.not_before == datetime(2026, 1, 2, 13, 30, tzinfo=UTC)


def test_an_issue_that_is_not_there_is_told_from_a_server_that_fails(server: GiteaServer, forge: GiteaForge):
    """Asked for its comments, Gitea fails with a 500 in both cases."""
    with pytest.raises(RemoteFailed, match="no issue #7") as missing:
        forge.comments(7)
    assert not isinstance(missing.value, RemoteUnavailable)
    number = forge.create_issue("Title", "").number
    server.faults.append(Fault("GET", "/comments", status=500, times=3))
    with pytest.raises(RemoteUnavailable):
        forge.comments(number)


def test_a_slow_answer_is_an_outage_in_the_end(server: GiteaServer):
    """One second here, half a minute in life."""
    answer = threading.Event()
    server.faults.append(Fault("POST", until=answer))
    forge = GiteaForge(replace(settings(server, "token-of-irontree"), answer_within=1))
    try:
        with pytest.raises(RemoteUnavailable, match="no answer"):
            forge.create_issue("Title", "")
    finally:
        answer.set()
