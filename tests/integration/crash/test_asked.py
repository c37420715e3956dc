"""Killed around any effect of a request to a member of the team: one comment, and nobody is asked after an answer."""

from __future__ import annotations

from collections.abc import Iterator
from signal import SIGKILL

import pytest

from irontree.domain.agent_requests import AskedAgent
from tests.integration.crash.laboratory import Laboratory, faults, laboratory
from tests.support.store import asked_agent
from tests.support.watching import Side

SIDES: tuple[Side, ...] = ("before", "after")


@pytest.fixture(scope="module")
def asking(tmp_path_factory) -> Iterator[Laboratory]:
    folder = tmp_path_factory.mktemp("asked")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("cache", "state"):
            patch.setenv(f"XDG_{name.upper()}_HOME", str(folder / "place" / name))
        with laboratory(folder, "asked") as made:
            yield made


def stored(lab: Laboratory) -> AskedAgent:
    found = lab.open().agent_requests.load(asked_agent().key)
    assert found
    return found


def times_asked(lab: Laboratory) -> int:
    path = lab.place / "asked"
    return len(path.read_text().splitlines()) if path.exists() else 0


def differences(lab: Laboratory, killed: AskedAgent, asked_before: int) -> list[str]:
    """What is not as it has to be after the life that followed one that was killed with these in store."""
    done, comments = stored(lab), lab.open().forge().comments(1)
    found = faults(lab.open())
    if (done.state, done.answer, [comment.url for comment in comments]) != ("done", "It does.", [done.posted]):
        found.append(f"{done.state}: {done.answer!r} at {done.posted}, {len(comments)} comments")
    if times_asked(lab) - asked_before > (killed.answer is None):
        found.append(f"asked {times_asked(lab)} times, {asked_before} of them before the kill")
    if lab.open().repository.lost_files():
        found.append("something of the back-up is lost")
    return found


@pytest.mark.timeout(300)
def test_killed_around_any_effect_it_is_answered_once(asking):
    asking.restore()
    whole = asking.live()
    assert whole.code == 0, whole.said
    assert differences(asking, asked_agent(), 0) == []
    for effect in ("agent_requests.save", "agent.attempt", "forge.post_comment", "repository.back_up"):
        assert effect in whole.effects
    wrong = {}
    for number, effect in enumerate(whole.effects, 1):
        for side in SIDES:
            asking.restore()
            killed = asking.live((number, side))
            assert killed.code == -SIGKILL, killed.said
            then, asked_before = stored(asking), times_asked(asking)
            ended = asking.live()
            if found := differences(asking, then, asked_before) if ended.code == 0 else [ended.said]:
                wrong[f"{side} {number} {effect}"] = found
    assert not wrong
