"""The receiver of webhooks: what is signed hurries the next look, whatever it says; nothing else does anything."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from irontree.errors import ServerUnavailable
from irontree.flows.serve.webhooks import MOST_BYTES, receiving

SECRET = "s3cret"


@pytest.fixture
def hurried() -> list[str]:
    return []


@pytest.fixture
def receiver(hurried) -> Iterator[str]:
    with receiving(
        0, SECRET, lambda: hurried.append("now"), hurried.append, lambda page: hurried.append(f"request of {page}")
    ) as opened:
        yield opened


def port_of(receiver: str) -> int:
    return int(receiver.rsplit(":", 1)[1].strip("/"))


def deliver(receiver: str, body: bytes, verb: str = "POST", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(receiver), timeout=30)
    connection.request(verb, "/", body, {name.replace("_", "-"): value for name, value in headers.items()})
    status = connection.getresponse().status
    connection.close()
    return status


def signature(body: bytes) -> str:
    return "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize("body", [b'{"action": "created"}', b"", b"not JSON \xff"])
def test_what_is_signed_hurries_the_look_whatever_it_says(receiver, hurried, body: bytes):
    assert deliver(receiver, body, X_Hub_Signature_256=signature(body)) == 204
    assert hurried == ["now"]


@pytest.mark.parametrize(
    ("told", "page"),
    [
        ({"action": "closed", "issue": {}, "repository": {"html_url": "https://forge.example/a/b"}}, True),
        ({"action": "label_updated", "issue": {}, "repository": {"html_url": "https://forge.example/a/b"}}, True),
        ({"action": "deleted", "issue": {}, "comment": {}, "repository": {"html_url": "https://forge.example"}}, False),
        ({"action": "opened", "issue": {}, "repository": {"html_url": "https://forge.example/a/b"}}, False),
        ({"action": "closed", "issue": {}, "repository": "nonsense"}, False),
        ([], False),
    ],
)
def test_where_an_issue_itself_was_changed_its_repository_is_looked_at(receiver, hurried, told, page: bool):
    body = json.dumps(told).encode()
    assert deliver(receiver, body, X_Hub_Signature_256=signature(body)) == 204
    assert hurried == ["now", *(["https://forge.example/a/b"] if page else [])]


def test_what_is_not_signed_is_refused_and_does_nothing(receiver, hurried):
    assert deliver(receiver, b"{}") == 401
    assert deliver(receiver, b"{}", X_Hub_Signature_256=signature(b"{ }")) == 401
    assert deliver(receiver, b"", "GET") == 501
    assert hurried == []


@pytest.mark.parametrize("length", ["9" * 5000, "-1", "two", "²", ""])
def test_a_length_that_is_none_is_refused(receiver, length: str, capfd):
    with socket.create_connection(("127.0.0.1", port_of(receiver)), timeout=30) as connection:
        connection.sendall(f"POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode("latin-1"))
        assert connection.recv(1000).startswith(b"HTTP/1.0 411")
    assert capfd.readouterr().err == ""


def test_who_leaves_in_the_middle_is_not_spoken_of(receiver, capfd):
    with socket.create_connection(("127.0.0.1", port_of(receiver)), timeout=30) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 5000000\r\n\r\nx")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, not an end
    assert deliver(receiver, b"", X_Hub_Signature_256=signature(b"")) == 204
    assert capfd.readouterr().err == ""


def test_what_is_longer_than_a_forge_sends_is_not_read(receiver, hurried):
    assert deliver(receiver, b"", X_Hub_Signature_256=signature(b""), Content_Length=str(MOST_BYTES + 1)) == 413
    assert hurried == []


def connected(receiver: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port_of(receiver)), timeout=30)


def test_what_has_no_signature_is_refused_before_its_body_comes(receiver):
    with connected(receiver) as stranger:
        stranger.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n")
        assert stranger.recv(1000).startswith(b"HTTP/1.0 401")


def test_strangers_in_their_bounded_number_neither_stop_nor_fill_the_receiver(hurried):
    with receiving(0, SECRET, lambda: hurried.append("now"), print, print, most_connections=2) as receiver:
        with connected(receiver), connected(receiver), connected(receiver) as third:
            assert third.recv(1000) == b""  # the first two are still open
        while not hurried:  # until their places are free
            with suppress(OSError, http.client.HTTPException):
                deliver(receiver, b"", X_Hub_Signature_256=signature(b""))


def test_who_says_a_little_now_and_then_is_not_waited_for(hurried, capfd):
    receiver = receiving(0, SECRET, lambda: hurried.append("now"), print, print, seconds=0.0)
    with receiver as url, connected(url) as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nContent-Length: 100\r\nX-Hub-Signature-256: x\r\n\r\nwait")
        with suppress(ConnectionResetError):
            assert slow.recv(1000) == b""
    assert hurried == []
    assert capfd.readouterr().err == ""


def test_a_port_that_is_taken_is_named(receiver):
    port = port_of(receiver)
    taken = receiving(port, SECRET, lambda: None, lambda _: None, lambda _: None)
    with pytest.raises(ServerUnavailable, match=f"cannot be received at port {port}"), taken:
        pass


@pytest.mark.parametrize(
    ("told", "is_about_one"),
    [
        ({"action": "closed", "pull_request": {"merged": True}}, True),
        ({"action": "submitted", "pull_request": {}, "review": {}}, True),
        ({"sha": "0" * 40, "state": "failure", "context": "ci"}, True),
        ({"action": "completed", "check_run": {}}, True),
        ({"action": "created", "issue": {"pull_request": {}}, "comment": {}}, False),
        ({"ref": "refs/heads/main"}, False),
    ],
)
def test_news_of_a_request_hurries_the_look_at_requests(receiver, hurried, told: dict[str, object], is_about_one: bool):
    body = json.dumps({**told, "repository": {"html_url": "https://forge.example/a/b"}}).encode()
    assert deliver(receiver, body, X_Hub_Signature_256=signature(body)) == 204
    assert ("request of https://forge.example/a/b" in hurried) is is_about_one
