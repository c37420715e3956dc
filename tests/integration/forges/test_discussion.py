"""A discussion over HTTP, each step of it in a process of its own: asked, proposed and approved once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from irontree.agents.scripted import ScriptedAgent, writes
from irontree.app import App
from irontree.domain.agent_requests import StandingApproval
from irontree.domain.agents import Member
from irontree.domain.commands import Issues
from irontree.domain.plan import Approval
from irontree.ports import Label
from irontree.services.proposals.sources import resolve
from irontree.services.toolchain.asking import answer_request
from irontree.services.toolchain.looking import DiscussionLookout
from irontree.store.memory import MemoryLock
from tests.support.calls import counted
from tests.support.remote import KINDS, RemoteScene, remote_scene

LONG_AGO = "2026-01-01T00:00:00Z"


def form_team(work: RemoteScene) -> None:
    """Two members, each of which claims a part, and the approval that they are asked."""
    scene = work.scene
    team = tuple(Member(name=name, command=(name,)) for name in ("quant", "coder"))
    scene.policy = scene.policy.model_copy(update={"team": team, "discussion": "everybody"})
    for name in ("quant", "coder"):
        claim = {"title": f"Part of {name}", "criteria": [f"it is there `$ has {name}.txt`"]}
        said = json.dumps({"position": "I can.", "claims": [claim]})
        scene.reviewers[name] = ScriptedAgent(writes(".irontree-answer.json", said))
    by = Approval(by="ada", at=LONG_AGO, channel="command")
    scene.agent_requests.approve(StandingApproval(policy=scene.policy, approval=by))


def process(work: RemoteScene) -> App:
    locks: dict[str, MemoryLock] = {}
    app = work.another_process()
    return replace(app, alive=lambda name: locks.setdefault(name, MemoryLock(work.scene.clock)))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_issue_is_talked_over_and_divided_over_http(kind: str, tmp_path: Path):
    with remote_scene(kind, tmp_path) as work:
        form_team(work)
        forge = work.another_process().forge()
        forge.ensure_labels([Label("type/feat", "1d76db")])
        number = forge.create_issue("Averages", "Trade on two averages.\n", ["type/feat"]).number
        while asked := DiscussionLookout().look(process(work)).asked:
            for request in asked:
                answer_request(process(work), request.key)
        forge = work.another_process().forge()
        assert [one.body.split()[0] for one in forge.comments(number)] == ["[quant]", "[coder]", "The"]
        quiet, app = DiscussionLookout(), process(work)
        quiet.look(app), quiet.look(app)
        with counted(work.remote.server) as calls:
            quiet.look(app)
        assert calls.total - calls.free <= 2, calls
        name = resolve(process(work), Issues((number,)), f"#{number}").name
        forge.post_comment(number, f"/approve {name}")
        assert len(quiet.look(app).loop_ids) == 1
        assert work.scene.world.children["averages"] == ("part-of-quant", "part-of-coder")
        parts = [work.another_process().forge().read_issue(number + each) for each in (1, 2)]
        assert [each and each.title for each in parts] == ["Part of quant", "Part of coder"]
