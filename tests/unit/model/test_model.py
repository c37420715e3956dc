"""Random commands, crashes and outside edits against a whole App of doubles: every promise, after every step."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.support.soak import SOAK
from tests.unit.model.rules import Model

SETTINGS = hypothesis.settings(
    max_examples=1500 if SOAK else 8,
    stateful_step_count=80 if SOAK else 40,
    derandomize=not SOAK,  # the same steps each time, unless somebody goes looking
    report_multiple_bugs=False,
    suppress_health_check=list(hypothesis.HealthCheck),
)


@pytest.mark.timeout(4 * 3600 if SOAK else 600)
def test_every_promise_holds_whatever_people_and_the_world_do():
    run_state_machine_as_test(Model, settings=SETTINGS)
