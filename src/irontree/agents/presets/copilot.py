"""Copilot CLI. A signal to its group may leave one process behind, which our mark finds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from irontree.agents.presets.preset import Preset, telling
from irontree.agents.reading import (
    NO_RECORD,
    AgentReading,
    JsonRecord,
    at,
    failure_in,
    failure_of_status,
    records,
    retry_time,
    text_at,
)
from irontree.domain.attempt import Claim, FailureClass

_BY_TYPE: Final[dict[str, FailureClass]] = {
    "authentication": "not_authenticated",
    "content_filter": "refused",
    "quota": "rate_limited",
    "rate_limit": "rate_limited",
}


def read(lines: Iterable[str], now: datetime) -> AgentReading:
    """Read `--output-format json`: the last error of the session, and the exit code in the record `result`.

    It says no tokens. Without a `result`, the last call of the model that failed tells why it did not get there.
    """
    words, error, trouble, denied = "", None, None, list[str]()
    for record in records(lines):
        match text_at(record, "type"):
            case "assistant.message":
                words, error, trouble = text_at(record, "data", "content") or words, None, None
            case "model.call_failure":
                trouble = failure_of_status(at(record, "data", "statusCode")) or "unreachable"
            case "session.error":
                error = record
            case "tool.execution_complete" if at(record, "data", "error", "code") == "denied":
                denied.append(text_at(record, "data", "error", "message"))
            case "result":
                return _concluded(record, error, words, tuple(denied), now)
            case _:
                pass  # new kinds of records come with every version
    return AgentReading(NO_RECORD, trouble, denied=tuple(denied))


def _concluded(
    result: JsonRecord, error: JsonRecord | None, words: str, denied: tuple[str, ...], now: datetime
) -> AgentReading:
    said = text_at(error, "data", "message")
    failure = _failure(error, said) if error else None
    ok = result.get("exitCode") == 0 and error is None
    return AgentReading(
        claim=Claim(ok, f"exit code {result.get('exitCode')}", said or words),
        failure=failure,
        retry_at=retry_time(said, now) if failure == "rate_limited" else None,
        session=text_at(result, "sessionId") or None,
        denied=denied,
    )


def _failure(error: JsonRecord, said: str) -> FailureClass | None:
    known = _BY_TYPE.get(text_at(error, "data", "errorType"))
    return known or failure_of_status(at(error, "data", "statusCode")) or failure_in(said)


def tell(record: JsonRecord) -> str | None:
    """Tell what it says and which tools it uses."""
    match record.get("type"):
        case "assistant.message":
            return text_at(record, "data", "content").strip() or None
        case "tool.execution_start":
            given = at(record, "data", "arguments")
            target = text_at(given, "path") or text_at(given, "command")
            return ": ".join(filter(None, (text_at(record, "data", "toolName"), target)))
        case "session.error":
            return text_at(record, "data", "message") or None
        case _:
            return None


PRESET: Final = Preset(
    name="copilot",
    command=(
        *("--output-format", "json", "--allow-tool", "write"),
        *("--no-ask-user", "--no-auto-update"),
    ),
    model=("--model", "{model}"),
    read=read,
    tell=telling(tell),
    variables=("COPILOT_GITHUB_TOKEN", "COPILOT_MODEL", "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BASE_URL"),
    reads=(".copilot/mcp-config.json",),
    writes=(".copilot/config.json",),
    log_in="`copilot`, then /login",
)
