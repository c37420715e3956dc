"""`publish.merge: approved`: we merge what a person approved and CI passed, and nothing else; they have accepted it."""

from __future__ import annotations

from typing import Any

import pytest

from irontree.config import Config
from irontree.config_file import read_config
from irontree.domain.agents import Member
from irontree.domain.gates import Gate, Gates
from irontree.errors import ConfigRefused, RemoteFailed
from irontree.ports import CommitCheck
from irontree.services.proposals.approval import approval_text
from tests.support.forges import hand_in
from tests.support.issues import resolved, write
from tests.support.memory_project import push_from_elsewhere
from tests.support.requests import BRANCH, Refusing, look, merge, request, requesting_scene, work
from tests.support.watching import Killed, Side, Watched, dying_at
from tests.support.world import Scene


class Merging:
    """A forge whose merges move the target."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._forge = scene, scene.forge_seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._forge, name)

    def merge_pull_request(self, number: int, head_sha: str) -> None:
        assert self._forge.read_pull_request(number).head_sha == head_sha
        merge(self._scene, by="us")


@pytest.fixture
def scene(tmp_path) -> Scene:
    """Work that is proposed; the plan says that we merge. Ada and grace have write access, the member has too."""
    made = requesting_scene(tmp_path)
    made.tracker.writers |= {"ada", "coder-bot"}
    publish = made.policy.publish.model_copy(update={"merge": "approved"})
    team = (Member(name="coder", command=("coder",), account="coder-bot", role="reviewer", kinds=("docs",)),)
    made.policy = made.policy.model_copy(update={"publish": publish, "team": team})
    made.forge_seen = Merging(made)
    work(made)
    return made


def review(scene: Scene, by: str = "grace", verdict: str = "approved") -> None:
    hand_in(scene.tracker, request(scene).number, by, verdict, "")


def check(scene: Scene, state: str = "success", name: str = "build") -> None:
    scene.tracker.check(request(scene).head_sha, CommitCheck(name, state, ""))


def is_merged(scene: Scene) -> bool:
    for _ in range(2):  # the first makes it ready
        look(scene)
    return request(scene).merged


def test_what_a_person_approved_is_merged_and_accepted_by_them(scene: Scene):
    assert not is_merged(scene)
    check(scene)
    review(scene)
    assert is_merged(scene)
    accepted = scene.last()
    assert accepted.event.event == "checkup_accept_recorded"
    assert (accepted.meta["by"], accepted.meta["channel"], accepted.meta["merged_by"]) == ("grace", "merge", "us")


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(("port", "method"), [("forge_seen", "merge_pull_request"), ("log", "append")])
def test_killed_around_any_effect_it_is_merged_once_and_accepted_by_who_approved(
    scene: Scene, port: str, method: str, side: Side
):
    assert not is_merged(scene)
    review(scene)
    merges: list[str] = []
    scene.forge_seen = Watched(scene.forge_seen, ["merge_pull_request"], lambda _, now: merges.append(now))
    real = getattr(scene, port)
    setattr(scene, port, Watched(real, [method], dying_at(side, 1)))
    with pytest.raises(Killed):
        look(scene)
    setattr(scene, port, real)
    assert is_merged(scene)
    assert merges == ["before", "after"]
    assert scene.events().count("checkup_accept_recorded") == 1
    assert [record.meta["by"] for record in scene.records() if "accept_recorded" in record.event.event] == ["grace"]


@pytest.mark.parametrize("by", ["mallory", "us", "coder-bot"])
def test_neither_outsiders_nor_we_nor_members_approve(scene: Scene, by: str):
    review(scene, by)
    assert not is_merged(scene)


@pytest.mark.parametrize("state", ["pending", "failure"])
def test_ci_that_is_not_green_waits_or_sends_back(scene: Scene, state: str):
    check(scene)
    check(scene, state, "lint")
    review(scene)
    assert not is_merged(scene)


def test_where_ci_is_expected_it_has_to_have_begun(scene: Scene):
    scene.tracker.check(scene.state().base_sha, CommitCheck("build", "success", ""))
    review(scene)
    assert not is_merged(scene)
    check(scene)
    assert is_merged(scene)


def test_the_newest_word_of_each_person_counts_and_comments_are_none(scene: Scene):
    review(scene)
    review(scene, verdict="commented")
    review(scene, "ada", "dismissed")
    assert is_merged(scene)


def test_somebody_who_asks_for_changes_outweighs_an_approval(scene: Scene):
    review(scene)
    review(scene, "ada", "changes_requested")
    assert not is_merged(scene)


def test_an_approval_of_an_earlier_commit_or_of_one_that_was_not_verified_is_none(scene: Scene):
    review(scene)
    push_from_elsewhere(scene.repository, {"extra.txt": b"by hand"}, BRANCH)
    assert not is_merged(scene)
    review(scene)
    assert not is_merged(scene)


def test_what_the_forge_refuses_is_told_and_tried_again(scene: Scene):
    review(scene)
    willing = scene.forge_seen
    scene.forge_seen = Refusing(willing, "merge_pull_request", RemoteFailed("the branch is protected"))
    assert not is_merged(scene)
    assert scene.notes.lines[-1] == "request #2, which grace approved, is not merged yet: the branch is protected"
    scene.forge_seen = willing
    assert is_merged(scene)


def test_a_merge_that_was_cut_off_before_it_was_recorded_is_still_the_reviewers_acceptance(scene: Scene):
    review(scene)
    merge(scene, by="us")
    look(scene)
    assert scene.last().meta["by"] == "grace"


def test_the_approval_says_that_requests_are_merged(scene: Scene):
    says = "**Each request is merged without another question**"
    wanted = resolved(scene, write(scene, "Another"))
    assert says in approval_text(scene.app, wanted, loop_mode=True, answer="")
    scene.policy = scene.policy.model_copy(update={"publish": scene.policy.publish.model_copy(update={"merge": None})})
    wanted = resolved(scene, 3)
    assert says not in approval_text(scene.app, wanted, loop_mode=True, answer="")


def test_behind_a_gate_of_acceptances_and_without_the_setting_people_merge(tmp_path):
    for name, change in (("gate", {"gates": Gates(acceptance=Gate())}), ("unset", {})):
        made = requesting_scene(tmp_path / name)
        publish = made.policy.publish.model_copy(update={"merge": "approved" if change else None})
        made.policy = made.policy.model_copy(update={"publish": publish, **change})
        made.forge_seen = Merging(made)
        work(made)
        review(made)
        assert not is_merged(made)


def test_unset_it_is_in_no_digest_and_set_it_needs_requests_on_a_forge():
    assert "merge" not in Config().policy("origin", "main").publish.model_dump()
    wanted = "publish: {mode: pull_request, merge: approved}\nforge: {adapter: gitea}\n"
    assert read_config(wanted, "config.yml").policy("origin", "main").publish.merge == "approved"
    for text in ("publish: {merge: approved}\nforge: {adapter: gitea}\n", wanted.replace("gitea", "local")):
        with pytest.raises(ConfigRefused, match=r"publish\.merge"):
            read_config(text, "config.yml").policy("origin", "main")
