"""Known agents are asked for their log-in, where a program says so at once and without calling anybody."""

from __future__ import annotations

import json
import os

import pytest

from irontree.agents.registry import open_agent
from irontree.domain.agents import KNOWN_AGENTS, AgentSpec
from tests.support.processes import children

OUT = json.dumps({"loggedIn": False, "authMethod": "none", "apiProvider": "firstParty"})
IN = json.dumps({"loggedIn": True, "authMethod": "claude.ai", "apiProvider": "firstParty"})
OTHER = json.dumps({"loggedIn": False, "authMethod": "none", "apiProvider": "bedrock"})


@pytest.fixture
def access(tmp_path):
    """What an agent says of its access whose program answers with *said*; `asked` is what it was asked."""

    def access(name: str, said: str, *, arguments: tuple[str, ...] = (), **variables: str) -> str | None:
        folder, asked = tmp_path / "bin", tmp_path / "asked"
        folder.mkdir(exist_ok=True)
        program = folder / KNOWN_AGENTS[name]
        program.write_text(f"#!/bin/sh\necho \"$@\" > {asked}\ncat <<'END' >&2\n{said}\nEND\nexit 1\n")
        program.chmod(0o755)
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(tmp_path / "home"), **variables}
        spec = AgentSpec(adapter=name, arguments=arguments, environment=tuple(variables))
        return open_agent(spec, children(), environment).no_access()

    return access


@pytest.mark.parametrize(
    ("name", "said", "words"), [("claude", OUT, "auth status"), ("codex", "Not logged in", "login status")]
)
def test_a_program_that_says_that_nobody_is_logged_in_has_no_access(access, tmp_path, name, said, words):
    assert access(name, said) == f"`{name} {words}` says that nobody is logged in"
    assert (tmp_path / "asked").read_text().strip() == words


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("claude", IN),
        ("claude", OTHER),
        ("claude", "error: unknown command"),
        ("codex", "Logged in using ChatGPT"),
        ("gemini", "Not logged in"),
    ],
)
def test_any_other_answer_and_a_program_that_is_not_asked_leave_it_to_the_attempt(access, name, said):
    assert access(name, said) is None


def test_who_has_a_key_or_another_provider_is_not_asked(access, tmp_path):
    assert access("claude", OUT, ANTHROPIC_API_KEY="no-key") is None
    assert access("codex", "Not logged in", arguments=("--oss",)) is None
    settings = tmp_path / "home" / ".codex" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('model_provider = "ollama"\n')
    assert access("codex", "Not logged in") is None
    assert not (tmp_path / "asked").exists()


def test_a_program_that_is_not_there_or_has_words_before_it_is_not_asked(tmp_path):
    for command in ((), ("recorder", "--", "claude")):
        spec = AgentSpec(adapter="claude", command=command)
        environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
        assert open_agent(spec, children(), environment).no_access() is None
