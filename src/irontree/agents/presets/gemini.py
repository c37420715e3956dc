"""Gemini CLI. It ends with 0 when its group is interrupted, and tries for minutes where the service fails."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from irontree.agents.presets.preset import Preset, telling
from irontree.agents.reading import (
    NO_RECORD,
    AgentReading,
    JsonRecord,
    failure_in,
    failure_of_status,
    number_at,
    record_in,
    retry_time,
    text_at,
)
from irontree.domain.attempt import Claim, FailureClass, Usage

_TRIES_AGAIN: Final = re.compile(r"^Attempt \d+ failed(?: with status (?P<status>\d{3}))?(?P<words>.*)")
_ASKED: Final = re.compile(r"retry(?:Delay)?\W{1,4}(?:in )?([\d.]+)s", re.IGNORECASE)


def read(lines: Iterable[str], now: datetime) -> AgentReading:
    """Read `--output-format stream-json`: the record of the type `result` counts, and what is tried again without."""
    session, words, trouble = None, "", None
    for line in lines:
        record = record_in(line)
        if record is None:
            trouble = _trouble(line) or trouble
            continue
        match text_at(record, "type"):
            case "init":
                session = text_at(record, "session_id") or None
            case "message" if record.get("role") == "assistant":
                words = words + text_at(record, "content") if record.get("delta") else text_at(record, "content")
            case "tool_use":
                words, trouble = "", None
            case "error":
                trouble = failure_in(text_at(record, "message")) or trouble
            case "result":
                return _concluded(record, words, session, now)
            case _:
                pass  # new kinds of records come with every version
    return AgentReading(NO_RECORD, trouble, session=session)


def _trouble(line: str) -> FailureClass | None:
    found = _TRIES_AGAIN.match(line)
    if found is None:
        return None
    return failure_of_status(int(found["status"])) if found["status"] else failure_in(found["words"])


def _concluded(result: JsonRecord, words: str, session: str | None, now: datetime) -> AgentReading:
    error = text_at(result, "error", "message")
    ok = result.get("status") == "success"
    failure = None if ok else failure_in(error)
    asked = _ASKED.search(error)
    return AgentReading(
        claim=Claim(ok, text_at(result, "status") or "result", error or words),
        failure=failure,
        retry_at=retry_time(f"retry in {asked[1]}s", now) if asked and failure == "rate_limited" else None,
        usage=Usage(number_at(result, "stats", "input_tokens"), number_at(result, "stats", "output_tokens")),
        session=session,
    )


def tell(record: JsonRecord) -> str | None:
    """Tell what it says and which tools it uses."""
    match record.get("type"):
        case "message" if record.get("role") == "assistant":
            return text_at(record, "content").strip() or None
        case "tool_use":
            target = text_at(record, "parameters", "file_path") or text_at(record, "parameters", "command")
            return ": ".join(filter(None, (text_at(record, "tool_name"), target)))
        case "error":
            return text_at(record, "message") or None
        case _:
            return None


PRESET: Final = Preset(
    name="gemini",
    command=(*("--output-format", "stream-json", "--approval-mode", "auto_edit", "--skip-trust"),),
    model=("--model", "{model}"),
    read=read,
    tell=telling(tell),
    variables=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT"),
    signed_in=(".gemini/oauth_creds.json",),
    reads=(".gemini/settings.json", ".gemini/google_accounts.json", ".gemini/installation_id", ".gemini/GEMINI.md"),
    writes=(".gemini/oauth_creds.json",),
    exits={41: "not_authenticated", 53: "limit_reached"},
    log_in="`gemini`, and choose how to sign in",
)
