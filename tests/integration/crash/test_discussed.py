"""Killed around any effect of a discussion: each member answers once, and one comment proposes what they claim.

`SOAK=all` tries every point; else every third is, so both sides in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from signal import SIGKILL

import pytest

from irontree.app import App
from irontree.services.work.standing import requests
from tests.integration.crash.laboratory import Laboratory, faults, laboratory
from tests.support.soak import SOAK
from tests.support.watching import Side

SIDES: tuple[Side, ...] = ("before", "after")


@pytest.fixture(scope="module")
def talking(tmp_path_factory) -> Iterator[Laboratory]:
    folder = tmp_path_factory.mktemp("discussed")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("cache", "state"):
            patch.setenv(f"XDG_{name.upper()}_HOME", str(folder / "place" / name))
        with laboratory(folder, "discussed") as made:
            yield made


def points(effects: tuple[str, ...]) -> list[tuple[int, Side]]:
    every = [(number, side) for number in range(1, len(effects) + 1) for side in SIDES]
    return every if SOAK else every[::3]


def times_asked(lab: Laboratory) -> int:
    path = lab.place / "asked"
    return len(path.read_text().splitlines()) if path.exists() else 0


def answers(app: App) -> int:
    return sum(request.answer is not None for request in requests(app))


def differences(lab: Laboratory, answered_before: int, asked_before: int) -> list[str]:
    """What is not as it has to be after the life that followed one that was killed."""
    app = lab.open()
    found = faults(app)
    begun = [comment.body.split()[0] for comment in app.forge().comments(1)]
    if begun != ["[quant]", "[coder]", "The"]:
        found.append(f"comments begin with {begun}")
    if {request.state for request in requests(app)} != {"done"}:
        found.append("not all is done")
    if times_asked(lab) - asked_before > 2 - answered_before:
        found.append(f"asked {times_asked(lab)} times, {asked_before} of them before the kill")
    if (app.agent_requests.draft(1) or "").count("## Part of") != 2:
        found.append("the document is not whole")
    if app.repository.lost_files():
        found.append("something of the back-up is lost")
    return found


@pytest.mark.timeout(300)
def test_killed_around_any_effect_it_is_talked_over_once(talking):
    talking.restore()
    whole = talking.live()
    assert whole.code == 0, whole.said
    assert differences(talking, 0, 0) == []
    kinds = list(whole.effects)
    assert kinds.index("agent_requests.save_draft") < len(kinds) - kinds[::-1].index("forge.post_comment") - 1
    wrong = {}
    for number, side in points(whole.effects):
        talking.restore()
        killed = talking.live((number, side))
        assert killed.code == -SIGKILL, killed.said
        before = answers(talking.open()), times_asked(talking)
        ended = talking.live()
        if found := differences(talking, *before) if ended.code == 0 else [ended.said]:
            wrong[f"{side} {number} {whole.effects[number - 1]}"] = found
    assert not wrong
