"""What waits for a person: with since when, where it is shown, and the command from where we are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.app import App, Origin
from irontree.cli.context import program_for
from irontree.cli.inbox import waiting_json
from irontree.domain.decide import Halt
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.steps import perform, stop_at
from irontree.services.loops import loop as loops
from irontree.services.loops.choice import next_decision
from irontree.services.loops.loop import read_loops
from irontree.services.questions.commands import answers_to
from irontree.services.questions.listing import waiting
from irontree.services.questions.questions import oldest_first
from tests.support.world import MANUAL_TASK, Scene, make_scene


def by_run(scene: Scene, flow_run: str) -> App:
    """The ports as that flow run uses them."""
    return replace(scene.app, origin=Origin("irontree", "flow", flow_run=flow_run))


@pytest.fixture
def scene(tmp_path) -> Scene:
    """A task that only a person can judge, worked on by its run `3f`; the loop's run, `10`, halted there."""
    scene = make_scene(tmp_path)
    scene.preferences = replace(scene.preferences, tracker="https://forge.example/ada/texts")
    loop = scene.start(MANUAL_TASK)
    while not isinstance(found := next_decision(scene.app, loop.id), Halt):
        loops.resume(by_run(scene, "10"), loop.id)
        perform(by_run(scene, "3f"), found, loop.id)
    loops.halt(by_run(scene, "10"), loop.id, found)
    return scene


def test_where_the_loops_run_recorded_the_block_the_form_is_still_that_of_the_issues_run(scene):
    """Its run was cancelled, and could not record it itself."""
    with scene.driver.hold("answer"):
        answer_issue(scene.app, 1, Answer("send-back", by="ada", note="longer"), None)
    [loop] = read_loops(scene.app)[0]
    loops.resume(by_run(scene, "10"), loop.id)
    perform(by_run(scene, "3f"), next_decision(scene.app, loop.id), loop.id)
    stop_at(by_run(scene, "10"), 1, "its run was cancelled")
    [one] = waiting(scene.app, lambda run: f"http://ui/{run}")
    assert (one.reason, one.form_url) == ("blocked", "http://ui/3f")


def test_a_question_says_since_when_and_where_it_is_answered(scene):
    [one] = waiting(scene.app, lambda run: f"http://ui/{run}")
    assert one.repository == scene.root.name
    assert one.reason == "pending_acceptance"
    assert one.about == f"#{one.number} {one.title}"
    assert replace(one, document="SPEC.md").about == "SPEC.md"
    assert one.issue_url == f"https://forge.example/ada/texts/issues/{one.number}"
    assert one.form_url == "http://ui/3f"
    last = scene.log.read(one.number).records[-1]
    assert one.since == last.meta["time"]


def test_without_a_server_there_is_no_link_to_a_form(scene):
    assert [one.form_url for one in waiting(scene.app)] == [None]


def test_the_commands_work_from_outside_the_repository(scene):
    [one] = waiting(scene.app)
    commands = [command for _, command in answers_to(one, program_for(one.root))]
    assert f"irontree -C {scene.root} accept {one.number}" in commands
    assert [answer["command"] for answer in waiting_json(one)["answers"]] == commands


def test_what_was_asked_first_comes_first_whichever_repository_asks(scene):
    [one] = waiting(scene.app)
    other = replace(one, root=scene.root.parent / "other", since="2020-01-01T00:00:00Z")
    unknown = replace(one, root=scene.root.parent / "unknown", since=None)
    assert oldest_first([one, other, unknown]) == (unknown, other, one)


def test_an_answered_question_that_is_asked_again_is_another(scene):
    [one] = waiting(scene.app)
    assert one.identity != replace(one, since="2020-01-01T00:00:00Z").identity


def test_nothing_waits_where_nothing_was_asked(tmp_path):
    assert waiting(make_scene(tmp_path / "empty").app) == ()
