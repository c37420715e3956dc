"""An issue of a forge, from the command that names it to done, approved by a comment alone: against both doubles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.domain.state import COLORS
from irontree.forges.gitea import GiteaForge
from irontree.forges.github import GithubForge
from irontree.ports import Forge
from irontree.services.answers.comments import look
from irontree.services.loops.loop import open_loops
from tests.support.gitea.server import gitea_server
from tests.support.gitea.stage import settings
from tests.support.github.server import serve
from tests.support.github.stage import github_settings
from tests.support.github.state import Hub
from tests.support.world import drive, nobody

BODY = "It must be there.\n\n- [ ] it is there `$ test -f greeting.txt`\n"


@dataclass
class OnForge:
    """The forge as `alice` sees it, who may write; and how the repository names it."""

    alice: Forge
    ours: Forge
    """As `irontree` sees it, without a pause between two writes."""
    section: str
    token: tuple[str, str]


def later() -> datetime:
    """The forge's clock is ahead: what is said after a question has a later time, whatever the second."""
    return datetime.now(UTC) + timedelta(minutes=1)


@contextmanager
def on_gitea(folder: Path) -> Iterator[OnForge]:
    with gitea_server(later) as server:
        ours = server.contents.account("irontree", "admin")  # who may ask about others
        alice = GiteaForge(settings(server, server.contents.account("alice", "write")))
        section = f"forge:\n  adapter: gitea\n  url: {server.url}\n  repository: palms/iron\n"
        yield OnForge(alice, GiteaForge(settings(server, ours)), section, ("GITEA_TOKEN", "token-of-irontree"))


@contextmanager
def on_github(folder: Path) -> Iterator[OnForge]:
    hub = Hub(now=f"{later():%Y-%m-%dT%H:%M:%SZ}", labels={name.casefold(): label(name) for name in COLORS})
    hub.tokens["token-alice"], hub.rights["alice"] = "alice", "write"
    with serve(hub) as server:
        ours, alice = (GithubForge(github_settings(folder, server, who)) for who in ("irontree", "alice"))
        section = f"forge:\n  adapter: github\n  url: {server.url}\n  repository: ada/engine\n"
        yield OnForge(alice, ours, section, ("GITHUB_TOKEN", "token-irontree"))


def label(name: str) -> dict[str, object]:
    return {"id": 1, "node_id": "L_1", "name": name, "color": "ededed", "description": None, "default": False}


@pytest.fixture(params=[on_gitea, on_github])
def forge(request, tmp_path, monkeypatch) -> Iterator[OnForge]:
    with request.param(tmp_path / "alice") as found:
        monkeypatch.setenv(*found.token)
        yield found


def said(results) -> list[tuple[str, str]]:
    return [(found.by, found.outcome) for found in results]


def test_an_issue_goes_from_the_command_that_names_it_to_done_approved_by_comment_alone(
    bare_shell, forge: OnForge, tmp_path
):
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\necho here > greeting.txt\n")
    agent.chmod(0o755)
    (bare_shell.root / ".mino").mkdir()
    bare_shell.configure(
        f"agent:\n  command: [{agent}]\npublish: {{remote: origin, target_branch: main}}\n{forge.section}"
    )
    assert bare_shell("init").code == 0
    forge.alice.create_issue("Greeting", BODY, ())

    refused = bare_shell("task", "#1")
    assert refused.code == 1
    assert "irontree task adopt issue-1" in refused.err
    adopted = bare_shell("task", "adopt", "issue-1")
    assert adopted.code == 0, adopted.err
    assert forge.alice.comments(1) == ()

    app = replace(open_app(bare_shell.root, origin=Origin("irontree", "comment")), forge=lambda: forge.ours)
    assert look(app) == () == look(app)
    [ours] = forge.alice.comments(1)
    assert "test -f greeting.txt" in ours.body
    assert str(agent) in ours.body

    forge.alice.post_comment(1, "/approve 00000000-00000000")
    assert said(look(app)) == [("alice", "refused")]
    reply = forge.alice.comments(1)[-1].body
    name = re.findall(r"[0-9a-f]{16}", reply)[-1]
    assert f"`/approve {name}`" in ours.body, "the wrong answer did not change what is asked"
    forge.alice.post_comment(1, f"Fine.\n\n/approve {name}")
    assert said(look(app)) == [("alice", "taken")]

    [loop] = open_loops(app)
    assert drive(app, loop.id, nobody).reason == "goal_reached"
    assert forge.alice.read_issue(1).body.strip() == BODY.strip(), "never edited"
    [prompt] = (bare_shell.root / ".mino/reports").rglob("prompt.md")
    assert "/approve" not in prompt.read_text()
