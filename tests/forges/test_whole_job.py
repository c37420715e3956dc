"""The whole job with real git and a real Gitea: pushed, or proposed, reviewed and merged there."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.domain.decide import Finalize, Run, Verify
from irontree.services.answers.approve import approve
from irontree.services.execution.steps import catch_up, perform
from irontree.services.proposals.sources import propose
from irontree.services.record import read_world
from tests.integration.crash.laboratory import lay_out
from tests.support.gitea.real_stage import OWNER, RealGiteaStage
from tests.support.repositories import git

SPEC = """\
# Toy

## Greeting

- [ ] it says hello `$ grep -q hello greet.txt`
"""


def opened(stage: RealGiteaStage, place: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> App:
    """The sample repository with its remote and its issues on the server, its document approved."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.setenv("GITEA_TOKEN", stage.server.tokens["irontree"])
    root = lay_out(place, "echo hello, attempt $IRONTREE_ATTEMPT >> greet.txt", SPEC)
    there = stage.server.url.replace("://", f"://irontree:{stage.server.tokens['irontree']}@")
    git(root, "remote", "set-url", "origin", f"{there}/{OWNER}/{stage.name}.git")
    git(root, "push", "--quiet", "--force", "origin", "main")
    config = root / ".mino" / "config.yml"
    text = config.read_text().replace("publish:\n", f"publish:\n  mode: {mode}\n")
    config.write_text(
        f"{text}\nforge: {{adapter: gitea, url: '{stage.server.url}', repository: {OWNER}/{stage.name}}}\n"
    )
    app = open_app(root, origin=Origin("ada", "command"))
    proposal = propose(app, root / "SPEC.md")
    approve(app, proposal, proposal.revision, "ada")
    return app


def work(app: App) -> None:
    perform(app, Run("greeting"))
    perform(app, Verify("greeting"))


def look(app: App) -> str:
    with app.driver.hold("look"):
        catch_up(app)
    return read_world(app).states["greeting"].last_event


def tip(stage: RealGiteaStage) -> str:
    return str(stage.server.ask("GET", f"{stage.home}/branches/main", OWNER)["commit"]["id"])


def test_pushed_code_closes_its_issue(stage: RealGiteaStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = opened(stage, tmp_path, monkeypatch, "direct")
    work(app)
    stage.server.restart()
    perform(app, Finalize("greeting"))
    state = read_world(app).states["greeting"]
    assert (state.done, state.code_ref) == (True, tip(stage))
    assert stage.server.ask("GET", f"{stage.home}/issues/1", OWNER)["state"] == "closed"


def test_a_review_sends_back_and_the_merge_accepts(
    stage: RealGiteaStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = opened(stage, tmp_path, monkeypatch, "pull_request")
    work(app)
    number = read_world(app).states["greeting"].request
    assert number
    shown = stage.server.ask("GET", f"{stage.home}/pulls/{number}", OWNER)
    assert (shown["title"], shown["draft"]) == ("Greeting", False)
    stage.review(number, "mallory", "changes_requested", "Nobody asked me.")
    assert look(app) == "verify_pending_acceptance"
    stage.review(number, "writer", "changes_requested", "Say it twice.")
    assert look(app) == "verify_failed_retryable"
    assert stage.server.ask("GET", f"{stage.home}/pulls/{number}", OWNER)["draft"]
    stage.server.restart()
    work(app)
    assert look(app) == "verify_pending_acceptance"
    stage.review(number, "writer", "approved", "")
    stage.merge(number)
    assert look(app) == "checkup_accept_recorded"
    perform(app, Finalize("greeting"))
    state = read_world(app).states["greeting"]
    assert (state.done, state.code_ref) == (True, tip(stage))
