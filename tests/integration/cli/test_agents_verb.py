"""`irontree agents`: what is installed, without calling anybody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from irontree.cli.main import main
from irontree.domain.agents import KNOWN_AGENTS


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with nothing on it but what a test puts there: programs by name, each a shell script."""
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()

    def put(**programs: str) -> Path:
        for name, script in programs.items():
            path = tmp_path / "bin" / name
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        return tmp_path

    return put


def listed(capsys) -> dict[str, dict]:
    assert main(["agents", "list", "--json"]) == 0
    return {agent["adapter"]: agent for agent in json.loads(capsys.readouterr().out)["agents"]}


def test_every_known_agent_is_named_and_whether_it_is_there(machine, capsys):
    folder = machine(claude="echo '2.1.197 (Claude Code)'", codex="echo codex-cli 0.169.0; exit 1")
    found = listed(capsys)
    assert list(found) == list(KNOWN_AGENTS)
    assert (found["claude"]["path"], found["claude"]["version"]) == (str(folder / "bin" / "claude"), "2.1.197")
    assert found["codex"]["version"] == "0.169.0"
    assert (found["gemini"]["path"], found["gemini"]["version"]) == (None, None)


def test_one_that_says_no_version_is_there_all_the_same(machine, capsys):
    machine(claude="exit 1")
    assert listed(capsys)["claude"]["version"] is None
    assert main(["agents"]) == 0
    assert "unknown" in capsys.readouterr().out


def test_a_key_or_the_file_of_a_log_in_is_access(machine, capsys, monkeypatch):
    folder = machine(claude="true", gemini="true")
    assert (listed(capsys)["claude"]["access"], listed(capsys)["gemini"]["access"]) == (False, False)
    monkeypatch.setenv("GEMINI_API_KEY", "made-up")
    (folder / "home" / ".claude").mkdir(parents=True)
    (folder / "home" / ".claude" / ".credentials.json").write_text("{}")
    assert (listed(capsys)["claude"]["access"], listed(capsys)["gemini"]["access"]) == (True, True)


def test_asked_for_its_version_a_program_sees_no_secrets_of_ours(machine, capsys, monkeypatch):
    folder = machine(claude='printf "%s" "$GITHUB_TOKEN" > "$HOME.seen"')
    monkeypatch.setenv("GITHUB_TOKEN", "ghp-123456789")
    listed(capsys)
    assert (folder / "home.seen").read_text() == ""
