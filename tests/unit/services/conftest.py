"""Every test of a service gets an App of its own, made of doubles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.world import Scene, make_scene

PROTOCOL = (Path(__file__).resolve().parents[3] / "docs" / "protocol.md").read_text(encoding="utf-8")
META_ROWS = re.findall(r"^\| (`[^|]+) \|", PROTOCOL.partition("### Meta")[2].partition("### Reading")[0], re.MULTILINE)
META_KEYS = {key for row in META_ROWS for key in re.findall(r"`(\w+)`", row)}


@pytest.fixture
def scene(tmp_path) -> Iterator[Scene]:
    """A scene; what it recorded by its end has no key in `meta:` that the protocol does not name."""
    scene = make_scene(tmp_path)
    yield scene
    recorded = [
        *(record for name in scene.log.streams() for record in scene.log.read(name).records),
        *(record for name in scene.loops.ids() for record in scene.loops.read(name).records),
    ]
    assert {key for record in recorded for key in record.meta} <= META_KEYS
