"""`publish.mode: pull_request` and a branch of the plan's own: one request, when the root is aggregated (R9, R15)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.decide import Aggregate, Finalize, Run, Verify
from irontree.errors import RemoteFailed
from irontree.ports import PullRequest
from irontree.services.answers.approve import approve
from irontree.services.consistency.audit import audit
from irontree.services.execution.steps import catch_up, perform
from tests.support.own_branch import propose_on_own_branch
from tests.support.requests import Refusing
from tests.support.watching import Killed, Watched, dying
from tests.support.world import Scene, does, make_scene

NAME = "hotl/greeting"
PARTS = """\
# Toy

## Parts

Two things to say.

### Part one

- [ ] one exists `$ has one.txt`

### Part two

Depends on: Part one

- [ ] two exists `$ has two.txt`
"""
KEYS = ("parts-part-one", "parts-part-two")


@pytest.fixture
def scene(tmp_path) -> Scene:
    made = make_scene(tmp_path)
    made.agent = ScriptedAgent(does(one_txt="1"), does(two_txt="2"))
    people = {"mode": "pull_request", "reviewers": ("grace",), "assignees": ("bob",)}
    made.policy = made.policy.model_copy(update={"publish": made.policy.publish.model_copy(update=people)})
    made.write(PARTS)
    proposal = propose_on_own_branch(made.app)
    approve(made.app, proposal, proposal.name, "ada")
    return made


def requests(scene: Scene) -> tuple[PullRequest, ...]:
    return tuple(scene.tracker.pulls.values())


def parts_done(scene: Scene) -> None:
    for key in KEYS:
        for step in (Run(key), Verify(key), Finalize(key)):
            perform(scene.app, step)
            assert requests(scene) == (), "no step is proposed by itself"


def aggregated(scene: Scene) -> None:
    parts_done(scene)
    perform(scene.app, Aggregate("parts"))


def test_one_request_for_the_whole_branch_is_opened_when_the_root_is_aggregated(scene):
    aggregated(scene)
    perform(scene.app, Finalize("parts"))
    [opened] = requests(scene)
    assert (opened.head_branch, opened.base_branch, opened.draft) == (NAME, "main", False)
    assert opened.head_sha == scene.repository.remote[NAME]
    assert opened.title == "Parts"
    assert "Two things to say." in opened.body
    assert f"- #{scene.number(KEYS[0])} Part one" in opened.body
    assert scene.tracker.requested == {opened.number: ("grace",)}
    assert scene.tracker.assignees[opened.number] == ("bob",)
    assert audit(scene.app) == ()


def test_looking_again_opens_none_and_asks_nobody_again(scene):
    aggregated(scene)
    scene.tracker.requested.clear()
    perform(scene.app, Finalize("parts"))
    catch_up(scene.app)
    assert len(requests(scene)) == 1
    assert scene.tracker.requested == {}


@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_around_it_the_next_driver_opens_it_once(scene, side):
    parts_done(scene)
    forge = scene.forge_seen
    scene.forge_seen = Watched(forge, ("create_pull_request",), dying(side))
    with pytest.raises(Killed):
        perform(scene.app, Aggregate("parts"))
    scene.forge_seen = forge
    catch_up(scene.app)
    assert len(requests(scene)) == 1
    assert scene.deliveries.load(scene.number("parts")).failures == ()
    assert scene.tracker.requested == {requests(scene)[0].number: ("grace",)}


def test_a_forge_that_refuses_stops_no_work_and_it_is_tried_again(scene):
    parts_done(scene)
    forge = scene.forge_seen
    scene.forge_seen = Refusing(forge, "create_pull_request", RemoteFailed("not today"))
    perform(scene.app, Aggregate("parts"))
    assert scene.deliveries.load(scene.number("parts")).failures == ("the branch could not be proposed: not today",)
    scene.forge_seen = forge
    catch_up(scene.app)
    assert len(requests(scene)) == 1


def test_one_that_somebody_has_opened_before_is_taken(scene):
    parts_done(scene)
    made = scene.forge_seen.create_pull_request(head=NAME, base="main", title="mine", body="mine", draft=True)
    perform(scene.app, Aggregate("parts"))
    assert [request.number for request in requests(scene)] == [made.number]
    assert requests(scene)[0].title == "mine"


def test_one_that_somebody_closed_with_all_of_the_work_is_not_opened_again(scene):
    parts_done(scene)
    made = scene.forge_seen.create_pull_request(head=NAME, base="main", title="mine", body="mine", draft=False)
    scene.forge_seen.edit_pull_request(made.number, state="closed")
    perform(scene.app, Aggregate("parts"))
    assert len(requests(scene)) == 1


def test_what_is_merged_already_is_not_proposed(scene):
    parts_done(scene)
    scene.repository.remote["main"] = scene.repository.remote[NAME]
    perform(scene.app, Aggregate("parts"))
    assert requests(scene) == ()
    assert scene.deliveries.load(scene.number("parts")).failures == ()


def test_without_requests_nothing_is_opened(tmp_path):
    direct = make_scene(tmp_path)
    direct.agent = ScriptedAgent(does(one_txt="1"), does(two_txt="2"))
    direct.write(PARTS)
    proposal = propose_on_own_branch(direct.app)
    approve(direct.app, proposal, proposal.name, "ada")
    aggregated(direct)
    assert requests(direct) == ()
