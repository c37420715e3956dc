"""The rows of who may write, asked of a real Gitea: what the double says must be what the server does."""

from __future__ import annotations

from itertools import count

import pytest

from irontree.forges import Location
from irontree.forges.gitea import GiteaForge
from tests.support.gitea.real import RealGitea
from tests.support.gitea.real_stage import OWNER
from tests.support.gitea.stage import forge_with
from tests.support.gitea.writers import ROWS, Row

NAMES = count(1)


def arranged(gitea: RealGitea, row: Row) -> tuple[str, str]:
    """A repository where *somebody* new has what the row says; its full name, and who that is."""
    number = next(NAMES)
    somebody, owner = f"somebody{number}", f"org{number}" if row.organization else OWNER
    gitea.account(somebody)
    if row.organization:
        gitea.ask("POST", "orgs", OWNER, username=owner)
        gitea.ask("POST", f"orgs/{owner}/repos", OWNER, name=f"r{number}", auto_init=True)
    else:
        gitea.ask("POST", "user/repos", OWNER, name=f"r{number}", auto_init=True)
    home = f"repos/{owner}/r{number}"
    if row.collaborator != "read":
        gitea.ask("PUT", f"{home}/collaborators/{somebody}", OWNER, permission=row.collaborator)
    for index, team in enumerate(row.teams):
        units = {f"repo.{unit}": mode for unit, mode in row.units(index).items()} or {"repo.code": "admin"}
        given = {"name": f"team{index}", "permission": team.get("permission", "write")}
        made = gitea.ask("POST", f"orgs/{owner}/teams", OWNER, **given, units=[*units], units_map=units)
        gitea.ask("PUT", f"teams/{made['id']}/members/{somebody}", OWNER)
        gitea.ask("PUT", f"teams/{made['id']}/repos/{owner}/r{number}", OWNER)
    return f"{owner}/r{number}", somebody


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_who_may_push_is_who_is_taken_for_a_writer(gitea: RealGitea, row: Row):
    repository, somebody = arranged(gitea, row)
    permissions = gitea.ask("GET", f"repos/{repository}", somebody)["permissions"]
    assert permissions["push"] is row.may_push
    forge: GiteaForge = forge_with(Location(gitea.url, repository), gitea.tokens[OWNER])
    assert forge.may_write(somebody) is row.may_push


def test_an_account_with_write_access_alone_hears_no_one_else(gitea: RealGitea):
    repository, somebody = arranged(gitea, Row(may_push=True, collaborator="write"))
    forge = forge_with(Location(gitea.url, repository), gitea.tokens[somebody])
    assert forge.may_write(somebody)
    assert forge.may_write(OWNER)
    assert not forge.may_write("boss")


def test_a_token_without_sight_of_organizations_sees_no_member(gitea: RealGitea):
    repository, somebody = arranged(gitea, Row(may_push=True, organization=True, teams=({"code": "write"},)))
    token = gitea.token(OWNER, "write:issue,write:repository,read:user")
    assert not forge_with(Location(gitea.url, repository), token).may_write(somebody)
