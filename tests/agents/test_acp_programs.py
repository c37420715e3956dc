"""Real programs that speak the Agent Client Protocol, against a stand-in for the model: no key, no network.

`make test-agents` installs them and tries them all; `make test` installs one, which is tried in short.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from irontree.agents.registry import open_agent
from irontree.domain.permissions import PermissionRule
from irontree.ports import AgentResult, AgentTask
from tests.support.model_api import CONTENT, MADE, WORDS, model_api
from tests.support.processes import NEVER, Heard, children
from tests.support.real_agents import program_of, spec_of
from tests.support.repositories import git

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "gemini": ("gemini", "--acp", "--skip-trust", "-m", "gemini-2.5-flash"),
    "opencode": ("opencode", "acp"),
    "copilot": ("copilot", "--acp", "--no-auto-update"),
}
# OpenCode asks for permission only where it is told to.
SETTINGS = {"OPENCODE_PERMISSION": '{"edit": "ask", "bash": "ask"}', "OPENCODE_DISABLE_AUTOUPDATE": "1"}
ALL = os.environ.get("AGENTS") == "all"
INSTALLED = [name for name in COMMANDS if program_of(name)]
pytestmark = [
    pytest.mark.timeout(150),
    pytest.mark.skipif(
        not INSTALLED, reason="no agent program is installed under build/agents: make one-agent, or make test-agents"
    ),
]
in_full = pytest.mark.skipif(not ALL, reason="only with make test-agents")


@pytest.fixture(params=COMMANDS if ALL else INSTALLED[:1] or ["none"])
def attempt(request, tmp_path) -> Callable[..., AgentResult]:
    def attempt(mode, *rules: PermissionRule) -> AgentResult:
        home, workspace = tmp_path / "home", tmp_path / "workspace"
        for folder in (home, workspace):
            folder.mkdir()
        git(workspace, "init", "--quiet")
        with model_api(mode, workspace) as api:
            spec, variables = spec_of(request.param, home, api.url, wall_seconds=90, stall_seconds=60)
            told = {"adapter": "acp", "command": COMMANDS[request.param], "permissions": rules}
            told["environment"] = (*spec.environment, *SETTINGS)
            agent = open_agent(spec.model_copy(update=told), children(grace_seconds=5), variables | SETTINGS)
            task = AgentTask(7, "core-model", 1, f"Write {MADE}.", workspace, tmp_path / "transcript")
            return agent.attempt(task, cancel=NEVER, progress=Heard())

    return attempt


def test_it_edits_a_file_and_ends_its_turn(attempt, tmp_path):
    result = attempt("edit")
    assert (tmp_path / "workspace" / MADE).read_text().strip() == CONTENT.strip()
    assert (result.ended, result.claim.ok, result.claim.kind, result.failure) == ("exited", True, "end_turn", None)
    assert WORDS in result.claim.words
    assert result.session
    assert result.denied == ()


@in_full
def test_what_the_rules_forbid_is_not_done_and_recorded(attempt, tmp_path):
    result = attempt("edit", PermissionRule(allow=False))
    assert not (tmp_path / "workspace" / MADE).exists()
    assert len(result.denied) == 1
    assert result.denied[0].startswith("a rule forbids: edit")


@in_full
def test_a_refused_log_in_is_no_success_and_called_by_its_name(attempt):
    result = attempt("401")
    assert (result.claim.ok, result.failure) == (False, "not_authenticated")
