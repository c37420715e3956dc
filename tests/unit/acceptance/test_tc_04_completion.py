"""Acceptance cases TC-4.x: acceptance, aggregation, and closing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.domain.state import Phase
from irontree.errors import NotEligible, RemoteUnavailable
from irontree.services.execution.checkup import Decider, accept, aggregate
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from tests.support.world import MANUAL_TASK, ONE_TASK, PARTS, SPEC, Scene


def pending(scene: Scene) -> Scene:
    scene.publish(MANUAL_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    return scene


def test_tc_4_1_an_acceptance_that_cannot_be_published_is_not_recorded(scene):
    pending(scene).repository.failures += [RemoteUnavailable("no route")] * 3
    state = accept(scene.app, 1, Decider("ada"))
    assert scene.last().event.event == "checkup_accept_publication_failed"
    assert (state.phase, state.pass_fail_outcome, state.completion_basis) == (Phase.PENDING, None, None)
    assert state.code_publication_state == "local_only"
    assert accept(scene.app, 1, Decider("ada")).completion_basis == "accepted"


def test_tc_4_2_what_does_not_wait_cannot_be_accepted(scene):
    scene.publish(ONE_TASK)
    with pytest.raises(NotEligible, match="nothing waits for acceptance"):
        accept(scene.app, 1, Decider("ada"))
    assert scene.events() == ["task_published"]


def test_tc_4_3_a_parent_with_a_child_that_is_not_done_is_refused_with_a_list(scene):
    scene.publish(SPEC)
    number = scene.number(PARTS)
    with pytest.raises(NotEligible, match="parts-part-one, parts-part-two not done"):
        aggregate(scene.app, number)
    assert scene.events(PARTS) == ["task_published"]


@pytest.mark.parametrize(("mode", "state"), [("manual", "open"), ("auto", "closed")])
def test_tc_4_4_an_issue_that_a_person_is_to_close_stays_open(scene, mode, state):
    scene.preferences = replace(scene.preferences, close_on_done=mode)
    scene.drive(scene.start(ONE_TASK))
    assert (scene.state().done, scene.tracker.issues[1].state) == (True, state)
