"""Who may push on Gitea: what somebody has in a repository, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What *somebody* has: a collaboration (`none` to `admin`), and teams by their units (`code: write`)."""

    may_push: bool
    collaborator: str = "read"
    """`read` is also what anybody has in a public repository."""
    organization: bool = False
    teams: tuple[dict[str, str], ...] = ()

    def units(self, index: int) -> dict[str, str]:
        return {unit: mode for unit, mode in self.teams[index].items() if unit != "permission"}

    def __str__(self) -> str:
        teams = "+".join(",".join(f"{unit}:{mode}" for unit, mode in team.items()) for team in self.teams)
        return f"{'organization' if self.organization else 'user'}-{self.collaborator}-{teams or 'no-team'}"


def of_teams(*teams: dict[str, str], may_push: bool, collaborator: str = "read") -> Row:
    return Row(may_push, collaborator, organization=True, teams=teams)


ROWS = (
    *(
        Row(level in {"write", "admin"}, level, organization)
        for level in ("read", "write", "admin")
        for organization in (False, True)
    ),
    *(
        of_teams({unit: mode}, may_push=(unit, mode) == ("code", "write"))
        for unit in ("code", "issues", "pulls")
        for mode in ("read", "write")
    ),
    of_teams({"code": "read", "issues": "write", "pulls": "write"}, may_push=False),
    of_teams({"pulls": "read"}, {"code": "write"}, may_push=True),
    of_teams({"permission": "admin"}, may_push=True),
    of_teams({"code": "read"}, may_push=True, collaborator="write"),
)
