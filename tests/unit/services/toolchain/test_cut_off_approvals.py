"""An approval of proposed parts that a crash cut off: what was approved is gone on with, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from irontree.domain.agents import Member
from irontree.services.toolchain.looking import DiscussionLookout, Talked
from tests.support.issues import edit, say
from tests.support.talking import DRAFT, Team
from tests.support.watching import Killed, Watched, dying
from tests.support.world import Scene


@pytest.fixture
def team(scene: Scene) -> Team:
    return Team(scene)


def test_an_approval_that_was_cut_off_is_gone_on_with(team: Team):
    team.talk()
    say(team.scene, 1, f"/approve {team.name()}", author="ada")
    dies = replace(team.app, plans=Watched(team.scene.plans, ("save",), dying("after")))
    with pytest.raises(Killed):
        team.lookout.look(dies)
    [loop_id] = DiscussionLookout().look(team.app).loop_ids
    assert team.scene.loops.read(loop_id).records
    assert team.scene.world.children["averages"] == ("strategy", "risk-limit")
    assert DiscussionLookout().look(team.app) == Talked()


def cut_off_approval(team: Team, port: str, method: str) -> None:
    """Approve the proposal in a process that dies after the first effect of this kind."""
    team.talk()
    say(team.scene, 1, f"/approve {team.name()}", author="ada")
    if port == "plans":
        dies = replace(team.app, plans=Watched(team.scene.plans, (method,), dying("after")))
    else:
        tell = dying("after")
        dies = replace(team.app, forge=lambda: Watched(team.scene.forge_seen, (method,), tell))
    with pytest.raises(Killed):
        team.lookout.look(dies)
    team.lookout = DiscussionLookout()


def change_issue(team: Team) -> None:
    edit(team.scene, 1, body="evil")


def change_settings(team: Team) -> None:
    evil = Member(name="scribe", command=("evil",), discusses=False)
    team.scene.policy = team.scene.policy.model_copy(update={"team": (*team.scene.policy.team[:2], evil)})
    team.approve_team()


@pytest.mark.parametrize("change", [change_issue, change_settings])
def test_an_approval_that_was_cut_off_does_not_approve_what_changed_since(team: Team, change: Callable[[Team], None]):
    cut_off_approval(team, "plans", "save")
    change(team)
    assert team.look() == Talked(proposed=(DRAFT,))
    assert "evil" not in "".join(plan.model_dump_json() for plan in team.scene.world.plans.values())
    assert f"`/approve {team.name()}`" in team.newest()
    assert team.look().loop_ids == ()
    [loop_id] = team.say(f"/approve {team.name()}").loop_ids
    assert team.scene.loops.read(loop_id).records


def test_an_approval_that_was_cut_off_goes_on_with_the_sealed_answers_and_not_with_another_draft(team: Team):
    cut_off_approval(team, "plans", "save")
    team.requests.save_draft(1, team.requests.draft(1).replace("has risk.txt", "evil"))
    assert team.look().loop_ids
    assert "evil" not in "".join(plan.model_dump_json() for plan in team.scene.world.plans.values())


def test_a_publication_that_was_cut_off_is_gone_on_with(team: Team):
    cut_off_approval(team, "forge", "create_issue")
    assert team.look().loop_ids
    assert team.scene.world.children["averages"] == ("strategy", "risk-limit")


def test_what_changed_after_part_of_it_was_published_is_said_once_and_nothing_goes_on(team: Team):
    cut_off_approval(team, "forge", "create_issue")
    change_issue(team)
    assert team.look() == DiscussionLookout().look(team.app) == Talked()
    [told] = [body for body in team.comments() if "it was cut off when part of it was published" in body]
    assert "`irontree task '#1'` shows what it is now" in told
    assert team.scene.loops.ids() == ()
