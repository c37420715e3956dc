"""Requests of work that was given up are closed, once (R7, R9, R15)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.domain.decide import Run
from irontree.errors import ConfigRefused
from irontree.ports import Forge
from irontree.services.answers.answers import Answer
from irontree.services.execution.merging import lift_draft
from irontree.services.execution.steps import catch_up, perform
from irontree.services.loops.loop import Loop, cancel, skip
from tests.support.issues import CLEAR, authorise, edit, write
from tests.support.requests import look, merge, request, requesting_scene, work
from tests.support.world import GREETING, ONE_TASK, Scene, prepared

CHANGED = ONE_TASK.replace("it says hello `", "it says hello to all `")
BOTH = f"{ONE_TASK}\n## Close\n\n- [ ] closed `$ has close.txt`\n"
WITHOUT = "# Toy\n\n## Close\n\n- [ ] closed `$ has close.txt`\n"


@pytest.fixture
def scene(tmp_path) -> Scene:
    return requesting_scene(tmp_path)


def said(scene: Scene, number: int = 2) -> list[str]:
    """What stands on the request."""
    return [comment.body.partition("\n")[0] for comment in scene.tracker.comments.get(number, [])]


@pytest.mark.parametrize(("text", "why"), [(CHANGED, "approved anew"), (WITHOUT, "approved without it")])
def test_the_request_of_work_that_was_given_up_is_closed_with_the_reason(scene: Scene, text: str, why: str):
    work(scene)
    scene.publish(text)
    look(scene)
    assert scene.forge_seen.read_pull_request(2).state == "closed"
    assert [why in line for line in said(scene)] == [True]


def test_what_a_person_opens_again_after_that_stays_open(scene: Scene):
    work(scene)
    scene.publish(CHANGED)
    look(scene)
    scene.forge("grace").edit_pull_request(2, state="open")
    look(scene)
    assert scene.forge_seen.read_pull_request(2).state == "open"


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_is_caught_up_with_and_says_nothing_twice(scene: Scene, lost: int):
    work(scene)
    scene.publish(CHANGED)
    scene.tracker.lost_answers = lost
    look(scene)
    look(scene)
    look(scene)
    assert scene.forge_seen.read_pull_request(2).state == "closed"
    assert len(said(scene)) == 1


def test_what_was_merged_is_left_as_it_is(scene: Scene):
    work(scene)
    scene.publish(CHANGED)
    merge(scene)
    look(scene)
    assert said(scene) == []


def test_the_request_of_a_task_that_goes_on_is_left_alone(scene: Scene):
    work(scene)
    look(scene)
    assert scene.forge_seen.read_pull_request(2).state == "open"
    assert said(scene) == []


def skipped_after_it_was_proposed(scene: Scene) -> Loop:
    """Its loop has another task left, so it goes on."""
    loop = scene.start(BOTH)
    scene.drive(loop)
    skip(scene.app, loop.id, GREETING, "grace")
    look(scene)
    return loop


def test_the_request_of_a_task_that_is_skipped_is_closed_and_nobody_is_asked_why(scene: Scene):
    skipped_after_it_was_proposed(scene)
    look(scene)
    assert request(scene).state == "closed"
    assert ["skipped" in line for line in said(scene, request(scene).number)] == [True]
    assert scene.events()[-1] == "verify_pending_acceptance"


def test_who_merges_what_was_skipped_accepts_it_all_the_same(scene: Scene):
    loop = scene.start(BOTH)
    scene.drive(loop)
    merge(scene)
    skip(scene.app, loop.id, GREETING, "grace")
    look(scene)
    assert scene.events()[-1] == "checkup_accept_recorded"
    assert said(scene, request(scene).number) == []


def test_what_was_skipped_and_is_asked_for_again_is_proposed_again_at_a_persons_word(scene: Scene):
    loop = skipped_after_it_was_proposed(scene)
    cancel(scene.app, loop.id, "grace")
    closed, again = request(scene), scene.start(BOTH)
    scene.drive(again)
    assert scene.state().blocking_check == "request-closed"
    scene.drive(again, prepared(Answer("go-on", "grace")))
    assert scene.events()[-1] == "verify_pending_acceptance"
    assert request(scene).state == "open"
    assert request(scene).number != closed.number


def there_is_no_token() -> Forge:
    raise ConfigRefused("GITHUB_TOKEN is not set", remedy="set it")


@pytest.mark.parametrize("there", ["an open request", "one to withdraw", "one to make ready"])
def test_a_forge_that_cannot_be_had_keeps_no_work_from_going_on(scene: Scene, there: str):
    """R9: what is due there is done the next time."""
    work(scene, BOTH)
    if there == "one to withdraw":
        scene.publish(WITHOUT)
    app = replace(scene.app, forge=there_is_no_token)
    if there == "one to make ready":
        lift_draft(app, scene.state())
    with app.driver.hold("look"):
        catch_up(app)
    assert any("GITHUB_TOKEN is not set" in note for note in scene.notes.lines)
    assert perform(app, Run("close")).last_event == "run_completed"


def test_an_adopted_issue_that_cannot_be_compared_keeps_no_work_from_going_on(scene: Scene):
    write(scene)
    authorise(scene, 1)
    edit(scene, 1, body=f"{CLEAR}- [ ] it is kind `$ has greet.txt hello`\n")
    perform(scene.app, Run(GREETING))
    assert scene.events()[-1] == "task_reapproval_required"
    with scene.driver.hold("look"):
        catch_up(replace(scene.app, forge=there_is_no_token))
    assert scene.events()[-1] == "task_reapproval_required"
