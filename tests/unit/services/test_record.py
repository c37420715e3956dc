"""What is written into an event can be read again (R1, R2)."""

from __future__ import annotations

import pytest

from irontree.domain.events import CheckupPreflightBlocked
from irontree.services.record import record
from tests.support.world import GREETING, ONE_TASK


@pytest.mark.parametrize(
    "meta",
    [
        {"reason": "x" * 200_000},
        {"output": "\x1b" * 60_000},
        {"reasons": ["only a person can judge: " + "é" * 500] * 1000},
        {"reason": "\N{PALM TREE}" * 20_000, "remedy": "y" * 20_000, "children": ["key"] * 20_000},
    ],
)
def test_whatever_somebody_had_to_say_the_event_is_written_and_read_again(scene, meta):
    scene.publish(ONE_TASK)
    state = record(scene.app, scene.state(), CheckupPreflightBlocked, blocking_check="x", meta=meta)
    assert scene.state(GREETING) == state
    assert set(meta) <= set(scene.last().meta)


def test_what_fits_is_kept_to_the_letter(scene):
    scene.publish(ONE_TASK)
    note = "long\n" * 1600
    record(scene.app, scene.state(), CheckupPreflightBlocked, blocking_check="x", meta={"note": note})
    assert scene.last().meta["note"] == note
