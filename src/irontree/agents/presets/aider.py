"""Aider. It has no machine output, ends with 0 whatever happens, and writes into the workspace unless told not to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from irontree.agents.presets.preset import ERROR, Preset, failure_named, plain
from irontree.agents.reading import AgentReading, figure, retry_time, total
from irontree.domain.attempt import Claim, Usage

_TOKENS: Final = re.compile(r"^Tokens: (?P<sent>[\d.,]+k?) sent,.*?(?P<received>[\d.,]+k?) received\.")
_COST: Final = re.compile(r"^(?:Tokens: .* )?Cost: .*?\$(?P<session>[\d.]+) session\.")


def read(lines: Iterable[str], now: datetime) -> AgentReading:
    """Read its text: the line with the tokens stands behind each answer, and an error where there is none."""
    usage, error, words, answer = Usage(), None, list[str](), ""
    for line in lines:
        text = line.rstrip()
        if spent := _TOKENS.match(text):
            sent, received = _count(spent["sent"]), _count(spent["received"])
            usage = Usage(total(usage.input_tokens, sent), total(usage.output_tokens, received), usage.cost_usd)
            error, answer, words = None, "\n".join(words).strip(), []
        elif failed := ERROR.search(text):
            error = failed
        else:
            words.append(text)
        if cost := _COST.search(text):
            usage = Usage(usage.input_tokens, usage.output_tokens, figure(cost["session"].rstrip(".")))
    if error:
        failure = failure_named(error["name"])
        later = retry_time(error["words"], now) if failure == "rate_limited" else None
        return AgentReading(Claim(False, error["name"], error["words"] or error["name"]), failure, later, usage)
    if usage.output_tokens is None:
        return AgentReading(Claim(False, "no answer"), usage=usage)
    return AgentReading(Claim(None, "answer", _prose(answer)), usage=usage)


def _prose(answer: str) -> str:
    """Its last paragraph that is no file."""
    return next((part for part in reversed(answer.split("\n\n")) if part.strip() and "```" not in part), "")


def _count(text: str) -> int | None:
    """`1.2k` and `1,234` as a number."""
    number = figure(text.rstrip("k").replace(",", ""))
    if number is None:
        return None
    return round(number * 1000) if text.endswith("k") else round(number)


PRESET: Final = Preset(
    name="aider",
    command=(
        *("--yes-always", "--no-auto-commits", "--no-dirty-commits", "--no-check-update", "--no-analytics"),
        # What it would leave in the workspace is no work: .gitignore, its histories, the cache of its map.
        *("--no-gitignore", "--chat-history-file", "/dev/null", "--input-history-file", "/dev/null"),
        *("--map-tokens", "0", "--no-suggest-shell-commands", "--no-detect-urls"),
        *("--no-pretty", "--no-stream", "--no-show-model-warnings", "--no-show-release-notes"),
        *("--message-file", "{prompt_file}"),
    ),
    model=("--model", "{model}"),
    read=read,
    tell=plain,
    variables=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_API_BASE", "GEMINI_API_KEY", "AIDER_MODEL"),
    reads=(".aider.conf.yml", ".aider.model.settings.yml", ".aider.model.metadata.json"),
    log_in="set the key of your model's service, such as ANTHROPIC_API_KEY",
)
