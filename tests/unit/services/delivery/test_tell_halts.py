"""Where a loop halts at an issue whose own event was silent, the issue is told (R10)."""

from __future__ import annotations

from irontree.domain.comments import status_problems
from irontree.domain.decide import Halt
from irontree.services.answers.approve import adopt
from irontree.services.delivery.deliver import deliver, tell_halts, tell_halts_if_free
from irontree.services.execution.checkup import Decider, accept
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.loops import loop as loops
from tests.support.issues import CLEAR, authorise, edit, write
from tests.support.watching import Watched
from tests.support.world import GREETING, MANUAL_TASK, ONE_TASK, Scene


def halted(scene: Scene) -> Scene:
    """A scene whose loop has halted at an issue with a damaged log, which nobody has told of yet."""
    loop = scene.start(ONE_TASK)
    run(scene.app, 1)
    del scene.log.files(1).files["0002-run-started.yml"]
    loops.halt(scene.app, loop.id, Halt("blocked", GREETING))
    return scene


def test_a_halt_at_a_silent_event_is_told_once(scene):
    halted(scene)
    for _ in range(2):
        tell_halts(scene.app, scene.world)
    (comment,) = scene.comments()
    assert comment.startswith("⏸️ loop halted — #1\n")
    assert "Reason: Events are missing or cannot be read: sequence 2" in comment
    assert status_problems(comment) == ()


def test_a_halt_at_an_event_that_posted_its_own_comment_is_not_told_again(scene):
    loop = scene.start(MANUAL_TASK)
    for step in (run, verify):
        step(scene.app, 1)
        deliver(scene.app, scene.world, 1)
    loops.halt(scene.app, loop.id, Halt("pending_acceptance", GREETING))
    tell_halts(scene.app, scene.world)
    assert len(scene.comments()) == 1


def test_a_loop_that_goes_on_tells_nothing(scene):
    halted(scene)
    loops.resume(scene.app, scene.loops.ids()[0])
    tell_halts(scene.app, scene.world)
    assert scene.comments() == []


def test_a_halt_that_was_answered_before_the_loop_went_on_is_not_told(scene):
    loop = scene.start(MANUAL_TASK)
    for step in (run, verify):
        step(scene.app, 1)
        deliver(scene.app, scene.world, 1)
    loops.halt(scene.app, loop.id, Halt("pending_acceptance", GREETING))
    accept(scene.app, 1, Decider("ada"))
    tell_halts(scene.app, scene.world)
    assert len(scene.comments()) == 1


def test_a_halt_of_the_loop_itself_belongs_to_no_issue(scene):
    loop = scene.start(ONE_TASK)
    loops.halt(scene.app, loop.id, Halt("protocol_gap"))
    tell_halts(scene.app, scene.world)
    assert scene.comments() == []


def test_the_same_halt_after_going_on_without_an_event_is_not_told_again(scene):
    halted(scene)
    tell_halts(scene.app, scene.world)
    loop_id = scene.loops.ids()[0]
    loops.resume(scene.app, loop_id)
    loops.halt(scene.app, loop_id, Halt("blocked", GREETING))
    tell_halts(scene.app, scene.world)
    assert len(scene.comments()) == 1


def test_an_outage_is_said_and_what_is_due_comes_later(scene):
    halted(scene)
    scene.tracker.outage = "503"
    for _ in range(2):
        tell_halts(scene.app, scene.world)
    assert scene.deliveries.load(1).failures == ("comment_post_failed: loop halted: 503",)
    scene.tracker.outage = None
    tell_halts(scene.app, scene.world)
    assert len(scene.comments()) == 1
    assert scene.deliveries.load(1).failures == ()


def test_a_halt_that_was_told_costs_the_forge_nothing_any_more(scene):
    """R9"""
    halted(scene)
    tell_halts(scene.app, scene.world)
    asked = []
    scene.forge_seen = Watched(scene.forge_seen, ["comments", "post_comment"], lambda call, _: asked.append(call))
    tell_halts(scene.app, scene.world)
    assert asked == []


def test_a_halt_at_an_issue_that_was_taken_in_anew_is_told_although_its_stream_begins_at_one_again(scene):
    """Each of the two halts is at sequence 1."""
    write(scene)
    loop = authorise(scene, 1)
    for text in ("kind", "polite"):
        edit(scene, 1, body=f"{CLEAR}- [ ] it is {text} `$ has greet.txt hello`\n")
        adopt(scene.app, 1)
        loops.halt(scene.app, loop.id, Halt("reapproval_required", GREETING))
        tell_halts(scene.app, scene.world)
        loops.resume(scene.app, loop.id)
    assert [body.splitlines()[0] for body in scene.comments()] == ["⏸️ loop halted — #1"] * 2


def test_nothing_waits_for_a_comment_longer_than_it_may(scene):
    halted(scene)
    with scene.driver.hold("somebody else"):
        tell_halts_if_free(scene.app, "loop", wait_seconds=0)
    assert scene.comments() == []
    tell_halts_if_free(scene.app, "loop", wait_seconds=0)
    assert len(scene.comments()) == 1
