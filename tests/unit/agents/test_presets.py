"""What the output of known agent programs means: transcripts of real ones against a stand-in for the model services."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from irontree.agents.presets import PRESETS
from irontree.agents.reading import NO_RECORD, failure_in, retry_time
from irontree.domain.agents import KNOWN_AGENTS
from irontree.domain.attempt import Usage

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
DATA = Path(__file__).parents[2] / "data" / "agents"
TRANSCRIPTS = {
    "claude-edit": (True, None, (20, 6)),
    "claude-text": (True, None, (10, 3)),
    "claude-401": (False, "not_authenticated", (0, 0)),
    "claude-429": (False, "rate_limited", (0, 0)),
    "claude-500": (False, "unreachable", (0, 0)),
    "claude-refusal": (False, "refused", (10, 3)),
    "claude-unreachable": (False, "unreachable", (0, 0)),
    "codex-edit": (True, None, (20, 6)),
    "codex-401": (False, "not_authenticated", (None, None)),
    "codex-429": (False, "rate_limited", (None, None)),
    "codex-500": (False, "unreachable", (None, None)),
    "codex-unreachable": (False, "unreachable", (None, None)),
    "gemini-edit": (True, None, (30, 9)),
    "gemini-401": (False, "not_authenticated", (0, 0)),
    "gemini-429": (False, "rate_limited", (None, None)),
    "gemini-500": (False, "unreachable", (None, None)),
    "gemini-unreachable": (False, "unreachable", (None, None)),
    "gemini-refusal": (True, None, (20, 6)),
    "opencode-edit": (True, None, (20, 6)),
    "opencode-401": (False, "not_authenticated", (None, None)),
    "opencode-429": (False, "rate_limited", (None, None)),
    "opencode-refusal": (False, "refused", (10, 3)),
    "copilot-edit": (True, None, (None, None)),
    "copilot-401": (False, "not_authenticated", (None, None)),
    "copilot-429": (False, "rate_limited", (None, None)),
    "copilot-500": (False, "unreachable", (None, None)),
    "aider-edit": (None, None, (10, 3)),
    "aider-401": (False, "not_authenticated", (None, None)),
    "aider-429": (False, "rate_limited", (None, None)),
    "mini-swe-agent-edit": (True, None, (None, None)),
    "mini-swe-agent-text": (True, None, (None, None)),
    "mini-swe-agent-401": (False, "not_authenticated", (None, None)),
}
JSON_SPEAKERS = ("claude", "codex", "gemini", "opencode", "copilot")


def lines_of(name: str) -> list[str]:
    return (DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines(keepends=True)


def preset_of(name: str):
    return PRESETS[name.rpartition("-")[0]]


def test_every_transcript_has_its_row():
    assert {path.stem for path in DATA.glob("*.txt")} == set(TRANSCRIPTS)


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_real_transcript_is_read_as_what_it_was(name):
    ok, failure, tokens = TRANSCRIPTS[name]
    reading = preset_of(name).read(lines_of(name), NOW)
    assert reading.claim is not None
    assert (reading.claim.ok, reading.failure) == (ok, failure)
    assert (reading.usage.input_tokens, reading.usage.output_tokens) == tokens


@pytest.mark.parametrize("name", [name for name, row in TRANSCRIPTS.items() if row[0] is False and "429" not in name])
def test_a_failure_comes_with_the_programs_own_words(name):
    claim = preset_of(name).read(lines_of(name), NOW).claim
    assert claim == NO_RECORD or claim.words


@pytest.mark.parametrize("name", JSON_SPEAKERS)
@pytest.mark.parametrize("share", [0, 1, 2])
def test_a_program_that_was_cut_off_claims_nothing(name, share):
    """Claude ends with 0 when it is interrupted, and Gemini too: the missing record tells."""
    lines = lines_of(f"{name}-edit")[:share]
    assert PRESETS[name].read(lines, NOW).claim == NO_RECORD


ENORMOUS = "9" * 400
ABSURD = {
    "claude": '{"type": "result", "subtype": "success", "total_cost_usd": %s}',
    "codex": '{"type": "turn.completed", "usage": {"input_tokens": %s, "output_tokens": %s}}',
    "gemini": '{"type": "result", "status": "success", "stats": {"input_tokens": %s, "output_tokens": %s}}',
    "opencode": '{"type": "step_finish", "part": {"cost": %s, "tokens": {"input": %s, "output": %s}}}',
    "aider": "Tokens: %s sent, %s received. Cost: $0.01 message, $%s session.",
    "mini-swe-agent": "mini-swe-agent (step 1, $%s):",
}


@pytest.mark.parametrize("name", ABSURD)
@pytest.mark.parametrize("amount", ["NaN", "1e999", "-Infinity", "-1", ENORMOUS, "1.2.3", "."])
def test_an_amount_that_cannot_be_meant_is_one_that_was_not_said(name, amount):
    line = f"{ABSURD[name].replace('%s', amount)}\n"
    assert PRESETS[name].read([line, "Exit:\n"], NOW).usage.known() == {}
    assert PRESETS[name].add(Usage(), line).known() == {}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "null",
        '{"type": 7}',
        '{"type": "result"}',
        '{"type": "error"}',
        '{"type":"item.completed"}',
        "\x00",
    ],
)
def test_no_line_whatever_stops_the_reading(name, line):
    reading = PRESETS[name].read([f"{line}\n"], NOW)
    assert reading.claim is not None
    assert reading.claim.ok is not True
    told = PRESETS[name].tell(line)
    assert told is None or isinstance(told, str)


@pytest.mark.parametrize("name", [name for name in TRANSCRIPTS if name.endswith("-edit")])
def test_somebody_who_watches_reads_words_and_no_records(name):
    told = [words for line in lines_of(name) if (words := preset_of(name).tell(line.rstrip()))]
    assert any("made.txt" in words for words in told)
    assert not any(words.startswith('{"') for words in told)


def result(**values: object) -> list[str]:
    record = {"type": "result", "subtype": "success", "is_error": False, "result": "done", **values}
    return [f"{json.dumps(record)}\n"]


@pytest.mark.parametrize(
    ("values", "ok", "failure"),
    [
        ({}, True, None),
        ({"is_error": True, "api_error_status": 529}, False, "rate_limited"),
        ({"is_error": True, "result": "Invalid API key · Please run /login"}, False, "not_authenticated"),
        ({"is_error": True, "subtype": "error_max_turns"}, False, "limit_reached"),
        ({"is_error": True, "subtype": "error_max_budget_usd"}, False, "limit_reached"),
        ({"is_error": True, "subtype": "error_during_execution"}, False, None),
        ({"is_error": None}, False, None),
    ],
)
def test_claudes_error_flag_counts_and_not_its_subtype_alone(values, ok, failure):
    reading = PRESETS["claude"].read(result(**values), NOW)
    assert reading.claim is not None
    assert (reading.claim.ok, reading.failure) == (ok, failure)


def test_claude_says_when_its_limit_ends():
    limit = {"status": "rejected", "resetsAt": int((NOW + timedelta(hours=3)).timestamp())}
    event = json.dumps({"type": "rate_limit_event", "rate_limit_info": limit})
    reading = PRESETS["claude"].read([event, *result(is_error=True, api_error_status=429)], NOW)
    assert (reading.failure, reading.retry_at) == ("rate_limited", NOW + timedelta(hours=3))


def test_what_claude_was_denied_is_named():
    denials = [{"tool_name": "Bash", "tool_input": {"command": "npm test"}}]
    assert PRESETS["claude"].read(result(permission_denials=denials), NOW).denied == ("Bash: npm test",)


def test_what_opencode_was_denied_is_named():
    line = "! permission requested: external_directory (/etc/*); auto-rejecting\n"
    assert PRESETS["opencode"].read([line], NOW).denied == ("external_directory (/etc/*)",)


@pytest.mark.parametrize(
    ("words", "wait"),
    [
        ("Please retry in 34.5s.", timedelta(seconds=34.5)),
        ("You've hit your usage limit. Try again in 2 days 3 hours 5 minutes.", timedelta(days=2, hours=3, minutes=5)),
        ("rate limited; retry after: 90 seconds", timedelta(seconds=90)),
        ("try again in 2h 5m", timedelta(hours=2, minutes=5)),
        ("try again later", None),
        ("try again in 400 days", None),
    ],
)
def test_a_time_to_wait_is_understood_if_it_is_believable(words, wait):
    assert retry_time(words, NOW) == (NOW + wait if wait else None)


@pytest.mark.parametrize(
    ("words", "failure"),
    [
        ("unexpected status 403 Forbidden", "not_authenticated"),
        ("HTTP 503 from upstream", "unreachable"),
        ("connect ECONNREFUSED 127.0.0.1:1", "unreachable"),
        ("Quota exceeded for metric", "rate_limited"),
        ("the sandbox has no room left", None),
    ],
)
def test_errors_in_words_have_their_class(words, failure):
    assert failure_in(words) == failure


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_a_command_line_has_program_model_and_what_the_user_adds(preset):
    words = preset.words(("/usr/local/bin/agent",), "big-one", ("--effort", "high"))
    assert "/usr/local/bin/agent" in words
    assert preset.program not in words[len(preset.first) :]
    assert "big-one" in words
    assert words[-len(preset.last) - 2 :][:2] == ("--effort", "high")


def test_the_agents_that_can_be_chosen_are_those_that_are_known():
    assert list(PRESETS) == list(KNOWN_AGENTS)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_without_a_model_the_program_chooses(preset):
    assert not any("{model}" in word for word in preset.words((), None, ()))
    assert "--model" not in preset.words((), None, ())
