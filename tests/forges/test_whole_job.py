"""The whole job with real git and a real Gitea: pushed, or proposed, reviewed and merged there."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.app import App
from irontree.domain.decide import Finalize
from irontree.services.execution.steps import perform
from irontree.services.record import read_world
from tests.support.gitea.real_stage import OWNER, RealGiteaStage, forge_of, on_server
from tests.support.greeting import approved, laid_out, look, work


def opened(stage: RealGiteaStage, place: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> App:
    """The project with its remote and its issues on the server, its document approved."""
    monkeypatch.setenv("GITEA_TOKEN", stage.server.tokens["irontree"])
    return approved(on_server(stage, laid_out(place, monkeypatch, mode, forge_of(stage))))


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
