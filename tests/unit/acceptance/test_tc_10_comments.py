"""Acceptance cases TC-10.x: what is said on an issue, and what stays in the log."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.comments import marked_problems, status_problems
from irontree.domain.events import CATEGORY, ISSUE_EVENTS
from irontree.errors import RemoteUnavailable
from irontree.services.delivery.comments import comment_template, lint_comments
from irontree.services.delivery.deliver import deliver
from irontree.services.execution.checkup import Decider, accept, finalize
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from tests.support.views import TEMPLATES
from tests.support.world import MANUAL_TASK, ONE_TASK, Scene, does


def step(scene: Scene, action, *arguments):
    state = action(scene.app, 1, *arguments)
    deliver(scene.app, scene.world, 1)
    return state


def is_status(comment: str) -> bool:
    """Whether it is slim; a reply is prose."""
    return not status_problems(comment)


def test_tc_10_1_the_happy_path_leaves_at_most_one_comment(scene):
    scene.publish(ONE_TASK)
    for action in (run, verify, finalize):
        step(scene, action)
    assert scene.state().done
    assert len(scene.comments()) <= 1


def test_tc_10_2_silent_events_are_in_the_log_alone(scene):
    scene.publish(ONE_TASK)
    for action in (run, verify):
        step(scene, action)
    assert {CATEGORY[event] for event in scene.events()} == {"silent"}
    assert scene.comments() == []


def test_tc_10_3_an_audible_event_posts_one_slim_comment(scene):
    scene.publish(MANUAL_TASK)
    for action in (run, verify):
        step(scene, action)
    (comment,) = scene.comments()
    assert comment.splitlines()[0] == "⏸️ manual acceptance required — #1"
    assert marked_problems(comment) == ()


def test_tc_10_4_the_terminal_event_posts_no_status_comment(scene):
    scene.publish(MANUAL_TASK)
    for action, *arguments in ((run,), (verify,), (accept, Decider("ada")), (finalize,)):
        step(scene, action, *arguments)
    assert CATEGORY["checkup_done"] == "terminal"
    assert [is_status(comment) for comment in scene.comments()] == [True, False], "the pending acceptance, and a reply"


def test_tc_10_5_a_comment_that_cannot_be_posted_stops_nothing(scene):
    scene.publish(MANUAL_TASK)
    step(scene, run)
    scene.tracker.outage = "503"
    step(scene, verify)
    assert scene.state().workflow_entry_state == "pending_acceptance"
    assert "comment_post_failed: 503" in scene.deliveries.load(1).failures
    assert "stage_label_sync_failed: 503" in scene.deliveries.load(1).failures


@pytest.mark.parametrize("event", ISSUE_EVENTS)
def test_tc_10_6_every_event_is_of_one_category_and_exactly_the_audible_ones_have_a_comment(event):
    assert CATEGORY[event] in {"silent", "audible", "terminal"}
    assert (comment_template(event) in TEMPLATES) is (CATEGORY[event] == "audible")


def test_tc_10_7_a_stormy_history_leaves_only_comments_that_may_be_there(scene):
    """Retries, outages, a refused push, an acceptance: and nothing of the machine in any of it."""
    scene.agent = ScriptedAgent(does(greet_txt="nothing"), does(greet_txt="hello"))
    scene.publish(MANUAL_TASK)
    for action in (run, verify, run, verify):
        step(scene, action)
    scene.repository.failures += [RemoteUnavailable("cannot reach .mino/events of 0123456789abcdef")] * 3
    step(scene, accept, Decider("ada", "fine"))
    step(scene, accept, Decider("ada", "fine"))
    step(scene, finalize)
    assert scene.state().done
    assert [is_status(comment) for comment in scene.comments()] == [True, True, True, False]
    assert lint_comments(scene.app) == ()


def test_tc_4_4_where_closing_is_manual_the_issue_stays_open(scene):
    scene.publish(ONE_TASK.replace("## Greeting\n", "## Greeting\n\nType: bug\n"))
    for action in (run, verify, finalize):
        step(scene, action)
    assert scene.state().done
    assert scene.tracker.issues[1].state == "open"
