"""Answers in comments where the Prefect server does not do what it is asked: what is recorded stays recorded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED, temporary_settings

from irontree.errors import ServerUnavailable
from irontree.flows.lifecycle import runs
from irontree.flows.lifecycle.commenting import take_comments
from tests.support.world import MANUAL_TASK, make_scene


class Refuses(BaseHTTPRequestHandler):
    """A server that finds fault with every request."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        said = b'{"exception_message": "no such filter"}'
        self.send_response(422)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def refused() -> Iterator[None]:
    """Prefect's client in this process talks to it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/api"
        with temporary_settings({PREFECT_API_URL: address, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False}):
            yield
        server.shutdown()


@pytest.mark.usefixtures("refused")
def test_what_the_server_refuses_keeps_no_comment_from_being_taken(tmp_path):
    """Whoever looks would die of it, in silence; the janitor starts by the log what could not be started."""
    scene = make_scene(tmp_path)
    scene.tracker.writers |= {"alice"}
    scene.drive(scene.start(MANUAL_TASK))
    scene.forge("alice").post_comment(1, "/accept")
    assert [found.outcome for found in take_comments(scene.app)] == ["taken"]


@pytest.mark.usefixtures("refused")
def test_what_the_server_refuses_is_told_in_its_own_words():
    """...as what can be survived: who serves many repositories asks again later."""
    with (
        pytest.raises(ServerUnavailable, match=r"refused what it was asked: .*no such filter"),
        runs.connect() as client,
    ):
        runs.find_runs(client, ["any"])
