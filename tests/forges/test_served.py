"""`irontree serve` before a real Gitea: an approval in a comment, a killed server, and a merge, told by webhooks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.services.answers.approve import adopt
from irontree.services.record import read_world
from tests.integration.crash.laboratory import faults
from tests.prefect.conftest import LEAK, api_url, no_leak_reaches_other_tests, state_folder
from tests.prefect.terminal import Typed, typed
from tests.prefect.toys import wait_until
from tests.support.gitea.real import free_port
from tests.support.gitea.real_stage import OWNER, RealGiteaStage, forge_of, on_server
from tests.support.greeting import laid_out

__all__ = ["api_url", "no_leak_reaches_other_tests", "state_folder"]
pytestmark = [pytest.mark.filterwarnings(LEAK), pytest.mark.timeout(300)]
SECRET = "s3cret"
EVENTS = ["issues", "issue_comment", "pull_request", "pull_request_review", "status"]
LONG = 120.0
"""For what several processes that import Prefect have to be started."""


def said(served: Typed, pattern: str) -> str:
    def found() -> re.Match[str] | None:
        assert served.process.poll() is None, served.said
        return re.search(pattern, served.said)

    return wait_until(found, patience=LONG)[1]


def asked_for(stage: RealGiteaStage, number: int) -> str:
    """The name that our comment asks a person to write, once it is there."""
    shown = stage.server.ask("GET", f"{stage.home}/issues/{number}/comments", OWNER)
    names = (re.search(r"/approve (\w[\w-]*)", one["body"]) for one in shown if one["user"]["login"] == "irontree")
    return next((name[1] for name in names if name), "")


def request_of(stage: RealGiteaStage) -> Any:
    shown = stage.server.ask("GET", f"{stage.home}/pulls?state=open", OWNER)
    return next((one for one in shown if not one["draft"]), None)


def last_event(app: App, number: int) -> str:
    state = read_world(app).find(number)
    return state.last_event if state else ""


def issue_is_done(stage: RealGiteaStage, number: int) -> bool:
    shown = stage.server.ask("GET", f"{stage.home}/issues/{number}", OWNER)
    return shown["state"] == "closed" and "stage:done" in {label["name"] for label in shown["labels"]}


def test_an_issue_is_approved_by_comment_worked_on_and_merged_while_the_forge_is_killed(
    stage: RealGiteaStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api_url: str
):
    monkeypatch.setenv("GITEA_TOKEN", stage.server.tokens["irontree"])
    root = on_server(stage, laid_out(tmp_path, monkeypatch, "pull_request", forge_of(stage)))
    (root / "SPEC.md").unlink()  # in no commit, and the issue is not of it
    text = "- [ ] it says hello `$ grep -q hello greet.txt`\n"
    number = stage.server.ask("POST", f"{stage.home}/issues", "writer", title="Greeting", body=text)["number"]
    app = open_app(root, origin=Origin("ada", "command"))
    with app.driver.hold("adopt"):
        adopt(app, number)
    chosen = {"PREFECT_API_URL": api_url, "XDG_STATE_HOME": str(tmp_path / "state"), "IRONTREE_WEBHOOK_SECRET": SECRET}
    with typed(root, ["serve", "--attach", "--webhooks", str(free_port())], chosen, tmp_path / "served") as served:
        given = {"url": said(served, r"Webhooks: (http\S+)"), "content_type": "json", "secret": SECRET}
        stage.server.ask("POST", f"{stage.home}/hooks", OWNER, type="gitea", config=given, events=EVENTS, active=True)
        name = wait_until(lambda: asked_for(stage, number), patience=LONG)
        stage.server.ask("POST", f"{stage.home}/issues/{number}/comments", "writer", body=f"/approve {name}")
        proposed = wait_until(lambda: request_of(stage), patience=LONG)["number"]
        stage.server.restart()
        stage.merge(proposed)
        wait_until(lambda: last_event(app, number) == "checkup_done", patience=LONG)
        wait_until(lambda: issue_is_done(stage, number), patience=LONG)
        served.interrupt()
        assert served.end() == 0, served.said
    assert faults(app) == []
