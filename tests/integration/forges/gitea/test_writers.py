"""Who may write, row by row as Gitea's source has it (models/perm/access/repo_permission.go, 1.24.6 and 1.25.4).

`make test-forges` asks a real server the same rows.
"""

from __future__ import annotations

import pytest

from irontree.forges.gitea import GiteaForge
from tests.support.gitea.server import GiteaServer
from tests.support.gitea.stage import settings
from tests.support.gitea.writers import ROWS, Row


def as_seen_by(server: GiteaServer, **account: object) -> GiteaForge:
    return GiteaForge(settings(server, server.contents.account("irontree", **account)))  # type: ignore[arg-type]


def arrange(server: GiteaServer, row: Row) -> None:
    """Let *somebody* have what the row says."""
    server.contents.account("somebody", row.collaborator)
    server.contents.teams = [] if row.organization else None
    for index, units in enumerate(row.teams):
        server.contents.team(
            f"team-{index}", "somebody", permission=units.get("permission", "none"), **row.units(index)
        )


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_owner_sees_exactly_who_may_push(server: GiteaServer, row: Row):
    forge = as_seen_by(server, permission="owner")
    arrange(server, row)
    assert forge.may_write("somebody") is row.may_push


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_whoever_sees_less_takes_nobody_for_a_writer_who_is_none(server: GiteaServer, row: Row):
    forge = as_seen_by(server, permission="write")
    arrange(server, row)
    assert not forge.may_write("somebody")


def test_a_member_sees_the_writers_of_its_own_team(server: GiteaServer):
    forge = as_seen_by(server, permission="write")
    server.contents.account("somebody", "read")
    server.contents.team("coders", "somebody", "irontree", code="write")
    assert forge.may_write("somebody")


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
