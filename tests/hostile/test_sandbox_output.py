"""What a program prints and takes, in every place: without secrets in any file, and bounded."""

from __future__ import annotations

import io
import os

import pytest

from irontree.agents import open_agent
from irontree.agents.transcript import BoundedLog
from irontree.checks.shell import ShellCheckRunner
from irontree.domain.checks import TRUNCATION_MARKER
from irontree.domain.places import OPEN
from irontree.domain.plan import AgentSpec, Shell
from irontree.ports import AgentTask
from irontree.processes import ChildProcesses
from irontree.processes.redaction import Redaction
from tests.support.containers import bubblewrap_place
from tests.support.processes import NEVER, Heard, MemoryRegistry

TOKEN = f"ghp_{'a1B2' * 9}"
PASSWORD = "correct horse battery"
KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{'b3Bl' * 10}\n{'c2gt' * 10}\n-----END OPENSSH PRIVATE KEY-----"
SAID = f"login {TOKEN} and {PASSWORD}\n{KEY}\ndone\n"
SECRETS = (TOKEN, PASSWORD, "b3Blb3Bl", "c2gtc2gt")


@pytest.fixture(params=["none", "bubblewrap"])
def place(request):
    return OPEN if request.param == "none" else bubblewrap_place().spec


@pytest.fixture
def environment():
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "DEPLOY_PASSWORD": PASSWORD}


@pytest.fixture
def children(environment):
    return ChildProcesses(MemoryRegistry(), environment=environment)


def test_a_secret_that_an_agent_prints_is_in_no_file_and_in_nothing_that_is_told(
    tmp_path, place, children, environment
):
    spec = AgentSpec(command=("sh", "-c", 'cat said; cat said > "$IRONTREE_SUMMARY_FILE"'), place=place)
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "said").write_text(SAID)
    task, heard = AgentTask(7, "task", 1, "Work.", tmp_path / "workspace", tmp_path / "transcript"), Heard()
    result = open_agent(spec, children, environment).attempt(task, cancel=NEVER, progress=heard)
    kept = "".join(file.read_text() for file in task.transcript.iterdir()) + repr(result) + repr(heard.lines)
    assert "done" in kept
    assert not [secret for secret in SECRETS if secret in kept]


def test_a_secret_that_a_check_prints_is_in_no_result_and_in_nothing_that_is_told(
    tmp_path, place, children, environment
):
    heard = Heard()
    (tmp_path / "said").write_text(SAID)
    result = (
        ShellCheckRunner(children, environment)
        .within(place)
        .run(
            Shell(name="check", run="cat said"),
            workspace=tmp_path,
            seconds=60,
            variables={},
            cancel=NEVER,
            progress=heard,
        )
    )
    kept = repr(result) + repr(heard.lines)
    assert "done" in kept
    assert not [secret for secret in SECRETS if secret in kept]


def test_a_line_that_only_says_where_a_key_begins_hides_nothing_of_what_follows():
    heard = list[bytes]()
    redaction = Redaction(heard.append, ())
    for line in ("     1\t-----BEGIN RSA PRIVATE KEY-----", f"     2\t{'b3Bl' * 16}", '{"type": "result"}', "done"):
        redaction.hear(f"{line}\n".encode())
    assert heard[1:] == [b'{"type": "result"}\n', b"done\n"]


def test_of_a_pgp_key_no_line_is_passed_on_whatever_its_headers_say():
    heard = list[bytes]()
    redaction = Redaction(heard.append, ())
    block = "PGP PRIVATE KEY BLOCK-----"
    for line in (
        f"-----BEGIN {block}",
        "Version: GnuPG v2 (Linux)",
        "",
        "b3Bl" * 16,
        "=njUN",
        f"-----END {block}",
        "done",
    ):
        redaction.hear(f"{line}\n".encode())
    assert heard[1:] == [b"done\n"]


def test_of_a_log_without_end_the_beginning_and_the_end_are_kept():
    file = io.BytesIO()
    log = BoundedLog(file, most=1000)
    for number in range(100_000):
        log.write(f"line {number}\n".encode())
    kept = b"".join(log.lines()).decode()
    assert kept.startswith("line 0\nline 1\n")
    assert kept.endswith("line 99998\nline 99999\n")
    assert f"\n{TRUNCATION_MARKER}\n" in kept
    assert len(file.getvalue()) < 1100


def test_a_short_log_is_kept_whole():
    log = BoundedLog(io.BytesIO(), most=1000)
    lines = [f"line {number}\n".encode() for number in range(60)]
    for line in lines:
        log.write(line)
    assert list(log.lines()) == lines
