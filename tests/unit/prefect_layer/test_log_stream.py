"""What a step says reaches its run's log: bounded, without secrets, and not silent for long."""

from __future__ import annotations

import asyncio
import logging

import pytest

from irontree.tasks.stages import LONGEST, SAMPLE_EVERY, SILENCE, WHOLE, LogProgress, never_silent


class Watch:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def logged(caplog):
    """What is in the log, in order."""
    caplog.set_level(logging.INFO, "step")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "step"]


@pytest.fixture
def progress(watch, logged) -> LogProgress:
    return LogProgress(logging.getLogger("step"), watch)


def test_every_line_of_an_ordinary_step_is_shown(progress, logged):
    for number in range(WHOLE):
        progress.note(f"line {number}")
    assert len(logged()) == WHOLE


def test_of_endless_output_one_line_is_shown_now_and_then_with_how_many_were_not(progress, logged, watch):
    for _ in range(WHOLE + 500):
        progress.note("x")
    watch.now += SAMPLE_EVERY
    progress.note("the newest")
    assert logged()[WHOLE:] == ["... 500 more lines are in the transcript alone", "the newest"]


def test_a_token_is_hidden_and_a_long_line_cut(progress, logged):
    progress.note(f"ghp_{'a' * 36} {'x' * 5000}")
    [line] = logged()
    assert "ghp_" not in line
    assert len(line) == LONGEST


def test_a_step_that_says_nothing_is_said_to_be_at_work(progress, logged, watch):
    progress.say_if_silent()
    assert logged() == []
    watch.now += SILENCE
    progress.say_if_silent()
    progress.say_if_silent()
    assert logged() == ["at work for 1 min"]


def test_how_long_ago_the_last_line_came_is_said(progress, logged, watch):
    progress.note("thinking")
    watch.now += 3900
    progress.say_if_silent()
    assert logged()[-1] == "at work for 1 h 5 min"
    watch.now += 10
    progress.note("still")
    watch.now += 125
    progress.say_if_silent()
    assert logged()[-1] == "at work for 1 h 7 min, the last line came 2 min ago"


def test_silence_is_noticed_while_the_work_goes_on_and_not_after_it(progress, logged, watch):
    async def work() -> None:
        async with never_silent(progress, every=0):
            watch.now += SILENCE
            for _ in range(10):  # turns for who looks
                await asyncio.sleep(0)
        watch.now += SILENCE
        await asyncio.sleep(0)

    asyncio.run(work())
    assert logged() == ["at work for 1 min"]
