"""The rows of who may write, asked of a real Gitea: what the double says must be what the server does."""

from __future__ import annotations

from http import HTTPStatus
from itertools import count

import pytest

from irontree.forges import Location
from irontree.forges.gitea import GiteaForge
from tests.support.gitea.real import RealGitea
from tests.support.gitea.real_stage import OWNER
from tests.support.gitea.stage import forge_with
from tests.support.gitea.writers import ROWS, Row, of_teams

NAMES = count(1)


def arranged(gitea: RealGitea, row: Row) -> tuple[str, str]:
    """A repository where *somebody* new has what the row says; its full name, and who that is."""
    number = next(NAMES)
    somebody, owner = f"somebody{number}", f"org{number}" if row.organization else OWNER
    gitea.account(
        somebody, admin=row.account == "site-admin", restricted=row.account == "restricted", bot=row.account == "bot"
    )
    if row.organization:
        gitea.ask("POST", "orgs", OWNER, username=owner)
        gitea.ask("POST", f"orgs/{owner}/repos", OWNER, name=f"r{number}", auto_init=True)
    else:
        gitea.ask("POST", "user/repos", OWNER, name=f"r{number}", auto_init=True)
    home = f"repos/{owner}/r{number}"
    if row.collaborator != "read":
        gitea.ask("PUT", f"{home}/collaborators/{somebody}", OWNER, permission=row.collaborator)
    if row.account == "owner":
        owners = next(team for team in gitea.ask("GET", f"orgs/{owner}/teams", OWNER) if team["name"] == "Owners")
        gitea.ask("PUT", f"teams/{owners['id']}/members/{somebody}", OWNER)
    for index, team in enumerate(row.teams):
        units = {f"repo.{unit}": mode for unit, mode in row.units(index).items()} or {"repo.code": "admin"}
        given = {"name": f"team{index}", "permission": team.get("permission", "write")}
        made = gitea.ask("POST", f"orgs/{owner}/teams", OWNER, **given, units=[*units], units_map=units)
        gitea.ask("PUT", f"teams/{made['id']}/members/{somebody}", OWNER)
        gitea.ask("PUT", f"teams/{made['id']}/repos/{owner}/r{number}", OWNER)
    if row.account in {"deactivated", "prohibited"}:
        off = {"active": False} if row.account == "deactivated" else {"prohibit_login": True}
        gitea.ask("PATCH", f"admin/users/{somebody}", source_id=0, login_name=somebody, **off)
    return f"{owner}/r{number}", somebody


def may_push(gitea: RealGitea, repository: str, somebody: str) -> bool:
    """What the server says to whoever asks; nothing to an account that is switched off."""
    status, shown = gitea.answer("GET", f"repos/{repository}", somebody)
    assert status in {HTTPStatus.OK, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}
    return status == HTTPStatus.OK and bool(shown["permissions"]["push"])


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_who_may_push_is_who_is_taken_for_a_writer(gitea: RealGitea, row: Row):
    repository, somebody = arranged(gitea, row)
    assert may_push(gitea, repository, somebody) is row.may_push_on(gitea.version)
    forge: GiteaForge = forge_with(Location(gitea.url, repository), gitea.tokens[OWNER])
    assert forge.may_write(somebody) is row.is_heard_on(gitea.version)


def test_a_bot_in_a_team_of_its_own_hears_that_team_alone(gitea: RealGitea):
    repository, bot = arranged(gitea, of_teams({"code": "write"}, may_push=True, account="bot"))
    organization = repository.split("/")[0]
    team = next(t for t in gitea.ask("GET", f"orgs/{organization}/teams", OWNER) if t["name"] == "team0")
    gitea.ask("PUT", f"teams/{team['id']}/members/mallory", OWNER)
    gitea.ask("PUT", f"repos/{repository}/collaborators/writer", OWNER, permission="write")
    forge = forge_with(Location(gitea.url, repository), gitea.tokens[bot])
    assert forge.may_write("mallory")
    assert not forge.may_write("writer")
    assert not forge.may_write(OWNER)
    assert "no administrator" in forge.about().hides_writers


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
