"""Looks at the forge for mentions: what is saved, how often the forge is asked, and what failures leave."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from irontree.app import App
from irontree.domain.agent_requests import StandingApproval
from irontree.domain.agents import Member
from irontree.domain.plan import Approval
from irontree.domain.timestamps import utc_text
from irontree.domain.toolchain import asked_marker
from irontree.errors import Busy, NotEligible, RemoteFailed, RemoteUnavailable
from irontree.services.toolchain.looking import MentionLookout
from irontree.store.memory import MemoryLock
from tests.support.issues import edit, say, write
from tests.support.world import Scene


class Asked:
    """A forge that tells what it was asked; the issues in *unreadable* cannot be read."""

    def __init__(self, forge: Any) -> None:
        self._forge, self.asked = forge, list[str]()
        self.unreadable: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._forge, name)

    def commented_since(self, moment: str) -> Any:
        self.asked.append("all")
        return self._forge.commented_since(moment)

    def read_issue(self, number: int) -> Any:
        self.asked.append(f"#{number}")
        return self._forge.read_issue(number)

    def comments_since(self, number: int, moment: str) -> Any:
        self.asked.append(f"under #{number}")
        if number in self.unreadable:
            raise RemoteFailed("0009.md is not UTF-8 text")
        return self._forge.comments_since(number, moment)


class Team:
    """A scene with a team that somebody approved, and two issues."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.requests, self.lookout = scene, scene.agent_requests, MentionLookout()
        scene.tracker.writers.add("ada")
        members = tuple(Member(name=name, command=(name,)) for name in ("coder", "tester"))
        scene.policy = scene.policy.model_copy(update={"team": members})
        scene.forge_seen = self.forge = Asked(scene.forge_seen)
        self.lock = MemoryLock(scene.clock)
        write(scene), write(scene)
        self.approve()

    def approve(self) -> None:
        by = Approval(by="ada", at=utc_text(self.scene.clock.now()), channel="command")
        self.requests.approve(StandingApproval(policy=self.scene.policy, approval=by))

    @property
    def app(self) -> App:
        return replace(self.scene.app, alive=lambda _: self.lock)

    def look(self) -> list[str]:
        return [asked.key for asked in self.lookout.look(self.app)]

    def say(self, number: int, body: str, author: str = "ada") -> None:
        say(self.scene, number, body, author=author)


@pytest.fixture
def team(scene: Scene) -> Team:
    return Team(scene)


def test_a_mention_is_kept_as_a_request_once(team: Team):
    team.say(2, "@tester does this reproduce?")
    team.say(1, "@coder, @tester: look")
    assert team.look() == ["mention-C2-1-tester", "mention-C1-1-coder", "mention-C1-1-tester"]
    assert {*team.requests.keys()} == {"mention-C2-1-tester", "mention-C1-1-coder", "mention-C1-1-tester"}
    assert team.look() == []
    assert MentionLookout().look(team.app) == ()


def test_where_nobody_commented_since_one_call_tells_it(team: Team):
    team.say(1, "@tester look"), team.say(2, "no mention")
    team.look()
    team.forge.asked.clear()
    assert team.look() == []
    assert team.forge.asked == ["all"]
    team.say(2, "@coder look")
    assert team.look() == ["mention-C2-2-coder"]
    assert team.forge.asked == ["all", "all", "#2", "under #2"]


def test_a_new_process_reads_what_came_after_the_newest_request(team: Team):
    team.say(1, "@tester look")
    team.look()
    team.scene.clock.moment += timedelta(days=30)
    team.say(2, "@tester look")
    team.look()
    team.forge.asked.clear()
    team.say(2, "@coder look")
    team.lookout = MentionLookout()
    assert team.look() == ["mention-C2-2-coder"]
    assert team.forge.asked == ["all", "#2", "under #2"]


def test_what_was_said_before_the_approval_or_without_write_access_asks_nobody(team: Team):
    team.say(1, "@tester look")
    team.approve()
    assert team.look() == []
    assert team.forge.asked == ["all"]
    team.say(1, "@tester look", author="mallory")
    assert team.look() == []
    assert team.requests.keys() == ()


def test_a_closed_issue_asks_nobody(team: Team):
    team.say(1, "@tester look")
    edit(team.scene, 1, state="closed")
    assert team.look() == []
    assert "under #1" not in team.forge.asked


def test_without_an_approval_of_todays_settings_the_forge_is_not_asked(team: Team):
    team.say(1, "@tester look")
    team.scene.policy = team.scene.policy.model_copy(update={"team": team.scene.policy.team[:1]})
    with pytest.raises(NotEligible, match="settings changed"):
        team.look()
    assert team.forge.asked == []


def test_our_answer_may_ask_another_member(team: Team):
    team.say(1, "@tester look")
    [key] = team.look()
    team.say(1, f"[tester] @coder @tester why?\n\n{asked_marker(key)}", author="us")
    assert team.look() == ["mention-C1-2-coder"]
    assert team.requests.load("mention-C1-2-coder").depth == 2


def test_after_an_outage_the_next_look_sees_it_all(team: Team):
    team.say(1, "@tester look")
    team.scene.tracker.outage = "down"
    with pytest.raises(RemoteUnavailable):
        team.look()
    team.scene.tracker.outage = None
    assert team.look() == ["mention-C1-1-tester"]


def test_an_issue_that_cannot_be_read_keeps_no_other_from_being_looked_at(team: Team):
    """However much later the other was written."""
    assert team.look() == []
    team.forge.unreadable.add(1)
    team.say(1, "@tester look")
    team.scene.clock.moment += timedelta(days=30)
    team.say(2, "@coder look")
    with pytest.raises(RemoteFailed, match="0009"):
        team.look()
    assert team.requests.keys() == ("mention-C2-1-coder",)
    team.forge.unreadable.clear()
    assert team.look() == ["mention-C1-1-tester"]


def test_while_another_process_looks_nothing_is_saved(team: Team):
    team.say(1, "@tester look")
    with team.lock.hold("look"), pytest.raises(Busy):
        team.look()
    assert team.look() == ["mention-C1-1-tester"]
