"""What `irontree ui` does beside finding a page: the link, the file that opens it, and signing out."""

from __future__ import annotations

import io
import stat
from dataclasses import replace

import pytest

from irontree.cli.inbox import signing_in
from irontree.cli.ui import redirection, sign_out
from irontree.domain.halt import RULE
from irontree.errors import ServerUnavailable
from irontree.flows.server.connection import Address, ServerState
from irontree.flows.server.credentials import make_password
from irontree.flows.server.links import SIGN_IN, link_on, signed_in
from irontree.services.questions.questions import Question
from tests.support.prefect_stub import prefect_that

PAGE = "http://127.0.0.1:4280/runs?tag=a"
ASKED = Question(RULE["pending_acceptance"], "key", issue_number=1, task_key="a", loop_id=None)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def folder(tmp_path):
    """The state folder of a private server that runs."""
    state = ServerState(tmp_path)
    state.come_alive()
    state.publish(Address(4280, 1, "irontree-a.localhost"))
    make_password(tmp_path)
    return tmp_path


def test_a_page_of_the_private_server_becomes_a_link_that_signs_in_and_others_do_not(folder):
    assert signed_in(PAGE, folder).startswith(f"http://127.0.0.1:4280{SIGN_IN}?token=")
    assert signed_in(PAGE, folder).endswith("&to=%2Fruns%3Ftag%3Da")
    assert signed_in(PAGE, folder) != signed_in(PAGE, folder)
    for other in ("http://127.0.0.1:42801/runs", "https://prefect.example/runs"):
        assert signed_in(other, folder) == other


def test_a_server_that_is_open_or_gone_has_no_links(folder, tmp_path_factory):
    ServerState(folder).publish(Address(4280, 1, "irontree-a.localhost", open=True))
    assert signed_in(PAGE, folder) == PAGE
    assert signed_in(PAGE, tmp_path_factory.mktemp("none")) == PAGE


def test_a_link_on_a_terminal_signs_in_and_one_in_a_log_or_a_pipe_does_not(folder):
    assert link_on(io.StringIO(), PAGE, folder) == PAGE
    assert SIGN_IN in link_on(Terminal(), PAGE, folder)


def test_the_questions_on_a_terminal_lead_to_their_forms_signed_in(folder):
    asked = (replace(ASKED, form_url=PAGE), ASKED)
    assert signing_in(asked, io.StringIO(), folder) == asked
    linked, without = signing_in(asked, Terminal(), folder)
    assert SIGN_IN in linked.form_url
    assert without.form_url is None


def test_the_link_is_on_no_command_line_when_a_browser_is_opened(tmp_path):
    """Every user of the machine can read those."""
    link = f"http://127.0.0.1:4280{SIGN_IN}?token=1.a.b&to=%2F"
    for _ in range(2):
        path = redirection(link, tmp_path)
        assert link.replace("&", "&amp;") in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_server_that_signs_nobody_in_is_said_to_sign_nobody_out():
    with prefect_that(lambda *_: (404, {})) as address, pytest.raises(ServerUnavailable, match="nobody was signed out"):
        sign_out({"PREFECT_API_URL": address})
