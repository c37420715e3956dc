"""Who may write, row by row as Gitea's source has it (tests/support/gitea/writers.py).

`make test-forges` asks a real server the same rows.
"""

from __future__ import annotations

import pytest

from irontree.forges.gitea import GiteaForge
from tests.support.gitea.contents import Remark
from tests.support.gitea.real import VERSIONS
from tests.support.gitea.server import GiteaServer
from tests.support.gitea.stage import MovingClock, settings
from tests.support.gitea.writers import ROWS, Row, of_teams


def as_seen_by(server: GiteaServer, **account: object) -> GiteaForge:
    return GiteaForge(settings(server, server.contents.account("irontree", **account)))  # type: ignore[arg-type]


def arrange(server: GiteaServer, row: Row, version: str) -> None:
    """Let *somebody* have what the row says."""
    server.contents.version = version
    has_nothing = row.account == "restricted" and row.collaborator == "read"
    runs_it = row.account in {"owner", "site-admin"}
    server.contents.account("somebody", "owner" if runs_it else "none" if has_nothing else row.collaborator)
    server.contents.teams = [] if row.organization else None
    for index, units in enumerate(row.teams):
        server.contents.team(
            f"team-{index}", "somebody", permission=units.get("permission", "none"), **row.units(index)
        )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_owner_sees_exactly_who_may_push(server: GiteaServer, row: Row, version: str):
    forge = as_seen_by(server, permission="owner")
    arrange(server, row, version)
    assert forge.may_write("somebody") is row.is_heard_on(version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("row", [row for row in ROWS if row.teams], ids=str)
def test_the_double_lets_push_whom_the_server_does(server: GiteaServer, row: Row, version: str):
    arrange(server, row, version)
    assert server.api.can_write("somebody") is row.may_push_on(version)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_whoever_sees_less_takes_nobody_for_a_writer_who_is_none(server: GiteaServer, row: Row):
    forge = as_seen_by(server, permission="write")
    arrange(server, row, VERSIONS[-1])
    assert not forge.may_write("somebody")


def test_a_member_sees_the_writers_of_its_own_team(server: GiteaServer):
    forge = as_seen_by(server, permission="write")
    server.contents.account("somebody", "read")
    server.contents.team("coders", "somebody", "irontree", code="write")
    assert forge.may_write("somebody")


def test_before_1_25_a_team_that_we_cannot_see_into_may_hide_a_writer_of_our_own(server: GiteaServer):
    forge = as_seen_by(server, permission="write")
    server.contents.account("somebody", "read")
    server.contents.team("coders", "somebody", "irontree", code="write")
    server.contents.team("testers", issues="write")
    server.contents.version = "1.24.6"
    assert not forge.may_write("somebody")


@pytest.mark.parametrize("version", ["1.25.0+dev-12-gabc", "11.0.3+gitea-1.22.0"])
def test_whose_units_add_up_is_told_by_the_version(server: GiteaServer, version: str):
    forge = as_seen_by(server, permission="owner")
    arrange(server, of_teams({"code": "write"}, {"pulls": "read"}, may_push=True), version)
    assert forge.may_write("somebody")


@pytest.mark.parametrize("version", ["main", ""])
def test_a_version_that_says_nothing_is_an_old_one(server: GiteaServer, version: str):
    forge = as_seen_by(server, permission="owner")
    arrange(server, of_teams({"code": "write"}, {"pulls": "read"}, may_push=True), version)
    assert not forge.may_write("somebody")


def test_a_token_that_may_not_read_organizations_sees_no_member(server: GiteaServer):
    scopes = frozenset({"read:user", "write:issue", "write:repository"})
    forge = as_seen_by(server, permission="owner", scopes=scopes)
    server.contents.account("somebody", "read")
    server.contents.team("coders", "somebody", code="write")
    assert not forge.may_write("somebody")


def test_the_owner_of_a_users_repository_may_write_whatever_we_may_ask(server: GiteaServer):
    forge = as_seen_by(server, permission="write")
    server.contents.account(server.contents.owner, "owner")
    assert forge.may_write(server.contents.owner)


def test_what_is_older_than_the_repository_was_not_written_there_by_whom_it_is_shown_as(
    server: GiteaServer, time: MovingClock
):
    """A migration brings the text of outsiders in under the account that migrates, and no answer tells them apart."""
    forge = as_seen_by(server, permission="admin")
    issue = server.contents.new_pull("irontree", "Title", "", head="it")
    server.contents.new_comment(issue, "irontree", "/accept")
    server.contents.review(1, "irontree", "REQUEST_CHANGES", "No", (Remark(1, "a.py", "rm -rf", 3),))
    time.pass_by(hours=1)
    server.contents.migrate()
    shown, (comment,), (review,) = forge.read_issue(1), forge.comments(1), forge.reviews(1)
    assert shown
    assert {one.author for one in (shown, comment, review, *review.remarks)} == {"ghost"}, "who may command nothing"
    assert not forge.may_write("ghost")
    assert not any([shown.trusted, comment.trusted, comment.ours, review.trusted, review.remarks[0].trusted])
    posted = forge.post_comment(1, "/accept")
    assert forge.comments(1)[1:] == (posted,)
    assert (posted.trusted, posted.ours) == (True, True)
