"""What `doctor` and the first attempt learn of a repository on GitHub before anything is refused there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from irontree.domain.plan import PublishPolicy
from irontree.forges.github import GithubForge
from irontree.forges.rest_values import protection_forbids
from irontree.services.work.preflight import forge_blockers
from tests.support.calls import counted
from tests.support.github.stage import GithubStage, github
from tests.support.github.state import Hub

PUSHED = PublishPolicy(mode="direct", remote="origin", target_branch="main")
PROPOSED = PUSHED.model_copy(update={"mode": "pull_request"})
ON, OFF = {"enabled": True}, {"enabled": False}
REVIEWS = {"dismiss_stale_reviews": True, "require_code_owner_reviews": False}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[GithubStage]:
    with github(tmp_path) as opened:
        yield opened


def found(forge: GithubForge, publish: PublishPolicy = PUSHED) -> list[str]:
    return [blocker.check for blocker in forge_blockers(forge, forge.about(), publish)]


def test_nothing_is_found_where_nothing_is_wrong(stage: GithubStage):
    assert found(stage.ours) == found(stage.ours, PROPOSED) == []


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda hub: setattr(hub, "archived", True), "forge-archived"),
        (lambda hub: setattr(hub, "has_issues", False), "forge-issues"),
        (lambda hub: hub.rights.update(irontree="read"), "forge-access"),
        (lambda hub: hub.scopes.update(irontree="gist, read:org"), "forge-token"),
    ],
)
def test_what_would_refuse_the_issues_is_found_first(stage: GithubStage, change: Callable[[Hub], None], check: str):
    change(stage.hub)
    assert found(stage.ours) == found(stage.ours, PROPOSED) == [check]


@pytest.mark.parametrize(
    ("scopes", "private", "lacking"),
    [
        ("gist, repo", True, ()),
        ("public_repo", False, ()),
        ("public_repo", True, ("repo",)),
        ("", True, ()),
    ],
)
def test_the_scopes_of_a_classic_token_are_told_with_every_answer(
    stage: GithubStage, scopes: str, private: bool, lacking: tuple[str, ...]
):
    stage.hub.private, stage.hub.scopes = private, {"irontree": scopes}
    assert stage.ours.about().lacking_scopes == lacking


@pytest.mark.parametrize("rule", ["pull_request", "update", "required_status_checks", "merge_queue"])
def test_a_rule_that_forbids_pushes_is_found_and_hinders_no_request(stage: GithubStage, rule: str):
    stage.hub.rules["main"] = ["deletion", rule]
    assert found(stage.ours) == ["forge-protected"]
    assert found(stage.ours, PROPOSED) == []


def test_rules_about_other_things_and_branches_forbid_nothing(stage: GithubStage):
    stage.hub.rules |= {"main": ["deletion", "non_fast_forward"], "release": ["update"]}
    assert found(stage.ours) == []


@pytest.mark.parametrize(
    ("bypass", "may_push"), [("always", True), ("exempt", True), ("pull_requests_only", False), (None, False)]
)
def test_whoever_may_bypass_a_ruleset_may_push(stage: GithubStage, bypass: str | None, may_push: bool):
    stage.hub.rules["main"], stage.hub.bypass = ["pull_request"], bypass
    assert stage.ours.may_push("main") is may_push


def test_classic_protection_is_read_by_administrators(stage: GithubStage):
    stage.hub.protection["main"] = {"enforce_admins": {"url": f"{stage.server.url}/x", **ON}, "lock_branch": ON}
    assert found(stage.ours) == ["forge-protected"]
    stage.hub.rights["irontree"] = "write"
    assert found(stage.afresh()) == []


def test_a_branch_costs_two_calls_once_the_repository_is_known(stage: GithubStage):
    forge = stage.ours
    forge.about()
    with counted(stage.server) as calls:
        assert forge.may_push("main")
    assert calls.total == 2


def group(*users: str, teams: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"users": [{"login": user} for user in users], "teams": [{"slug": team} for team in teams], "apps": []}


@pytest.mark.parametrize(
    ("protection", "forbids"),
    [
        ({"required_pull_request_reviews": REVIEWS}, True),
        ({"required_pull_request_reviews": {**REVIEWS, "bypass_pull_request_allowances": group("IronTree")}}, False),
        ({"required_pull_request_reviews": {**REVIEWS, "bypass_pull_request_allowances": group("ada")}}, True),
        ({"restrictions": group("ada")}, True),
        ({"restrictions": group("irontree")}, False),
        ({"restrictions": group("ada", teams=("builders",))}, False),
        ({"required_status_checks": {"contexts": ["ci"]}}, True),
        ({"required_status_checks": {"contexts": [], "checks": []}}, False),
        ({"lock_branch": ON}, True),
        ({"lock_branch": OFF, "required_linear_history": ON, "allow_force_pushes": OFF}, False),
    ],
)
def test_what_classic_protection_forbids(protection: dict[str, Any], forbids: bool):
    assert protection_forbids({"enforce_admins": ON, **protection}, "irontree") is forbids
    assert not protection_forbids({"enforce_admins": OFF, **protection}, "irontree")
