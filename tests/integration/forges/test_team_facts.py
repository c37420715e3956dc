"""What servers say of assignments, changes and ways to merge, where the contract suite cannot arrange it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from irontree.errors import RemoteUnavailable
from irontree.forges.gitea import GiteaForge
from tests.support.forges import HEAD_SHA
from tests.support.gitea.server import Fault as GiteaFault
from tests.support.gitea.server import GiteaServer, gitea_server
from tests.support.gitea.stage import MovingClock, settings
from tests.support.github.stage import GithubStage, github
from tests.support.github.state import Fault, Reply, Request

LONG_AGO = "2026-01-01T00:00:00Z"


@pytest.fixture
def time() -> MovingClock:
    return MovingClock()


@pytest.fixture
def server(time: MovingClock) -> Iterator[GiteaServer]:
    with gitea_server(time.now) as running:
        for account in ("irontree", "writer"):
            running.contents.account(account, "admin")
        yield running


@pytest.fixture
def gitea(server: GiteaServer) -> GiteaForge:
    return GiteaForge(settings(server, "token-of-irontree"))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[GithubStage]:
    with github(tmp_path) as opened:
        yield opened


def test_the_last_of_several_assignments_counts_on_gitea(server: GiteaServer, gitea: GiteaForge):
    number = gitea.create_issue("Title", "").number
    gitea.post_comment(number, "text")
    for logins in (["writer"], [], ["irontree"]):
        gitea.assign(number, logins)
    GiteaForge(settings(server, "token-of-writer")).assign(number, ["irontree", "writer"])
    assert [gitea.assigner(number, who).by for who in ("Writer", "irontree")] == ["writer", "irontree"]


def test_what_came_with_a_migration_was_done_by_nobody_that_gitea_can_tell(
    server: GiteaServer, gitea: GiteaForge, time: MovingClock
):
    """It is told under the account that migrated, which may have write access."""
    number = gitea.create_issue("Title", "").number
    gitea.assign(number, ["writer"])
    gitea.edit_issue(number, state="closed")
    time.pass_by(minutes=5)
    server.contents.migrate()
    afresh = GiteaForge(settings(server, "token-of-irontree"))
    assert (afresh.assigner(number, "writer"), afresh.closer(number)) == (None, None)


def test_who_merged_a_request_closed_it_on_gitea(server: GiteaServer, gitea: GiteaForge):
    server.contents.push("it", HEAD_SHA)
    number = gitea.create_pull_request(head="it", base="main", title="It", body="", draft=False).number
    server.contents.merge_styles = ["squash"]
    gitea.merge_pull_request(number, HEAD_SHA)
    assert gitea.closer(number) == "irontree"


def test_a_request_that_gitea_is_still_looking_at_can_be_merged_later(server: GiteaServer, gitea: GiteaForge):
    """After each push it finds out in the background whether there are conflicts (routers/api/v1/repo/pull.go)."""
    server.contents.push("it", HEAD_SHA)
    number = gitea.create_pull_request(head="it", base="main", title="It", body="", draft=False).number
    server.faults.append(GiteaFault("POST", "/merge", status=405, body={"message": "Please try again later"}))
    with pytest.raises(RemoteUnavailable, match="still finding out"):
        gitea.merge_pull_request(number, HEAD_SHA)
    gitea.merge_pull_request(number, HEAD_SHA)


def test_the_last_of_several_assignments_counts_on_github(hub: GithubStage):
    number = hub.ours.create_issue("Title", "").number
    hub.ours.assign(number, ["writer"])
    record = hub.hub.issues[number]
    record["assignees"] = []
    hub.hub.now = "2026-01-02T12:30:00Z"
    hub.hub.assign(record, ["writer"], "ada")
    hub.hub.now = "2026-01-02T12:45:00Z"
    assert hub.ours.assigner(number, "Writer") == ("ada", "2026-01-02T12:30:00Z")


def test_a_request_is_merged_in_a_way_that_the_repository_on_github_allows(hub: GithubStage):
    hub.hub.merge_methods = ("rebase",)
    hub.push("it", HEAD_SHA)
    number = hub.ours.create_pull_request(head="it", base="main", title="It", body="", draft=False).number
    hub.ours.merge_pull_request(number, HEAD_SHA)
    found = hub.ours.read_pull_request(number)
    assert found
    assert found.merged


def test_what_changes_while_github_gives_pages_pushes_nothing_else_out_of_sight(hub: GithubStage):
    """The next look sees it, because it is newer than all that this one saw."""
    hub.hub.largest_page = 2
    for minute in range(5):
        hub.hub.now = f"2026-01-02T12:0{minute}:00Z"
        hub.ours.create_issue("Title", "")

    def change_one_before_the_second_page(request: Request) -> bool:
        if request.query.get("page") == "2":
            hub.hub.issues[1]["updated_at"] = "2026-01-02T12:10:00Z"
        return False

    hub.hub.faults.append(Fault(Reply(500), change_one_before_the_second_page))
    seen = hub.ours.changed_since(LONG_AGO)
    assert {one.issue.number for one in seen} >= {2, 3, 4, 5}
    [later] = hub.ours.changed_since("2026-01-02T12:05:00Z")
    assert (later.issue.number, later.at) == (1, "2026-01-02T12:10:00Z")
