"""The acceptance cases are told in an App made of doubles."""

from __future__ import annotations

import pytest

from tests.support.world import Scene, make_scene


@pytest.fixture
def scene(tmp_path) -> Scene:
    return make_scene(tmp_path)
