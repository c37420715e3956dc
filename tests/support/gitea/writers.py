"""Who may push on Gitea: what somebody has in a repository, and what follows from it.

Lines are those of 1.24.6, where no other file is named of `models/perm/access/repo_permission.go`: in 1.25.4 one more.
"""

from __future__ import annotations

from dataclasses import dataclass

UNITS_ADD_UP = (1, 25)
"""The first version in which a team without an entry for a unit hides nothing: 351-355, and 352-354 in 1.25.4."""


@dataclass(frozen=True)
class Row:
    """What *somebody* has: a collaboration (`none` to `admin`), and teams by their units (`code: write`)."""

    may_push: bool
    collaborator: str = "read"
    """`read` is also what anybody has in a public repository."""
    organization: bool = False
    teams: tuple[dict[str, str], ...] = ()
    account: str = ""
    """What is special: `owner` of the organization, `site-admin`, `restricted`, `deactivated`, `prohibited`, `bot`."""
    hidden: bool = False
    """Before `UNITS_ADD_UP` a later team takes the right away."""
    may_be_hidden: bool = False
    """Before `UNITS_ADD_UP` a team would take it away if the database listed it last: then nobody is heard."""

    def units(self, index: int) -> dict[str, str]:
        return {unit: mode for unit, mode in self.teams[index].items() if unit != "permission"}

    def may_push_on(self, version: str) -> bool:
        return self.may_push and not (self.hidden and _is_old(version))

    def is_heard_on(self, version: str) -> bool:
        """Who may push, but nobody who may be hidden. That an account is switched off is told to no one but its
        administrators (`services/convert/user.go:75-84`).
        """
        if self.account in {"deactivated", "prohibited"}:
            return True
        return self.may_push_on(version) and not (self.may_be_hidden and _is_old(version))

    def __str__(self) -> str:
        teams = "+".join(",".join(f"{unit}:{mode}" for unit, mode in team.items()) for team in self.teams)
        owner = "organization" if self.organization else "user"
        return "-".join(filter(None, (owner, self.account, self.collaborator, teams or "no-team")))


def of_teams(
    *teams: dict[str, str],
    may_push: bool,
    collaborator: str = "read",
    account: str = "",
    hidden: bool = False,
    may_be_hidden: bool = False,
) -> Row:
    return Row(may_push, collaborator, True, teams, account, hidden, may_be_hidden)


def _is_old(version: str) -> bool:
    return tuple(map(int, version.split(".")[:2])) < UNITS_ADD_UP


ROWS = (
    # A collaboration is the access itself: models/perm/access/access.go:56-60; in an organization: 334-338.
    *(
        Row(level in {"write", "admin"}, level, organization)
        for level in ("read", "write", "admin")
        for organization in (False, True)
    ),
    # Each unit of a team by itself: 349-357.
    *(
        of_teams({unit: mode}, may_push=(unit, mode) == ("code", "write"))
        for unit in ("code", "issues", "pulls")
        for mode in ("read", "write")
    ),
    of_teams({"code": "read", "issues": "write", "pulls": "write"}, may_push=False),
    of_teams({"issues": "write", "permission": "write"}, may_push=False),
    of_teams({"permission": "admin"}, may_push=True),  # 341-347
    of_teams({"code": "read"}, may_push=True, collaborator="write"),
    # A team without an entry for code takes away what came before it, in 1.24.6: 351-355. Administrators keep it: 92.
    of_teams({"pulls": "read"}, {"code": "write"}, may_push=True, may_be_hidden=True),
    of_teams({"code": "write"}, {"pulls": "read"}, may_push=True, hidden=True),
    of_teams({"code": "write"}, {"code": "none", "pulls": "read"}, may_push=True),
    of_teams({"pulls": "read"}, may_push=True, collaborator="write", hidden=True),
    of_teams({"pulls": "read"}, may_push=True, collaborator="admin"),
    of_teams({"permission": "admin"}, {"pulls": "read"}, may_push=True),
    # Owners of the organization: 341-347. Whoever administers the server: 303-306.
    Row(True, organization=True, account="owner"),
    Row(True, account="site-admin"),
    Row(True, organization=True, account="site-admin"),
    # A restricted account has what it was given, and nothing because a repository is public: access.go:44-46.
    Row(False, account="restricted"),
    Row(False, "read", organization=True, account="restricted"),
    Row(True, "write", account="restricted"),
    of_teams({"code": "write"}, may_push=True, account="restricted"),
    of_teams({"pulls": "write"}, may_push=False, account="restricted"),
    # Switched off, it keeps its access and can use it nowhere: routers/web/repo/githttp.go:170, api/v1/api.go:809-816.
    Row(False, "write", account="deactivated"),
    Row(False, "write", account="prohibited"),
    # A bot is an account without a password: cmd/admin_user_create.go:99-113.
    Row(False, account="bot"),
    Row(True, "write", account="bot"),
)
