"""Killed between any two effects and started again, the driver ends as one that was not.

The effects are those of docs/explanation/crash-safety.md.

`SOAK=all` tries every point on both sides; else the first of each kind is tried, of the second story every
third, of the merge every other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from signal import SIGKILL
from typing import Any

import pytest

from tests.integration.crash.laboratory import Laboratory, budget_used, faults, laboratory, outcome
from tests.support.soak import SOAK
from tests.support.watching import Side

BATCHES = 8
OUTSIDE = ("forge.create_issue", "forge.post_comment", "repository.publish", "workspace.commit", "agent", "checks")


LOGGED = ("plans", "log", "loops", "deliveries", "forge")
"""The ports whose effects make the difference when minds are changed; the others are tried from the beginning."""


@dataclass(frozen=True)
class Undisturbed:
    """What a driver does that nobody kills; with *others*, somebody else publishes just before it does."""

    effects: tuple[str, ...]
    outcome: Mapping[str, Any]
    budget_used: int
    others: bool


@pytest.fixture(scope="module")
def alone(lab) -> Undisturbed:
    return observe(lab, others=False)


@pytest.fixture(scope="module")
def among_others(lab) -> Undisturbed:
    return observe(lab, others=True)


def observe(lab: Laboratory, *, others: bool) -> Undisturbed:
    lab.restore()
    ended = lab.live(others=others)
    assert ended.code == 0, ended.said
    app = lab.open()
    assert faults(app) == []
    return Undisturbed(ended.effects, outcome(app), budget_used(app), others)


def points(effects: tuple[str, ...]) -> Iterator[tuple[int, Side]]:
    seen: set[str] = set()
    for number, effect in enumerate(effects, start=1):
        first = effect not in seen
        seen.add(effect)
        if SOAK or first:
            yield number, "after"
        if SOAK or (first and effect.startswith(OUTSIDE)):
            yield number, "before"


def points_of_the_merge(effects: tuple[str, ...]) -> Iterator[tuple[int, Side]]:
    """All between the first publication and its event; in short every other one, the first and the last among them."""
    began, ended = effects.index("repository.publish") + 1, effects.index("log.append:verify_passed") + 1
    for number in range(began, ended + 1) if SOAK else sorted({*range(began, ended, 2), ended}):
        yield number, "after"
        if SOAK:
            yield number, "before"


def differences(lab: Laboratory, undisturbed: Undisturbed) -> list[str]:
    app = lab.open()
    now, then = outcome(app), undisturbed.outcome
    found = [f"{name}: {now[name]} instead of {then[name]}" for name in now if now[name] != then[name]]
    if budget_used(app) < undisturbed.budget_used:
        found.append(f"budget used: {budget_used(app)}, at least {undisturbed.budget_used} expected")
    return found + faults(app)


def tried(lab: Laboratory, undisturbed: Undisturbed, chosen: Iterable[tuple[int, Side]]) -> dict[str, list[str]]:
    """Kill at each of these points and start again; what is different from the undisturbed run, by point."""
    wrong = {}
    for number, side in chosen:
        lab.restore()
        killed = lab.live((number, side), others=undisturbed.others)
        assert killed.code == -SIGKILL, killed.said
        ended = lab.live(others=undisturbed.others)
        found = differences(lab, undisturbed) if ended.code == 0 else [ended.said]
        if found:
            wrong[f"{side} {number} {undisturbed.effects[number - 1]}"] = found
    return wrong


@pytest.mark.timeout(3600 if SOAK else 300)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_killed_at_any_effect_and_started_again_it_ends_the_same(lab, alone, batch):
    assert not tried(lab, alone, list(points(alone.effects))[batch::BATCHES])


@pytest.mark.timeout(600)
def test_killed_while_it_merges_what_others_published_it_ends_the_same(lab, among_others):
    assert among_others.outcome["commits"].count("from elsewhere") == 1
    assert not tried(lab, among_others, points_of_the_merge(among_others.effects))


# --- finished work reopened, a loop replaced, a closed issue opened, a text approved in mid-loop (R7, R13, R17) -------


@pytest.fixture(scope="module")
def changing(tmp_path_factory) -> Iterator[Laboratory]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("change")
        patch.setenv("XDG_CACHE_HOME", str(folder / "place" / "cache"))
        with laboratory(folder, "change") as made:
            yield made


@pytest.fixture(scope="module")
def minds_changed(changing) -> Undisturbed:
    return observe(changing, others=False)


@pytest.mark.timeout(3600 if SOAK else 300)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_killed_while_minds_are_changed_it_ends_the_same(changing, minds_changed, batch):
    assert minds_changed.outcome["archives"], "streams ended and began again"
    chosen = [
        (number, side)
        for number, side in points(minds_changed.effects)
        if SOAK or (side == "after" and minds_changed.effects[number - 1].startswith(LOGGED))
    ]
    few = chosen if SOAK else chosen[::3]
    assert not tried(changing, minds_changed, few[batch::BATCHES])
