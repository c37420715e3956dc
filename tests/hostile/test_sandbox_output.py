"""What a program prints and takes, in every place: without secrets in any file, and bounded."""

from __future__ import annotations

import io
import os

import pytest

from irontree.agents.registry import open_agent
from irontree.agents.transcript import SUMMARY_BYTES, BoundedLog
from irontree.checks.shell import ShellCheckRunner
from irontree.domain.agents import AgentSpec
from irontree.domain.places import OPEN
from irontree.domain.plan import Shell
from irontree.domain.text import TRUNCATION_MARKER
from irontree.ports import AgentTask
from irontree.processes.children import ChildProcesses
from irontree.processes.redaction import Redaction
from irontree.processes.running import LONGEST_LINE, LineSplitter
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


def test_of_a_putty_key_no_line_is_passed_on():
    heard = list[bytes]()
    redaction = Redaction(heard.append, ())
    for line in (
        *("PuTTY-User-Key-File-3: ssh-ed25519", "Encryption: none", "Comment: a key of (ada)", "Private-Lines: 1"),
        *("b3Bl" * 16, "Private-MAC: 0123456789abcdef", "done"),
    ):
        redaction.hear(f"{line}\n".encode())
    assert (heard[0].rstrip(), heard[1:]) == (b"(secret)", [b"done\n"])


@pytest.mark.parametrize("before", [" ", " key=", ' "', "\x1b[1G", "\\n", "%20", "=3D", " \x1b[0m\x1b[1;31m"])
@pytest.mark.parametrize("cut", [1, 4, 20, 39, 40, 41, 60])
def test_a_token_in_a_line_that_comes_in_pieces_is_hidden(before, cut):
    heard = list[bytes]()
    splitter = LineSplitter(Redaction(heard.append, ()).hear)
    text = b"x" * (LONGEST_LINE * 2 - len(before)) + f"{before}{TOKEN} and {'y' * LONGEST_LINE}\n".encode()
    end = LONGEST_LINE * 2 + cut
    for data in (text[:LONGEST_LINE], text[LONGEST_LINE:end], text[end:]):
        splitter.feed(data)
    splitter.finish()
    assert TOKEN[:12].encode() not in b"".join(heard)
    assert TOKEN[-12:].encode() not in b"".join(heard)
    assert b"".join(heard) == text.replace(TOKEN.encode(), b"(secret)")


def test_a_line_in_pieces_fills_no_memory_whatever_it_is_of():
    pieces = list[int]()
    splitter = LineSplitter(lambda piece: pieces.append(len(piece)))
    for _ in range(50):
        splitter.feed(b"x" * LONGEST_LINE)
    splitter.finish()
    assert sum(pieces) == 50 * LONGEST_LINE
    assert max(pieces) <= 2 * LONGEST_LINE + 2048


@pytest.mark.parametrize("part", [10, 26, 35])
@pytest.mark.parametrize("before", [" ", "\n"])
def test_a_token_at_the_bound_of_the_summary_is_left_out(tmp_path, children, environment, part, before):
    (tmp_path / "workspace").mkdir()
    text = "word " * (SUMMARY_BYTES // 5)
    said = f"{text[: SUMMARY_BYTES - part - 1]}{before}{TOKEN} more"
    (tmp_path / "workspace" / "said").write_text(said)
    spec = AgentSpec(command=("sh", "-c", 'cat said > "$IRONTREE_SUMMARY_FILE"'), place=OPEN)
    task = AgentTask(7, "task", 1, "Work.", tmp_path / "workspace", tmp_path / "transcript")
    open_agent(spec, children, environment).attempt(task, cancel=NEVER, progress=Heard())
    kept = (tmp_path / "transcript" / "summary.txt").read_text()
    assert len(kept) > SUMMARY_BYTES - 100
    assert said.startswith(kept.rstrip())
    assert "ghp_" not in kept


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
