"""Codex. Its exit code tells whether the protocol went well; without an end point it waits for ever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from irontree.agents.presets.preset import SANDBOX, LoginCheck, Preset, SandboxCheck, telling
from irontree.agents.reading import (
    NO_RECORD,
    AgentReading,
    JsonRecord,
    at,
    failure_in,
    number_at,
    records,
    retry_time,
    text_at,
)
from irontree.domain.attempt import Claim, Usage


def read(lines: Iterable[str], now: datetime) -> AgentReading:
    """Read `exec --json`: the last turn counts; errors of one that did not end are why it did not."""
    session, words, error, usage, kind = None, "", "", Usage(), ""
    for record in records(lines):
        match text_at(record, "type"):
            case "thread.started":
                session = text_at(record, "thread_id") or None
            case "item.completed" if text_at(record, "item", "type") == "agent_message":
                words, error = text_at(record, "item", "text"), ""
            case "turn.started":
                error, kind = "", ""
            case "turn.completed":
                kind, error = "turn.completed", ""
                usage = Usage(number_at(record, "usage", "input_tokens"), number_at(record, "usage", "output_tokens"))
            case "turn.failed":
                kind, error = "turn.failed", text_at(record, "error", "message")
            case "error":
                error = text_at(record, "message")
            case _:
                pass  # new kinds of records come with every version
    failure = failure_in(error) if error else None
    return AgentReading(
        claim=Claim(kind == "turn.completed", kind, error or words) if kind else NO_RECORD,
        failure=failure,
        retry_at=retry_time(error, now) if failure == "rate_limited" else None,
        usage=usage,
        session=session,
    )


def tell(record: JsonRecord) -> str | None:
    """Tell what it says, which commands it runs and which files it changes."""
    match record.get("type"):
        case "item.started" | "item.completed":
            return _item(at(record, "item"), begins=record["type"] == "item.started")
        case "error":
            return text_at(record, "message") or None
        case _:
            return None


def _item(item: object, *, begins: bool) -> str | None:
    match text_at(item, "type"):
        case "agent_message" if not begins:
            return text_at(item, "text") or None
        case "command_execution" if begins:
            return text_at(item, "command") or None
        case "file_change" if not begins:
            changed = (text_at(change, "path") for change in at(item, "changes") or ())
            return f"changes {', '.join(filter(None, changed))}"
        case _:
            return None


def is_logged_out(said: str) -> bool:
    """Whether `login status` says so."""
    return "not logged in" in said.lower()


def has_another_provider(home: Path, arguments: Sequence[str]) -> bool:
    """Whether settings or *arguments* may name a provider without a log-in, of which `login status` knows nothing."""
    if any("--oss" in word or "model_provider" in word for word in arguments):
        return True
    try:
        return "model_provider" in (home / ".codex" / "config.toml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


PRESET: Final = Preset(
    name="codex",
    command=("exec", "--json", SANDBOX, "--skip-git-repo-check"),
    model=("--model", "{model}"),
    read=read,
    tell=telling(tell),
    variables=("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"),
    signed_in=(".codex/auth.json",),
    reads=(".codex/config.toml", ".codex/AGENTS.md", ".codex/prompts"),
    writes=(".codex/auth.json",),
    own_sandbox=(("--sandbox", "workspace-write"), ("--sandbox", "danger-full-access")),
    # Its records say nothing of work that its sandbox refused.
    sandbox_check=SandboxCheck(("sandbox", "--", "true"), works=('"type":"file_change"', '"exit_code":0')),
    last=("-",),
    log_in="`codex login`",
    status=LoginCheck(("login", "status"), denies=is_logged_out, elsewhere=has_another_provider),
)
