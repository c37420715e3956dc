"""Real programs that speak the Agent Client Protocol, against a stand-in for the model: no key, no network.

They are looked for where `make test-agents` installs them, and skipped where they are not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from irontree.agents import open_agent
from irontree.domain.plan import AgentSpec, PermissionRule
from irontree.ports import AgentResult, AgentTask
from tests.support.model_api import CONTENT, MADE, WORDS, model_api
from tests.support.processes import NEVER, Heard, children
from tests.support.repositories import git

PROGRAMS = Path(__file__).parents[2] / "build" / "agents" / "node_modules" / ".bin"
KEY = "made-up-key-123456"
pytestmark = pytest.mark.timeout(240)


@dataclass(frozen=True)
class Program:
    """How one is started, and pointed at the stand-in: its files below HOME, and its variables."""

    command: tuple[str, ...]
    settings: Callable[[Path, str], Mapping[str, str]]


def gemini(home: Path, url: str) -> Mapping[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    write(home / ".gemini" / "settings.json", settings)
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url}


def opencode(home: Path, url: str) -> Mapping[str, str]:
    options = {"baseURL": f"{url}/v1", "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "stub", "options": options, "models": {"stub": {}}}
    asks = {"edit": "ask", "bash": "ask"}
    write(
        home / ".config" / "opencode" / "opencode.json",
        {"model": "stub/stub", "permission": asks, "provider": {"stub": provider}},
    )
    return {"OPENCODE_DISABLE_AUTOUPDATE": "1"}


def copilot(_: Path, url: str) -> Mapping[str, str]:
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": "stub",
    }


KNOWN = {
    "gemini": Program(("gemini", "--acp", "--skip-trust", "-m", "gemini-2.5-flash"), gemini),
    "opencode": Program(("opencode", "acp"), opencode),
    "copilot": Program(("copilot", "--acp", "--no-auto-update"), copilot),
}


def write(path: Path, settings: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(settings))


@pytest.fixture(params=KNOWN)
def program(request) -> Program:
    if not (PROGRAMS / request.param).exists():
        pytest.skip(f"{request.param} is not installed: make test-agents")
    return KNOWN[request.param]


@pytest.fixture
def attempt(program, tmp_path) -> Callable[..., AgentResult]:
    def attempt(mode, *rules: PermissionRule) -> AgentResult:
        home, workspace = tmp_path / "home", tmp_path / "workspace"
        for folder in (home, workspace):
            folder.mkdir()
        git(workspace, "init", "--quiet")
        with model_api(mode, workspace) as api:
            variables = {
                "HOME": str(home),
                "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
                **program.settings(home, api.url),
            }
            spec = AgentSpec(
                adapter="acp",
                command=program.command,
                permissions=rules,
                environment=tuple(variables),
                wall_seconds=90,
                stall_seconds=60,
            )
            task = AgentTask(7, "core-model", 1, f"Write {MADE}.", workspace, tmp_path / "transcript")
            return open_agent(spec, children(grace_seconds=5), variables).attempt(task, cancel=NEVER, progress=Heard())

    return attempt


def test_it_edits_a_file_and_ends_its_turn(attempt, tmp_path):
    result = attempt("edit")
    assert (tmp_path / "workspace" / MADE).read_text().strip() == CONTENT.strip()
    assert (result.ended, result.claim.ok, result.claim.kind, result.failure) == ("exited", True, "end_turn", None)
    assert WORDS in result.claim.words
    assert result.session
    assert result.denied == ()


def test_what_the_rules_forbid_is_not_done_and_recorded(attempt, tmp_path):
    result = attempt("edit", PermissionRule(allow=False))
    assert not (tmp_path / "workspace" / MADE).exists()
    assert len(result.denied) == 1
    assert result.denied[0].startswith("a rule forbids: edit")


def test_a_refused_log_in_is_no_success_and_called_by_its_name(attempt):
    result = attempt("401")
    assert (result.claim.ok, result.failure) == (False, "not_authenticated")
