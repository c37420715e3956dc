"""OpenCode. It has no record of its end, and exits 0 where a permission was rejected because it ran unattended."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from irontree.agents.presets.preset import Preset, plain, telling
from irontree.agents.reading import (
    NO_RECORD,
    AgentReading,
    JsonRecord,
    at,
    failure_in,
    failure_of_status,
    money,
    number_at,
    record_in,
    retry_time,
    text_at,
    total,
)
from irontree.domain.attempt import Claim, FailureClass, Usage

_REJECTED: Final = re.compile(r"permission requested: (?P<what>.+?);? auto-?rejecting")
_FAILS: Final = re.compile(r'message="stream error".*error\.error="(?P<what>.*)"$')
_ENDS: Final[dict[str, FailureClass]] = {"length": "limit_reached", "content-filter": "refused"}
_GOES_ON: Final = "tool-calls"


def read(lines: Iterable[str], now: datetime) -> AgentReading:
    """Read `run --format json`: the last step tells how it ended, unless an error stands behind it."""
    session, words, end, usage, denied, trouble = None, "", None, Usage(), list[str](), None
    for line in lines:
        record = record_in(line)
        if record is None:
            denied += [found["what"] for found in _REJECTED.finditer(line)]
            trouble = _trouble(line) or trouble
            continue
        session = text_at(record, "sessionID") or session
        match text_at(record, "type"):
            case "text":
                words = text_at(record, "part", "text")
            case "step_finish":
                end, usage = record, _added(usage, record)
            case "error":
                end = record
            case _:
                pass  # new kinds of records come with every version
    seen = AgentReading(NO_RECORD, trouble, usage=usage, session=session, denied=tuple(denied))
    return _concluded(end, words, now, seen)


def _trouble(line: str) -> FailureClass | None:
    """What a line of its log says that it keeps to itself, for it tries again until it is stopped."""
    failed = _FAILS.search(line.strip())
    return failure_in(failed["what"]) if failed else None


def add(usage: Usage, line: str) -> Usage:
    """With what this line says that a step took."""
    record = record_in(line) if "step_finish" in line else None
    return _added(usage, record) if record and text_at(record, "type") == "step_finish" else usage


def _added(usage: Usage, step: JsonRecord) -> Usage:
    """With what this step took; a step counts what it was given anew, cached or not."""
    cached = total(
        number_at(step, "part", "tokens", "cache", "read"), number_at(step, "part", "tokens", "cache", "write")
    )
    cost = money(at(step, "part", "cost"))
    return Usage(
        total(usage.input_tokens, number_at(step, "part", "tokens", "input"), cached),
        total(usage.output_tokens, number_at(step, "part", "tokens", "output")),
        usage.cost_usd if cost is None else cost + (usage.cost_usd or 0.0),
    )


def _concluded(end: JsonRecord | None, words: str, now: datetime, seen: AgentReading) -> AgentReading:
    claim, failure, retry_at = None, None, None
    if end is None or text_at(end, "part", "reason") == _GOES_ON:
        return seen
    if end.get("type") == "error":
        name, error = text_at(end, "error", "name"), text_at(end, "error", "data", "message")
        failure = failure_of_status(at(end, "error", "data", "statusCode")) or failure_in(f"{name} {error}")
        claim, retry_at = Claim(False, name or "error", error or name), retry_time(error, now)
    else:
        reason = text_at(end, "part", "reason")
        failure = _ENDS.get(reason)
        claim = Claim(reason == "stop", reason, words)
    later = retry_at if failure == "rate_limited" else None
    return AgentReading(claim, failure, later, seen.usage, seen.session, seen.denied)


def log_line(line: str) -> str | None:
    """Tell of its log what fails."""
    failed = _FAILS.search(line.strip())
    return f"the model's service fails: {failed['what']}" if failed else plain(line)


def tell(record: JsonRecord) -> str | None:
    """Tell what it says and which tools it uses."""
    match record.get("type"):
        case "text":
            return text_at(record, "part", "text").strip() or None
        case "tool_use":
            target = text_at(record, "part", "state", "title") or text_at(record, "part", "state", "input", "command")
            return ": ".join(filter(None, (text_at(record, "part", "tool"), target)))
        case "error":
            return text_at(record, "error", "data", "message") or text_at(record, "error", "name") or None
        case _:
            return None


PRESET: Final = Preset(
    name="opencode",
    command=("run", "--format", "json", "--auto", "--print-logs", "--log-level", "ERROR"),
    model=("--model", "{model}"),
    read=read,
    tell=telling(tell, otherwise=log_line),
    add=add,
    variables=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_CONFIG"),
    settings={"OPENCODE_DISABLE_AUTOUPDATE": "1"},
    signed_in=(".local/share/opencode/auth.json",),
    # It writes a file of its own beside its settings, so the folder itself is not shown.
    reads=tuple(f".config/opencode/{name}" for name in ("opencode.json", "opencode.jsonc", "config.json", "AGENTS.md")),
    writes=(".local/share/opencode/auth.json",),
    log_in="`opencode auth login`",
)
