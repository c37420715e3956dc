"""What a forge says of itself and of us, in a line each, for `init` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from irontree.ports import RepositoryFacts


def access_line(facts: RepositoryFacts) -> str:
    """Which repository, as which account, with which right."""
    right = "may write" if facts.can_write else "may only read"
    return f"issues go to {facts.url} as {facts.account}, who {right}"


def obstacles(facts: RepositoryFacts) -> Iterator[tuple[str, str]]:
    """What keeps issues from being written there, each with its remedy."""
    if facts.archived:
        yield f"{facts.full_name} is archived", "unarchive it in its settings"
    if not facts.has_issues:
        yield f"{facts.full_name} has no issues", "enable them in its settings"
    if not facts.can_write:
        yield f"{facts.account} may not write to {facts.full_name}", "use a token with write access (docs/forges.md)"
