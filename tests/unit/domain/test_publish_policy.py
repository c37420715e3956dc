"""Where verified code goes, and the branch that a plan may have of its own."""

from __future__ import annotations

import pytest

from irontree.config_file import read_config
from irontree.domain.plan import PublishPolicy, canonical_json
from irontree.errors import ConfigRefused

MAIN = PublishPolicy(remote="origin", target_branch="main")
START = "1" * 40
OWN = MAIN.on_own_branch("hotl/greeting", START)


def test_what_is_not_set_changes_no_digest():
    assert canonical_json(MAIN.model_dump()) == '{"mode":"direct","remote":"origin","target_branch":"main"}'


def test_a_branch_of_its_own_says_where_it_starts_and_what_it_stands_in_for():
    assert (OWN.target_branch, OWN.branch_from, OWN.merge_into) == ("hotl/greeting", START, "main")


def test_it_stays_whatever_the_configuration_names_and_all_else_is_compared():
    develop = PublishPolicy(remote="upstream", target_branch="develop", mode="pull_request")
    assert develop.where(OWN) == OWN.model_copy(update={"remote": "upstream", "mode": "pull_request"})
    assert develop.where(MAIN) == develop.where(None) == develop


@pytest.mark.parametrize(("mode", "pushes"), [("direct", True), ("pull_request", False)])
def test_only_other_branches_are_proposed_for_each_task(mode, pushes):
    policy = MAIN.model_copy(update={"mode": mode})
    assert policy.pushes is pushes
    assert policy.on_own_branch("hotl/greeting").pushes


def test_the_branch_of_a_request_is_nobodys_own():
    assert OWN.on_branch("fix/12-log-in") == MAIN.on_branch("fix/12-log-in")


@pytest.mark.parametrize("key", ["branch_from", "merge_into"])
def test_neither_is_a_key_of_the_configuration(key):
    with pytest.raises(ConfigRefused, match=key):
        read_config(f"publish: {{{key}: main}}\n".encode(), "config.yml")
