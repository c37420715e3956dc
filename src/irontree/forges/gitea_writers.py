"""Who may push code to a repository on Gitea: what accounts, teams and the version of the server say of it (R20)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from irontree.errors import AccessRefused
from irontree.forges import rest_values as rest
from irontree.forges.gitea_http import GiteaClient

_RUNS_IT: Final = {"admin", "owner"}
"""What gives every right in a repository, whatever teams say of its parts."""
_UNITS_ADD_UP: Final = (1, 25)


class GiteaRights:
    """Asks the server about one account after the other."""

    def __init__(self, client: GiteaClient) -> None:
        self._client = client

    def hidden(self, repository: rest.Json, account: str) -> str:
        """Why *account*, which is ours, is not shown everybody who may; empty if it is."""
        if not repository["permissions"]["admin"]:
            return f"{account} is no administrator of the repository"
        if all(self._shows_members(team) for team in self._teams() or () if rest.writes_code(team)):
            return ""
        return f"the token may not see who is in the teams that write (read:organization), or {account} is in none"

    def _shows_members(self, team: rest.Json) -> bool:
        try:
            return self._client.read_of_server(f"teams/{team['id']}/members").ok
        except AccessRefused as refused:
            return bool(_none_where_denied(refused))

    def include(self, login: str) -> bool:
        """Whether that account may push code (R20). Whatever the server does not let us see counts as no.

        The permission that the server tells is the widest of collaboration and teams, and says nothing of the units
        of a team: in an organization, `write` may be for issues alone, and `read` of one that may push
        (docs/decisions/0020-who-may-write.md).
        """
        if login == rest.GHOST:
            return False
        level = self._permission(login)
        if level in _RUNS_IT:
            return True
        teams = self._teams()
        if teams is None:
            return level == "write" if level else login == self._owner()
        writing = [team for team in teams if rest.writes_code(team) and self._is_member(team, login, unseen=False)]
        if any(team["permission"] in _RUNS_IT for team in writing):
            return True
        may_push = bool(writing) or (level == "write" and self._collaborates(login, teams))
        return may_push and not self._may_be_hidden(login, teams)

    def _collaborates(self, login: str, teams: Sequence[rest.Json]) -> bool:
        """Whether `write` is what the account was given itself."""
        if not self._is_there(f"collaborators/{quote(login, safe='')}"):
            return False
        # An invitation to read beside a team that writes issues shows the same: then the level may be the team's.
        return not any(team["permission"] == "write" and self._is_member(team, login, unseen=True) for team in teams)

    def _may_be_hidden(self, login: str, teams: Sequence[rest.Json]) -> bool:
        """Whether a team without an entry for code may take away what the account has, as before Gitea 1.25.

        It does if the database lists it after the others, in an order that nobody is told.
        """
        silent = [team for team in teams if not rest.speaks_of_code(team)]
        return bool(silent) and not self._units_add_up and any(self._is_member(t, login, unseen=True) for t in silent)

    @cached_property
    def _units_add_up(self) -> bool:
        return rest.version_of(self._client.read_of_server("version").data) >= _UNITS_ADD_UP

    def _permission(self, login: str) -> str:
        """What the server says of that account; empty if it is not there, or if we may not ask: administrators may."""
        try:
            answer = self._client.read(f"collaborators/{quote(login, safe='')}/permission")
        except AccessRefused as refused:
            return _none_where_denied(refused)
        return str(answer.data["permission"]) if answer.status == HTTPStatus.OK else ""

    def _owner(self) -> str:
        answer = self._client.read("")
        if answer.status == HTTPStatus.NOT_FOUND:
            self._client.explain_absence(of_issues=False)
        return str(answer.data["owner"]["login"])

    def _teams(self) -> list[rest.Json] | None:
        """The teams of the repository; None if its owner is no organization. All at once: this list has no pages."""
        answer = self._client.read("teams", passing={HTTPStatus.METHOD_NOT_ALLOWED})
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            return None
        return list(answer.data or ()) if answer.status == HTTPStatus.OK else []

    def _is_member(self, team: rest.Json, login: str, *, unseen: bool) -> bool:
        """Whether the account is in the team; *unseen* if we are neither in it nor own the organization."""
        try:
            return self._client.read_of_server(f"teams/{team['id']}/members/{quote(login, safe='')}").ok
        except AccessRefused as refused:
            return bool(_none_where_denied(refused)) or unseen

    def _is_there(self, path: str) -> bool:
        """Whether the server knows it here; an account that does not exist is refused with 422."""
        return self._client.read(path, passing={HTTPStatus.UNPROCESSABLE_ENTITY}).ok


def _none_where_denied(refused: AccessRefused) -> str:
    """Nothing where our rights do not reach; raises *refused* if it is about anything else."""
    if refused.reason != "permission":
        raise refused
    return ""
