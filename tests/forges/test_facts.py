"""What is learned of a repository before anything is refused there, on a real Gitea."""

from __future__ import annotations

import pytest

from irontree.domain.plan import PublishPolicy
from irontree.forges import Location
from irontree.forges.gitea import GiteaForge
from irontree.services.work.preflight import forge_blockers
from tests.support.gitea.real_stage import OWNER, RealGiteaStage
from tests.support.gitea.stage import forge_with

PUSHED = PublishPolicy(mode="direct", remote="origin", target_branch="main")
PROPOSED = PUSHED.model_copy(update={"mode": "pull_request"})


def as_seen(stage: RealGiteaStage, token: str = "") -> GiteaForge:
    location = Location(stage.server.url, f"{OWNER}/{stage.name}")
    return forge_with(location, token or stage.server.tokens["irontree"])


def found(forge: GiteaForge, publish: PublishPolicy = PUSHED) -> list[str]:
    return [blocker.check for blocker in forge_blockers(forge, forge.about(), publish)]


def test_nothing_is_found_where_nothing_is_wrong(stage: RealGiteaStage):
    assert found(as_seen(stage)) == found(as_seen(stage), PROPOSED) == []
    assert as_seen(stage).about().hides_writers == ""


def test_pull_requests_that_are_switched_off(stage: RealGiteaStage):
    stage.server.ask("PATCH", stage.home, OWNER, has_pull_requests=False)
    assert found(as_seen(stage), PROPOSED) == ["forge-pull-requests"]


def test_an_archived_repository(stage: RealGiteaStage):
    stage.server.ask("PATCH", stage.home, OWNER, archived=True)
    assert found(as_seen(stage)) == ["forge-archived"]


def test_issues_that_are_switched_off(stage: RealGiteaStage):
    stage.server.ask("PATCH", stage.home, OWNER, has_issues=False)
    assert found(as_seen(stage)) == found(as_seen(stage), PROPOSED) == ["forge-issues"]


def test_issues_that_are_kept_elsewhere(stage: RealGiteaStage):
    elsewhere = {"external_tracker_url": "https://bugs.example.org", "external_tracker_format": "https://b.org/{index}"}
    stage.server.ask("PATCH", stage.home, OWNER, has_issues=True, external_tracker=elsewhere)
    assert found(as_seen(stage)) == ["forge-issues"]


def test_an_account_that_may_only_read(stage: RealGiteaStage):
    assert found(as_seen(stage, stage.server.tokens["mallory"])) == ["forge-access"]


def test_an_empty_repository(stage: RealGiteaStage):
    stage.server.ask("POST", "user/repos", "irontree", name=f"empty-{stage.name}")
    location = Location(stage.server.url, f"irontree/empty-{stage.name}")
    assert found(forge_with(location, stage.server.tokens["irontree"])) == ["forge-empty"]


def test_a_protected_branch(stage: RealGiteaStage):
    stage.server.ask("POST", f"{stage.home}/branch_protections", OWNER, rule_name="main", enable_push=False)
    assert found(as_seen(stage)) == ["forge-protected"]
    assert found(as_seen(stage), PROPOSED) == []


@pytest.mark.parametrize(
    ("scopes", "lacking"),
    [
        ("read:user,read:issue,write:repository,read:organization", ("write:issue",)),
        ("read:user,read:issue,read:repository", ("write:issue", "write:repository")),
        ("read:user,write:issue,write:repository", ()),
    ],
)
def test_scopes_of_a_token(stage: RealGiteaStage, scopes: str, lacking: tuple[str, ...]):
    assert as_seen(stage, stage.server.token("irontree", scopes)).about().lacking_scopes == lacking
