"""What the contract suites of a port share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from irontree.ports import Forge
from tests.support.forges import Stage
from tests.support.stages import STAGES


@pytest.fixture(params=sorted(STAGES))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Each forge in turn."""
    with STAGES[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture
def forge(stage: Stage) -> Forge:
    """The forge as our account sees it."""
    return stage.ours
