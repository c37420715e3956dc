"""What `sandbox` in the configuration may say, and what a plan has of it."""

from __future__ import annotations

import pytest

from irontree.config_file import read_config
from irontree.domain.agents import AgentSpec
from irontree.domain.places import OPEN, PlaceSpec
from irontree.domain.plan import ExecutionPolicy, PublishPolicy
from irontree.errors import ConfigRefused

IMAGE = f"sha256:{'ab' * 32}"


def policy(text, best="bubblewrap"):
    return read_config(text, "config.yml").policy(None, "main", lambda: best)


def test_the_machine_decides_where_the_file_does_not():
    assert policy("").agent.place.kind == "bubblewrap"
    assert policy("", best="none").agent.place == OPEN
    assert policy(f"container: {{image: '{IMAGE}'}}\n").agent.place.kind == "container"


@pytest.mark.parametrize("text", ["sandbox: none\n", "sandbox: {kind: none}\n"])
def test_the_file_decides_over_the_machine_also_by_a_word(text):
    found = policy(text)
    assert {found.place, found.agent.place, found.workspace.place} == {OPEN}


def test_a_container_needs_an_image():
    with pytest.raises(ConfigRefused, match="needs an image"):
        policy("sandbox: container\n")


@pytest.mark.parametrize(
    ("network", "agents", "checks"), [("all", True, True), ("agents", True, False), ("none", False, False)]
)
def test_who_has_the_network(network, agents, checks):
    found = policy(f"sandbox: {{network: {network}}}\nverify: {{reviewers: [{{name: second, command: look}}]}}\n")
    assert {found.agent.place.network, found.workspace.place.network, found.reviewers[0].place.network} == {agents}
    assert found.place.network == checks


@pytest.mark.parametrize("path", ["relative", "~", "~/", "/", "/..", "/a/../b", "~ada/x", "~/."])
def test_what_is_shown_is_a_path_below_the_root_or_the_home(path):
    with pytest.raises(ConfigRefused, match=r"sandbox\.read"):
        policy(f"sandbox: {{read: ['{path}']}}\n")


def test_a_plan_of_before_is_read_and_is_not_what_is_asked_for_now():
    """So its approval is asked again."""
    publish = PublishPolicy(target_branch="main")
    before = ExecutionPolicy.model_validate(
        {"agent": {"container": None}, "workspace": {"container": None}, "container": None, "publish": publish}
    )
    assert before == ExecutionPolicy(agent=AgentSpec(), publish=publish)
    now = before.model_copy(update={"place": PlaceSpec(kind="bubblewrap")})
    assert before.digest != now.digest
    assert "place" not in before.model_dump()


def test_a_plan_of_before_with_a_container_is_what_it_was():
    container = {"engine": "docker", "image": IMAGE}
    agent = AgentSpec.model_validate({"container": container})
    assert agent.place == policy(f"container: {{image: '{IMAGE}'}}\n").agent.place
