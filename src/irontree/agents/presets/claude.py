"""Claude Code. Its exit code is 0 after an interruption, and `subtype: success` stands beside `is_error: true`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from irontree.agents.presets.preset import LoginCheck, Preset, telling
from irontree.agents.reading import (
    NO_RECORD,
    AgentReading,
    JsonRecord,
    at,
    failure_in,
    failure_of_status,
    from_epoch,
    money,
    number_at,
    records,
    retry_time,
    text_at,
    total,
)
from irontree.domain.attempt import Claim, FailureClass, Usage

_FAILURES: Final[dict[str, FailureClass]] = {
    "authentication_failed": "not_authenticated",
    "billing_error": "limit_reached",
    "overloaded": "rate_limited",
    "rate_limit": "rate_limited",
    "server_error": "unreachable",
}
_RESET: Final = re.compile(r"limit reached\|(\d{9,11})\b")
_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def read(lines: Iterable[str], now: datetime) -> AgentReading:
    """Read `--output-format stream-json`: the last record of the type `result` counts."""
    result: JsonRecord | None = None
    session, trouble, reset = None, None, None
    for record in records(lines):
        session = text_at(record, "session_id") or session
        match record.get("type"):
            case "result":
                result = record
            case "system" if record.get("subtype") == "api_retry":
                trouble = failure_of_status(record.get("error_status")) or "unreachable"
            case "assistant":
                trouble = _FAILURES.get(text_at(record, "error"))
            case "rate_limit_event" if text_at(record, "rate_limit_info", "status") == "rejected":
                reset = from_epoch(at(record, "rate_limit_info", "resetsAt"), now)
    if result is None:
        return AgentReading(NO_RECORD, trouble, reset if trouble == "rate_limited" else None, session=session)
    return _concluded(result, trouble, reset, session, now)


def _concluded(
    result: JsonRecord, trouble: FailureClass | None, reset: datetime | None, session: str | None, now: datetime
) -> AgentReading:
    words = text_at(result, "result") or "; ".join(map(str, at(result, "errors") or ()))
    failure = _failure(result, trouble, words)
    announced = _RESET.search(words)
    later = reset or (from_epoch(int(announced[1]), now) if announced else retry_time(words, now))
    return AgentReading(
        claim=Claim(_is_ok(result), _kind(result), words),
        failure=failure,
        retry_at=later if failure == "rate_limited" else None,
        usage=Usage(
            total(*(number_at(result, "usage", name) for name in _INPUT)),
            number_at(result, "usage", "output_tokens"),
            money(result.get("total_cost_usd")),
        ),
        session=session,
        denied=tuple(_denial(denial) for denial in at(result, "permission_denials") or ()),
    )


def _is_ok(result: JsonRecord) -> bool:
    return result.get("subtype") == "success" and result.get("is_error") is False


def _kind(result: JsonRecord) -> str:
    if result.get("is_error") and result.get("subtype") == "success":
        return f"error {result.get('api_error_status') or text_at(result, 'stop_reason')}".strip()
    return text_at(result, "subtype") or "result"


def _failure(result: JsonRecord, trouble: FailureClass | None, words: str) -> FailureClass | None:
    if _is_ok(result):
        return None
    if result.get("stop_reason") == "refusal":
        return "refused"
    if text_at(result, "subtype").startswith("error_max_"):
        return "limit_reached"
    return failure_of_status(result.get("api_error_status")) or trouble or failure_in(words)


def _denial(denial: object) -> str:
    given = at(denial, "tool_input")
    about = next((str(at(given, key)) for key in ("command", "file_path", "url", "path") if at(given, key)), "")
    return ": ".join(filter(None, (text_at(denial, "tool_name"), about)))


def tell(record: JsonRecord) -> str | None:
    """Tell what it says and which tools it uses."""
    match record.get("type"):
        case "assistant":
            return "; ".join(filter(None, map(_part, at(record, "message", "content") or ()))) or None
        case "system" if record.get("subtype") == "api_retry":
            return f"the model's service fails ({record.get('error_status') or 'no answer'}); it tries again"
        case _:
            return None


def _part(part: object) -> str:
    if text_at(part, "type") != "tool_use":
        return text_at(part, "text")
    return _denial({"tool_name": at(part, "name"), "tool_input": at(part, "input")})


def is_logged_out(said: str) -> bool:
    """Whether `auth status` says so of its own service: others have log-ins of their own."""
    try:
        found = json.loads(said)
    except ValueError:  # a version that does not know the question
        return False
    return at(found, "loggedIn") is False and at(found, "apiProvider") == "firstParty"


PRESET: Final = Preset(
    name="claude",
    command=(
        *("-p", "--output-format", "stream-json", "--verbose"),
        *("--permission-mode", "acceptEdits"),
    ),
    model=("--model", "{model}"),
    read=read,
    tell=telling(tell),
    variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
    settings={"DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"},
    signed_in=(".claude/.credentials.json",),
    reads=(".claude/settings.json", ".claude/CLAUDE.md", ".claude/agents", ".claude/commands", ".claude/skills"),
    writes=(".claude/.credentials.json",),
    log_in="`claude`, then /login",
    status=LoginCheck(("auth", "status"), denies=is_logged_out),
)
