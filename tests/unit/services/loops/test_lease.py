"""Nothing takes its tasks away from a loop at work, whoever drives it (protocol, Loop lease)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from irontree.errors import Busy
from irontree.ports import LeftLease
from irontree.services.answers.approve import adopt, approve, approve_again, approve_stepwise
from irontree.services.loops.loop import read_loop
from irontree.services.proposals.sources import propose
from tests.support.issues import CLEAR, authorise, edit, resolved, write
from tests.support.world import ONE_TASK, SPEC, Scene

OTHER = "2026-04-21-0000-00ff00"


def put(scene: Scene, text: str) -> object:
    return scene.start(text)


def put_stepwise(scene: Scene, text: str) -> object:
    proposal = propose(scene.app, scene.write(text), loop_mode=False)
    return approve_stepwise(scene.app, proposal, proposal.name, "ada")


def answer(scene: Scene, text: str) -> object:
    return approve_again(scene.app, 1, propose(scene.app, scene.write(text)).name, "ada")


Act = Callable[[Scene, str], object]
WORDS_FOR_A_DOCUMENT = pytest.mark.parametrize("act", [put, put_stepwise, answer])


@WORDS_FOR_A_DOCUMENT
def test_no_document_is_approved_beside_another_tools_living_loop(scene: Scene, act: Act):
    scene.start(ONE_TASK)
    scene.lease.other = LeftLease(OTHER, f"loop {OTHER}, process 7")
    plans = scene.plans.revisions()
    with pytest.raises(Busy, match="another tool's loop is at work here: loop 2026"):
        act(scene, SPEC)
    assert scene.plans.revisions() == plans


@WORDS_FOR_A_DOCUMENT
def test_a_loop_that_another_tool_left_is_taken_over_before_it_is_replaced(scene: Scene, act: Act):
    loop = scene.start(ONE_TASK)
    scene.lease.other, scene.lease.is_old = LeftLease(loop.id, f"loop {loop.id}, process 7"), True
    with pytest.raises(Busy, match="stale loop lease detected") as refused:
        act(scene, SPEC)
    assert refused.value.remedy == f"`irontree resume {loop.id}` asks whether to take it over"
    assert read_loop(scene.app, loop.id).is_open


def test_a_stale_lease_of_another_loop_stops_no_approval_whose_own_loop_asks_about_it(scene: Scene):
    scene.lease.other, scene.lease.is_old = LeftLease(OTHER, f"loop {OTHER}, process 7"), True
    assert scene.start(ONE_TASK).is_open


@pytest.mark.parametrize("approve", [approve, approve_stepwise])
@pytest.mark.parametrize("is_old", [False, True])
def test_issues_are_not_approved_out_of_a_loop_that_another_tool_has(scene: Scene, approve, is_old: bool):
    first, second = write(scene), write(scene, "Closing", "- [ ] closed `$ has close.txt`\n")
    loop = authorise(scene, first)
    scene.lease.other, scene.lease.is_old = LeftLease(loop.id, f"loop {loop.id}, process 7"), is_old
    found = resolved(scene, first, second)
    with pytest.raises(Busy, match="stale loop lease detected" if is_old else "another tool's loop"):
        approve(scene.app, found, found.name, "ada")
    assert second not in scene.log.streams()
    assert read_loop(scene.app, loop.id).is_open


@pytest.mark.parametrize("holds", ["ours", "another tool's", "a stale one"])
def test_an_issue_of_a_loop_at_work_is_not_taken_in_anew_under_it(scene: Scene, holds: str):
    loop = authorise(scene, write(scene))
    edit(scene, 1, body=f"{CLEAR}- [ ] and more (manual)\n")
    if holds != "ours":
        scene.lease.other, scene.lease.is_old = LeftLease(loop.id, "process 7"), holds == "a stale one"
    with scene.lease.hold(loop.id) if holds == "ours" else scene.driver.hold("adopt"), pytest.raises(Busy):
        adopt(scene.app, 1)
    assert scene.log.archives(1) == ()
