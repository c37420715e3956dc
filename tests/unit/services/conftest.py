"""Every test of a service gets an App of its own, made of doubles."""

from __future__ import annotations

import pytest

from tests.support.world import Scene, make_scene


@pytest.fixture
def scene(tmp_path) -> Scene:
    return make_scene(tmp_path)
