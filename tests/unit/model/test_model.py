"""Random commands, crashes and outside edits against a whole App of doubles: every promise, after every step."""

from __future__ import annotations

import os

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.unit.model.rules import Model

SOAK = os.environ.get("SOAK") == "all"
SETTINGS = hypothesis.settings(
    max_examples=2000 if SOAK else 50,
    stateful_step_count=60 if SOAK else 50,
    derandomize=not SOAK,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


@pytest.mark.timeout(3 * 3600 if SOAK else 300)
def test_every_promise_holds_whatever_people_and_the_world_do():
    run_state_machine_as_test(Model, settings=SETTINGS)
