"""Webhooks of a real Gitea: signed as we read it, and each about what we take it to be about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from irontree.flows.serve.webhooks import receiving
from tests.support.forges import HEAD_SHA
from tests.support.gitea.real_stage import OWNER, RealGiteaStage, until

SECRET = "s3cret"
EVENTS = ["issues", "issue_comment", "pull_request", "pull_request_review", "status"]


@dataclass
class Heard:
    polls: list[str] = field(default_factory=list)
    issues: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def heard(stage: RealGiteaStage) -> Iterator[Heard]:
    heard = Heard()
    calls = (lambda: heard.polls.append("now"), heard.issues.append, heard.requests.append)
    with receiving(0, SECRET, *calls) as url:
        given = {"url": url, "content_type": "json", "secret": SECRET}
        stage.server.ask("POST", f"{stage.home}/hooks", OWNER, type="gitea", config=given, events=EVENTS, active=True)
        yield heard


@pytest.fixture
def pull(stage: RealGiteaStage) -> int:
    stage.push("it", HEAD_SHA)
    made = stage.ours.create_pull_request(head="it", base="main", title="It", body="", draft=False)
    return int(made.number)


def test_a_comment_hurries_the_look_alone(stage: RealGiteaStage, heard: Heard):
    stage.ours.post_comment(stage.ours.create_issue("Title", "").number, "x")
    until(lambda: len(heard.polls) >= 2, "no webhook came")
    assert not heard.requests


def test_a_closed_issue_is_a_changed_one(stage: RealGiteaStage, heard: Heard):
    stage.ours.edit_issue(stage.ours.create_issue("Title", "").number, state="closed")
    until(lambda: heard.issues, "no webhook came")
    assert {*heard.issues} == {f"{stage.server.url}/{OWNER}/{stage.name}"}


@pytest.mark.parametrize(
    "happens",
    [
        lambda stage, number: stage.merge(number),
        lambda stage, number: stage.review(number, "writer", "changes_requested", "Not yet."),
        lambda stage, _: stage.ours.set_commit_status(HEAD_SHA, name="ci", state="failure", description=""),
    ],
)
def test_what_happens_to_a_request_is_told(
    stage: RealGiteaStage, pull: int, heard: Heard, happens: Callable[[RealGiteaStage, int], object]
):
    happens(stage, pull)
    until(lambda: heard.requests, "no webhook came")
    assert {*heard.requests} == {f"{stage.server.url}/{OWNER}/{stage.name}"}
