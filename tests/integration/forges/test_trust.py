"""Who is believed on a forge, while a process keeps it for days (R20)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from irontree.forges.gitea import GiteaForge
from irontree.forges.github import GithubForge
from irontree.ports import Forge
from tests.support.forges import HEAD_SHA, FallibleStage
from tests.support.gitea.stage import MovingClock, gitea
from tests.support.gitea.stage import settings as gitea_settings
from tests.support.github.stage import github, github_settings


class Watched(NamedTuple):
    """A repository as a process that runs for days sees it, and as `writer` does."""

    stage: FallibleStage
    ours: Forge
    writer: Forge
    clock: MovingClock
    give: Callable[[], object]
    """Write access to `writer`, again."""


@contextmanager
def on_gitea(folder: Path) -> Iterator[Watched]:
    clock = MovingClock()
    with gitea(folder) as stage:
        tokens = [stage.server.contents.account(*who) for who in (("irontree", "admin"), ("writer", "write"))]
        ours, writer = (GiteaForge(replace(gitea_settings(stage.server, token), clock=clock)) for token in tokens)
        yield Watched(stage, ours, writer, clock, lambda: stage.server.contents.account("writer", "write"))


@contextmanager
def on_github(folder: Path) -> Iterator[Watched]:
    clock = MovingClock()
    with github(folder) as stage:
        stage.hub.tokens["token-writer"] = "writer"
        settings = [github_settings(folder, stage.server, who) for who in ("irontree", "writer")]
        ours, writer = (GithubForge(replace(each, clock=clock)) for each in settings)
        yield Watched(stage, ours, writer, clock, lambda: stage.hub.rights.update(writer="write"))


@pytest.fixture(params=[on_gitea, on_github], ids=lambda kind: kind.__name__)
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    with request.param(tmp_path) as opened:
        yield opened


def of_issue(forge: Forge) -> bool:
    issue = forge.read_issue(1)
    assert issue
    return issue.trusted


@pytest.mark.parametrize("said", [of_issue, lambda forge: forge.comments(1)[-1].trusted], ids=["issue", "comment"])
def test_who_lost_write_access_is_not_believed_for_longer_than_a_minute(
    watched: Watched, said: Callable[[Forge], bool]
):
    watched.writer.post_comment(watched.writer.create_issue("Title", "").number, "/accept")
    assert said(watched.ours)
    watched.stage.dismiss("writer")
    watched.clock.pass_by(seconds=61)
    assert not said(watched.ours)


def test_whoever_is_given_write_access_is_heard_a_minute_later(watched: Watched):
    watched.stage.dismiss("writer")
    watched.stage.push("it", HEAD_SHA)
    watched.ours.create_pull_request(head="it", base="main", title="It", body="", draft=False)
    watched.stage.review(1, "writer", "changes_requested", "No")
    assert [review.trusted for review in watched.ours.reviews(1)] == [False]
    watched.give()
    watched.clock.pass_by(seconds=61)
    assert [review.trusted for review in watched.ours.reviews(1)] == [True]


def test_a_clock_that_was_set_back_keeps_nobody_believed(watched: Watched):
    watched.writer.create_issue("Title", "")
    assert of_issue(watched.ours)
    watched.stage.dismiss("writer")
    watched.clock.pass_by(days=-30)
    assert not of_issue(watched.ours)
