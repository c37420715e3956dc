"""What `doctor` and the first attempt learn of a repository on Gitea before anything is refused there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from irontree.domain.plan import PublishPolicy
from irontree.forges.gitea import GiteaForge
from irontree.services.work.preflight import forge_blockers
from tests.support.gitea.contents import Contents
from tests.support.gitea.server import GiteaServer
from tests.support.gitea.stage import settings

PUSHED = PublishPolicy(mode="direct", remote="origin", target_branch="main")
PROPOSED = PUSHED.model_copy(update={"mode": "pull_request"})


def found(forge: GiteaForge, publish: PublishPolicy = PUSHED) -> list[str]:
    return [blocker.check for blocker in forge_blockers(forge, forge.about(), publish)]


def test_nothing_is_found_where_nothing_is_wrong(server: GiteaServer, forge: GiteaForge):
    assert found(forge) == found(forge, PROPOSED) == []
    assert forge.about().hides_writers == ""


@pytest.mark.parametrize(
    ("change", "publish", "check"),
    [
        (lambda c: setattr(c, "archived", True), PUSHED, "forge-archived"),
        (lambda c: setattr(c, "empty", True), PUSHED, "forge-empty"),
        (lambda c: setattr(c, "has_issues", False), PROPOSED, "forge-issues"),
        (lambda c: c.account("irontree", "read"), PUSHED, "forge-access"),
        (lambda c: setattr(c, "has_pull_requests", False), PROPOSED, "forge-pull-requests"),
        (lambda c: c.protected.add("main"), PUSHED, "forge-protected"),
    ],
)
def test_what_would_refuse_the_code_is_found_first(
    server: GiteaServer, forge: GiteaForge, change: Callable[[Contents], None], publish: PublishPolicy, check: str
):
    change(server.contents)
    assert found(forge, publish) == [check]


def test_a_protected_branch_does_not_hinder_requests(server: GiteaServer, forge: GiteaForge):
    server.contents.protected.add("main")
    assert found(forge, PROPOSED) == []


@pytest.mark.parametrize(
    ("scopes", "lacking"),
    [
        ({"read:user", "read:issue", "write:repository", "read:organization"}, ("write:issue",)),
        ({"read:user", "read:issue", "read:repository"}, ("write:issue", "write:repository")),
    ],
)
def test_scopes_that_the_token_lacks_are_known_before_it_is_needed(server, scopes: set[str], lacking: tuple[str, ...]):
    forge = GiteaForge(settings(server, server.contents.account("careful", "admin", scopes=frozenset(scopes))))
    assert forge.about().lacking_scopes == lacking
    assert found(forge) == ["forge-token"] * len(lacking)


def test_what_the_token_hides_of_the_writers_is_said(server: GiteaServer, forge: GiteaForge):
    server.contents.team("coders", "somebody", code="write")
    assert "read:organization" in forge.about().hides_writers
    writer = GiteaForge(settings(server, server.contents.account("writer", "write")))
    assert "administrator" in writer.about().hides_writers
