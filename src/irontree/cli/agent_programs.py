"""Coding agents that can be driven without a person, and the command line of each; the prompt comes on stdin.

Every one is given the narrowest permission with which it can edit files unattended; who wants it to run commands
as well says so in `agent.command`.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from irontree.errors import ConfigRefused


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """One program: its command line, and the variables by which people give it a key or an address."""

    program: str
    command: tuple[str, ...]
    variables: tuple[str, ...]


PROGRAMS: Final = (
    AgentProgram(
        "claude",
        ("claude", "-p", "--permission-mode", "acceptEdits"),
        ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
    ),
    AgentProgram(
        "codex",
        ("codex", "exec", "--sandbox", "workspace-write", "-"),
        ("OPENAI_API_KEY", "CODEX_HOME"),
    ),
    AgentProgram(
        "gemini",
        ("gemini", "--approval-mode", "auto_edit", "--skip-trust"),
        ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    ),
    AgentProgram(
        "opencode",
        ("opencode", "run", "--auto"),
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_CONFIG"),
    ),
    AgentProgram(
        "copilot",
        ("copilot", "--allow-all-tools", "--no-ask-user", "--silent", "--no-auto-update"),
        ("COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"),
    ),
    AgentProgram(
        "aider",
        (
            *("aider", "--yes-always", "--no-auto-commits", "--no-dirty-commits", "--no-check-update"),
            *("--no-analytics", "--message-file", "{prompt_file}"),
        ),
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_API_BASE"),
    ),
    AgentProgram(
        "mini",
        ("sh", "-c", 'exec mini --yolo --exit-immediately --task "$(cat)"'),
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_API_BASE", "MSWEA_MODEL_NAME"),
    ),
)


def installed(programs: Collection[str]) -> tuple[AgentProgram, ...]:
    """Those of *programs* (names on PATH) that are known here, in the table's order."""
    return tuple(agent for agent in PROGRAMS if agent.program in programs)


def require_agent(command: Sequence[str]) -> None:
    """Raise ConfigRefused where nobody would do the work: no command, or a program that is not on PATH.

    One that is named with a folder may be relative to the workspace, so only its first attempt can tell.
    """
    if not command:
        raise ConfigRefused(
            "agent.command is empty: nobody would do the work",
            remedy="name a program in .mino/config.yml, or install an agent and type `irontree init`",
        )
    if "/" not in command[0] and shutil.which(command[0]) is None:
        raise ConfigRefused(
            f"{command[0]}, the program of the agent's command, is not on PATH",
            remedy="install it, or name another under agent.command in .mino/config.yml",
        )
