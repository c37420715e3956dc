"""An attempt that changes nothing on top of work that its target lacks: that work is still to be published (R15)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.decide import Run, Verify
from irontree.errors import AnswerRefused
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.steps import perform
from irontree.services.views.report import evidence_of
from tests.support.memory_project import push_from_elsewhere
from tests.support.requests import BRANCH, look, merge, request, requesting_scene, work
from tests.support.world import GREETING, ONE_TASK, Scene, accepts, does, sends_back


@pytest.fixture
def scene(tmp_path) -> Scene:
    return requesting_scene(tmp_path)


def sends_it_back(scene: Scene) -> None:
    answer_issue(scene.app, scene.number(), sends_back("longer"))


def closes_the_request(scene: Scene) -> None:
    """Between two looks, so that nobody is asked how to go on."""
    scene.forge("grace").edit_pull_request(request(scene).number, state="closed")


def deletes_the_branch(scene: Scene) -> None:
    closes_the_request(scene)
    del scene.repository.remote[BRANCH]


def says_so_of_the_closed_request(scene: Scene) -> None:
    closes_the_request(scene)
    look(scene)
    assert scene.state().blocking_check == "request-closed"
    answer_issue(scene.app, scene.number(), Answer("go-on", "ada"))
    perform(scene.app, Verify(GREETING))


def idles(scene: Scene) -> None:
    """One more attempt, which changes nothing."""
    scene.agent = ScriptedAgent(lambda _: None)
    work(scene)


def others_push_in_mid_attempt(scene: Scene) -> None:
    perform(scene.app, Run(GREETING))
    push_from_elsewhere(scene.repository, {"extra.txt": b"by hand"}, BRANCH)
    perform(scene.app, Verify(GREETING))
    assert scene.state().blocking_check == "request-branch-moved"
    answer_issue(scene.app, scene.number(), Answer("go-on", "ada"))


IDLE_WAYS = {
    "sent back": (sends_it_back, idles),
    "closed afterwards": (sends_it_back, idles, says_so_of_the_closed_request),
    "closed before it ran": (sends_it_back, closes_the_request, idles),
    "its branch deleted before it ran": (sends_it_back, deletes_the_branch, idles),
    "twice in a row": (sends_it_back, idles, sends_it_back, idles, says_so_of_the_closed_request),
    "its branch deleted between two of them": (sends_it_back, idles, sends_it_back, deletes_the_branch, idles),
    "retried on top of what others pushed": (sends_it_back, others_push_in_mid_attempt, idles),
}


@pytest.mark.parametrize("ways", IDLE_WAYS.values(), ids=IDLE_WAYS.keys())
def test_an_attempt_that_changes_nothing_keeps_the_earlier_work_proposed_until_it_is_merged(scene: Scene, ways):
    scene.policy = scene.policy.model_copy(update={"max_retry_count": 5})
    work(scene)
    for happens in ways:
        happens(scene)
    assert scene.events()[-1] == "verify_pending_acceptance"
    assert (request(scene).state, scene.state().request) == ("open", request(scene).number)
    with pytest.raises(AnswerRefused, match="is not merged yet"):
        answer_issue(scene.app, scene.number(), accepts())
    merged = merge(scene)
    look(scene)
    assert (scene.events()[-1], scene.state().code_ref) == ("checkup_accept_recorded", merged)
    assert b"hello" in scene.repository.commits[scene.repository.remote["main"]].files["greet.txt"]


def test_what_others_pushed_to_the_branch_before_is_proposed_by_an_attempt_that_adds_nothing(scene: Scene):
    scene.publish(ONE_TASK)
    scene.repository.remote[BRANCH] = scene.repository.remote["main"]
    theirs = push_from_elsewhere(scene.repository, {"greet.txt": b"hello"}, BRANCH)
    idles(scene)
    assert (request(scene).state, request(scene).head_sha) == ("open", theirs)


def test_work_that_was_proposed_is_published_where_the_mode_is_changed_and_the_next_attempt_adds_nothing(scene: Scene):
    work(scene)
    sends_it_back(scene)
    publish = scene.policy.publish.model_copy(update={"mode": "direct"})
    scene.policy = scene.policy.model_copy(update={"publish": publish})
    scene.publish(ONE_TASK)
    idles(scene)
    assert scene.state().has_code


def test_what_is_shown_is_all_that_the_merge_brings_not_the_last_attempt_alone(scene: Scene):
    scene.agent = ScriptedAgent(does(greet_txt="hello"), does(more_txt="more"))
    work(scene)
    sends_it_back(scene)
    work(scene)
    assert [count.path for count in evidence_of(scene.app, scene.state()).files] == ["greet.txt", "more.txt"]
    sends_it_back(scene)
    idles(scene)
    assert [count.path for count in evidence_of(scene.app, scene.state()).files] == ["greet.txt", "more.txt"]
    posted = scene.tracker.comments[scene.number()][-1].body
    assert "Nothing was changed" not in posted
    assert "The agent changed nothing in answer to “longer”" in posted
