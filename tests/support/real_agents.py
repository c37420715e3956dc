"""Real agent programs under build/agents, each with an empty home and an environment made here (`make test-agents`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from irontree.domain.agents import KNOWN_AGENTS, AgentSpec

BUILD: Final = Path(__file__).resolve().parents[2] / "build" / "agents"
_FOLDERS: Final = (BUILD / "node_modules" / ".bin", BUILD / "python" / "bin")
KEY: Final = "no-key-at-all"


def program_of(name: str) -> Path | None:
    """Where the program of this agent is installed for tests, if it is."""
    return next((folder / KNOWN_AGENTS[name] for folder in _FOLDERS if (folder / KNOWN_AGENTS[name]).exists()), None)


def spec_of(name: str, home: Path, url: str, **limits: int) -> tuple[AgentSpec, dict[str, str]]:
    """How to call it, and the whole environment: its settings under *home* point at the service at *url*."""
    more = _SETUP[name](home, url)
    path = ":".join(map(str, (*_FOLDERS, "/usr/local/bin", "/usr/bin", "/bin")))
    environment = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", **more}
    model = _MODELS.get(name)
    spec = AgentSpec(
        adapter=name,
        command=(str(program_of(name)),),
        model=model,
        environment=tuple(more),
        **limits,
    )
    return spec, environment


_MODELS: Final[Mapping[str, str]] = {"aider": "openai/stub", "mini-swe-agent": "openai/stub"}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _claude(_: Path, url: str) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_MAX_RETRIES": "1"}


def _codex(home: Path, url: str) -> dict[str, str]:
    settings = f"""\
model_provider = "stub"
model = "stub"
[model_providers.stub]
name = "stub"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""
    _write(home / ".codex" / "config.toml", settings)
    return {"CODEX_HOME": str(home / ".codex"), "OPENAI_API_KEY": KEY}


def _gemini(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    _write(home / ".gemini" / "settings.json", json.dumps(settings))
    return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY}


def _opencode(home: Path, url: str) -> dict[str, str]:
    options = {"baseURL": f"{url}/v1", "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "stub", "options": options, "models": {"stub": {}}}
    _write(
        home / ".config" / "opencode" / "opencode.json",
        json.dumps({"model": "stub/stub", "provider": {"stub": provider}}),
    )
    return {}


def _copilot(_: Path, url: str) -> dict[str, str]:
    provider = {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_PROVIDER_API_KEY": KEY}
    return {"COPILOT_OFFLINE": "true", "COPILOT_MODEL": "stub", **provider}


def _openai(_: Path, url: str) -> dict[str, str]:
    return {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": KEY, "MSWEA_COST_TRACKING": "ignore_errors"}


_SETUP: Final[Mapping[str, Callable[[Path, str], dict[str, str]]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "copilot": _copilot,
    "aider": _openai,
    "mini-swe-agent": _openai,
}
