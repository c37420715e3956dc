"""mini-swe-agent. It takes its task as an argument, and what it prints is for people."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from irontree.agents.presets.preset import ERROR, Preset, failure_named, plain
from irontree.agents.reading import NO_RECORD, AgentReading, failure_in, figure, retry_time
from irontree.domain.attempt import Claim, Usage

_STEP: Final = re.compile(r"^mini-swe-agent \(step \d+, \$(?P<cost>[\d.]+)\)")
_SUBMITTED: Final = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def read(lines: Iterable[str], now: datetime) -> AgentReading:
    """Read its text: what stands behind `Exit:` is how it ended, if it says so at all."""
    usage, step, ending = Usage(), list[str](), None
    for line in lines:
        text = line.strip()
        if found := _STEP.match(text):
            usage, step, ending = Usage(cost_usd=figure(found["cost"])), [], None
        elif text == "Exit:":
            ending = list[str]()
        elif text.startswith("Saved trajectory"):
            break
        elif text:
            (step if ending is None else ending).append(text)
    if ending is None:
        return AgentReading(NO_RECORD, usage=usage)
    return _concluded(" ".join(ending), step, usage, now)


def add(usage: Usage, line: str) -> Usage:
    """What it says at each step that it has cost so far."""
    found = _STEP.match(line.strip())
    return Usage(cost_usd=figure(found["cost"])) if found else usage


def _concluded(ending: str, step: list[str], usage: Usage, now: datetime) -> AgentReading:
    if error := ERROR.search(ending):
        failure = failure_named(error["name"])
        later = retry_time(ending, now) if failure == "rate_limited" else None
        return AgentReading(Claim(False, error["name"], error["words"]), failure, later, usage)
    ok = any(_SUBMITTED in line for line in step)
    words = ending or (step[0] if step else "")
    return AgentReading(
        Claim(ok, "submitted" if ok else "exit", words), None if ok else failure_in(ending), usage=usage
    )


PRESET: Final = Preset(
    name="mini-swe-agent",
    first=("sh", "-c", 'prompt=$(cat); exec "$@" --task "$prompt"', "sh"),
    command=("--yolo", "--exit-immediately"),
    model=("--model", "{model}"),
    read=read,
    tell=plain,
    add=add,
    variables=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_API_BASE", "MSWEA_MODEL_NAME"),
    settings={"MSWEA_CONFIGURED": "true"},
    reads=(".config/mini-swe-agent",),
    log_in="set the key of your model's service, such as ANTHROPIC_API_KEY",
)
