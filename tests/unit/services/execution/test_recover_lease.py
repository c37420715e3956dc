"""The lease of a loop that nobody drives: taken over when that is certain, else when a person confirms it (lease)."""

from __future__ import annotations

import pytest

from irontree.domain.decide import Halt
from irontree.domain.state import Phase
from irontree.errors import Busy
from irontree.ports import LeftLease
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.steps import STALE_LEASE, catch_up, recover_lease
from irontree.services.loops import loop as loops
from tests.support.watching import Killed, Watched, dying
from tests.support.world import ONE_TASK, Scene, nobody, prepared


def other_loop(scene: Scene) -> loops.Loop:
    """A loop over another document that was running when its process died."""
    scene.start(ONE_TASK)
    other = {"intent": "OTHER.md", "query": "OTHER.md", "budget": 50}
    return loops.start(scene.app, "2026-04-21-0000-00ff00", ("another-task",), **other)


def stale(scene: Scene, loop_id: str = "2026-04-21-0000-00ff00") -> None:
    scene.lease.other, scene.lease.is_old = LeftLease(loop_id, f"loop {loop_id}, process 7"), True


def test_without_a_lease_of_others_the_way_is_clear(scene):
    loop = scene.start(ONE_TASK)
    assert recover_lease(scene.app, loop.id) is None


def test_a_stale_lease_of_another_tool_stops_the_loop_with_a_question(scene):
    loop = scene.start(ONE_TASK)
    stale(scene)
    assert scene.drive(loop, nobody) == Halt("blocked", "greeting")
    state = scene.state()
    assert (state.phase, state.blocking_check, scene.lease.other is not None) == (Phase.BLOCKED, STALE_LEASE, True)
    assert "stale loop lease detected" in scene.last().meta["reason"]
    assert scene.loop_events(loop) == ["loop_started", "loop_halted"]


def test_confirmed_it_is_taken_over_and_the_loop_goes_on_to_its_end(scene):
    loop = scene.start(ONE_TASK)
    stale(scene)
    assert scene.drive(loop, prepared(Answer("go-on", "ada"))).reason == "goal_reached"
    assert scene.lease.other is None
    assert scene.state().done


def test_killed_before_the_answer_is_recorded_the_lease_that_is_asked_about_is_still_there(scene):
    loop = scene.start(ONE_TASK)
    stale(scene)
    scene.drive(loop, nobody)
    scene.log = Watched(scene.log, ["append"], dying("before"))
    with pytest.raises(Killed):
        answer_issue(scene.app, 1, Answer("go-on", "ada"), loop.id)
    assert (scene.lease.other is not None, scene.state().blocking_check) == (True, STALE_LEASE)


def test_killed_behind_it_the_same_is_asked_again(scene):
    loop = scene.start(ONE_TASK)
    stale(scene)
    scene.drive(loop, nobody)
    lease, scene.lease = scene.lease, Watched(scene.lease, ["override"], dying("before"))
    with pytest.raises(Killed):
        answer_issue(scene.app, 1, Answer("go-on", "ada"), loop.id)
    scene.lease = lease
    assert scene.drive(loop, nobody) == Halt("blocked", "greeting")
    assert scene.events()[-2:] == ["checkup_unblocked", "checkup_preflight_blocked"]
    assert scene.drive(loop, prepared(Answer("go-on", "ada"))).reason == "goal_reached"


def test_the_previous_loop_is_halted_by_the_takeover(scene):
    previous = other_loop(scene)
    loop = scene.start(ONE_TASK)
    stale(scene, previous.id)
    scene.drive(loop, prepared(Answer("go-on", "ada")))
    events = [record.event for record in scene.loops.read(previous.id).records]
    assert [(event.event, getattr(event, "halt_reason", None)) for event in events] == [
        *(("loop_started", None), ("loop_halted", "stale_takeover")),
    ]
    assert loops.read_loop(scene.app, previous.id).entity.status == "halted"


def test_a_loop_that_was_taken_over_can_be_resumed(scene):
    loop = scene.start(ONE_TASK)
    loops.halt(scene.app, loop.id, Halt("stale_takeover"))
    assert scene.drive(loop).reason == "goal_reached"
    assert scene.loop_events(loop) == ["loop_started", "loop_halted", "loop_resumed", "loop_completed"]


def test_what_a_dead_process_of_ours_left_of_another_loop_is_taken_over_unasked(scene):
    previous = other_loop(scene)
    loop = scene.start(ONE_TASK)
    scene.lease.own = LeftLease(previous.id, f"loop {previous.id}, process 7")
    assert scene.drive(loop).reason == "goal_reached"
    assert loops.read_loop(scene.app, previous.id).entity.halt_reason == "stale_takeover"


def test_what_it_left_of_the_same_loop_is_simply_gone_on_with(scene):
    loop = scene.start(ONE_TASK)
    scene.lease.own = LeftLease(loop.id, "process 7")
    scene.drive(loop)
    assert scene.loop_events(loop) == ["loop_started", "loop_completed"]


def test_a_previous_loop_that_is_not_known_here_keeps_nothing_from_going_on(scene):
    loop = scene.start(ONE_TASK)
    stale(scene, "2020-01-01-0000-000000")
    assert scene.drive(loop, prepared(Answer("go-on", "ada"))).reason == "goal_reached"
    assert scene.loops.ids() == (loop.id,)


def test_a_living_loop_of_another_tool_is_never_taken_over(scene):
    loop = scene.start(ONE_TASK)
    scene.lease.other = LeftLease("2026-04-21-0000-00ff00", "loop 2026-04-21-0000-00ff00, process 7")
    with pytest.raises(Busy, match="another tool's loop is active"):
        scene.drive(loop)
    assert scene.events() == ["task_published"]


def test_what_a_loop_left_that_had_ended_is_removed_with_the_next_command(scene):
    """Its process was shot between its last event and the end of its lease."""
    loop = scene.start(ONE_TASK)
    assert scene.drive(loop).reason == "goal_reached"
    scene.lease.own = LeftLease(loop.id, "loop, process 7")
    catch_up(scene.app)
    assert scene.lease.left() is None


def test_what_an_open_loop_left_stays_until_it_is_taken_over(scene):
    loop = scene.start(ONE_TASK)
    scene.lease.own = left = LeftLease(loop.id, "loop, process 7")
    catch_up(scene.app)
    assert scene.lease.left() == left
