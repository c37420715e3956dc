"""Killed between any two effects and started again, the driver ends as one that was not.

The effects are those of docs/explanation/crash-safety.md.

`SOAK=all` tries every point by itself, on both sides. Else each kind of effect is a point once, and a driver is killed
several times on its way, at one kind after the other; of the merge every twentieth point is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from tests.integration.crash.laboratory import Laboratory, Life, budget_used, faults, laboratory, outcome
from tests.support.repositories import git
from tests.support.soak import SOAK, in_soak
from tests.support.watching import Side

BATCHES, IN_TURN = 6, 3
"""Into how many parts the points are divided, and the kinds: one driver more is one way more from start to end."""
OUTSIDE = ("forge.create_issue", "forge.post_comment", "repository.publish", "workspace.commit", "agent", "checks")
ASKED = "forge.create_pull_request"
BOTH_SIDES: tuple[Side, ...] = ("before", "after")
LOGGED = ("plans", "log", "loops", "deliveries", "forge")
"""The ports whose effects make the difference when minds are changed; the others are tried from the beginning."""


@dataclass(frozen=True)
class Undisturbed:
    """What a driver does that nobody kills; with *others*, somebody else publishes just before it does."""

    effects: tuple[str, ...]
    outcome: Mapping[str, Any]
    budget_used: int
    others: bool


def laboratory_at_home(folder: Path, life: Life) -> Iterator[Laboratory]:
    """A laboratory whose cache and state are in its own folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "place" / "cache"))
        patch.setenv("XDG_STATE_HOME", str(folder / "place" / "state"))
        with laboratory(folder, life) as made:
            yield made


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
    for number in range(1, len(effects) + 1):
        yield number, "after"
        yield number, "before"


def kinds(effects: tuple[str, ...]) -> list[tuple[str, Side]]:
    """Each effect by its name in the order of its first time; the side before it where it reaches outside."""
    found = dict.fromkeys(effects)
    both: list[tuple[str, Side]] = []
    for kind in found:
        both += [(kind, "before")] if kind.startswith(OUTSIDE) else []
        both.append((kind, "after"))
    return both


def points_of_the_merge(effects: tuple[str, ...]) -> Iterator[tuple[int, Side]]:
    """All between the first publication and its event; in short every twentieth, the first and the last among them."""
    began, ended = effects.index("repository.publish") + 1, effects.index("log.append:verify_passed") + 1
    for number in range(began, ended + 1) if SOAK else sorted({*range(began, ended, 20), ended}):
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


def tried_in_turn(lab: Laboratory, undisturbed: Undisturbed, chosen: Iterable[tuple[str, Side]]) -> list[str]:
    """Kill one driver after the other, each at the next of these kinds; what is different in the end.

    A kind that the rest of the way does not have any more is tried from the beginning.
    """
    lab.restore()
    wrong: list[str] = []
    for kill in chosen:
        lived = lab.live(kill, others=undisturbed.others)
        if lived.code == 0:
            wrong += differences(lab, undisturbed)
            lab.restore()
            lived = lab.live(kill, others=undisturbed.others)
        if lived.code != -SIGKILL:
            return [*wrong, f"{kill}: {lived.said}"]
    ended = lab.live(others=undisturbed.others)
    return [*wrong, *(differences(lab, undisturbed) if ended.code == 0 else [ended.said])]


@in_soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_killed_at_any_effect_and_started_again_it_ends_the_same(lab, alone, batch):
    assert not tried(lab, alone, list(points(alone.effects))[batch::BATCHES])


@pytest.mark.parametrize("batch", range(IN_TURN))
def test_killed_at_one_kind_of_effect_after_the_other_it_ends_the_same(lab, alone, batch):
    assert not tried_in_turn(lab, alone, kinds(alone.effects)[batch::IN_TURN])


@pytest.mark.timeout(600)
def test_killed_while_it_merges_what_others_published_it_ends_the_same(lab, among_others):
    assert among_others.outcome["commits"].count("from elsewhere") == 1
    assert not tried(lab, among_others, points_of_the_merge(among_others.effects))


# --- a branch that is not there before the first publication ----------------------------------------------------------


@pytest.fixture(scope="module")
def making(tmp_path_factory) -> Iterator[Laboratory]:
    yield from laboratory_at_home(tmp_path_factory.mktemp("own"), "own")


@pytest.mark.timeout(3600)
def test_killed_around_the_branch_of_its_own_and_its_request_it_ends_the_same(making):
    """In short, one driver around the commit that is kept, the first publication, and the request for the whole."""
    whole = observe(making, others=False)
    assert git(making.place / "remote.git", "log", "--format=%s", "main") == "first"
    assert len(whole.outcome["commits"]) > 1
    assert whole.outcome["requests"] == [("Parts", "open", "main")]
    if SOAK:
        assert not tried(making, whole, points(whole.effects))
        return
    kept = whole.effects.index("repository.keep")
    moments: list[tuple[str, Side]] = [(effect, "after") for effect in whole.effects[kept : kept + 2]]
    moments += [(effect, side) for effect in ("repository.publish", ASKED) for side in BOTH_SIDES]
    assert not tried_in_turn(making, whole, moments)


# --- finished work reopened, a loop replaced, a closed issue opened, a text approved in mid-loop (R7, R13, R17) -------


@pytest.fixture(scope="module")
def changing(tmp_path_factory) -> Iterator[Laboratory]:
    yield from laboratory_at_home(tmp_path_factory.mktemp("change"), "change")


@pytest.fixture(scope="module")
def minds_changed(changing) -> Undisturbed:
    return observe(changing, others=False)


@in_soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_killed_at_any_effect_while_minds_are_changed_it_ends_the_same(changing, minds_changed, batch):
    assert not tried(changing, minds_changed, list(points(minds_changed.effects))[batch::BATCHES])


@pytest.mark.parametrize("batch", range(BATCHES if SOAK else 1))
def test_killed_at_one_kind_after_the_other_while_minds_are_changed_it_ends_the_same(
    alone, changing, minds_changed, batch
):
    """In short, at the kinds of effect that only this driver has."""
    assert minds_changed.outcome["archives"], "streams ended and began again"
    logged = [kill for kill in kinds(minds_changed.effects) if kill[1] == "after" and kill[0].startswith(LOGGED)]
    chosen = logged[batch::BATCHES] if SOAK else [kill for kill in logged if kill not in kinds(alone.effects)]
    assert not tried_in_turn(changing, minds_changed, chosen)
