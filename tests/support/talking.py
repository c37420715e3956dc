"""A team that talks a new issue over, as tests drive it."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

from irontree.agents.scripted import ScriptedAgent, writes
from irontree.app import App
from irontree.domain.agent_requests import StandingApproval
from irontree.domain.agents import Member
from irontree.domain.commands import Issues
from irontree.domain.plan import Approval
from irontree.domain.timestamps import utc_text
from irontree.services.proposals.sources import resolve
from irontree.services.toolchain.asking import answer_request
from irontree.services.toolchain.looking import DiscussionLookout, Talked
from irontree.store.memory import MemoryLock
from tests.support.issues import say, write
from tests.support.world import Scene

DRAFT = ".mino/drafts/issue-1.md"
RISK = {"title": "Risk limit", "task": "Stop.", "criteria": ["it stops `$ has risk.txt`"]}
STRATEGY = {
    "title": "Strategy",
    "kind": "impl",
    "criteria": ["it trades `$ has strategy.txt`"],
    "depends": ["Risk limit"],
}


def answer(*claims: dict[str, Any], **changes: Any) -> str:
    return json.dumps({"position": "I can do that.", "claims": claims} | changes)


def says(*answers: str) -> ScriptedAgent:
    return ScriptedAgent(*(writes(".irontree-answer.json", each) for each in answers))


class Team:
    """A scene with two members that discuss, and issue 1, by ada."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.requests, self.lookout = scene, scene.agent_requests, DiscussionLookout()
        scene.tracker.writers |= {"ada", "quant-bot"}
        team = (
            Member(name="quant", command=("quant",), account="quant-bot"),
            Member(name="coder", command=("coder",), capabilities=("Python",)),
            Member(name="scribe", command=("scribe",), discusses=False),
        )
        scene.policy = scene.policy.model_copy(update={"team": team, "discussion": "everybody"})
        scene.reviewers = {"quant": says(answer(STRATEGY)), "coder": says(answer(RISK))}
        self.locks: defaultdict[str, MemoryLock] = defaultdict(lambda: MemoryLock(scene.clock))
        self.approve_team()
        write(scene, "Averages", "Trade on two averages.", author="ada", labels=["type/feat"])

    def approve_team(self) -> None:
        by = Approval(by="ada", at=utc_text(self.scene.clock.now()), channel="command")
        self.requests.approve(StandingApproval(policy=self.scene.policy, approval=by))

    @property
    def app(self) -> App:
        return replace(self.scene.app, alive=self.locks.__getitem__)

    def look(self) -> Talked:
        return self.lookout.look(self.app)

    def talk(self) -> list[str]:
        """Have members asked until nobody is any more; the keys of their requests."""
        asked = []
        while new := self.look().asked:
            for each in new:
                answer_request(self.app, each.key)
                asked.append(each.key)
        return asked

    def comments(self) -> list[str]:
        return [comment.body for comment in self.scene.forge_seen.comments(1)]

    def newest(self) -> str:
        return self.comments()[-1]

    def say(self, body: str, author: str = "ada") -> Talked:
        say(self.scene, 1, body, author=author)
        return self.look()

    def name(self) -> str:
        return resolve(self.app, Issues((1,)), "#1").name
