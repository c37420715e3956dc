"""Loop Mode and stepwise commands leave the same history but for the loop's own markers (protocol, Invariants)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.decide import Halt, decide
from irontree.services.answers.answers import answer_issue
from irontree.services.execution.steps import perform
from irontree.services.record import read_world
from tests.support.world import GREETING, Scene, accepts, does, make_scene, prepared, sends_back, writes_what_is_asked

ANSWERS = (sends_back("prettier"), accepts("fine"))


def forgetful(task: Any) -> None:
    """The first attempt at the greeting fails: retry. One part is for a person to judge, another is an aggregate."""
    if task.task_key == GREETING and task.attempt == 1:
        return does(greet_txt="bye")(task)
    return writes_what_is_asked(task)


def in_a_loop(scene: Scene) -> Scene:
    scene.agent = ScriptedAgent(forgetful)
    assert scene.drive(scene.start(), prepared(*ANSWERS)).reason == "goal_reached"
    return scene


def step_by_step(scene: Scene) -> Scene:
    """What somebody does who types what each command says is next."""
    scene.agent = ScriptedAgent(forgetful)
    scene.publish()
    answers = list(ANSWERS)
    while not isinstance(step := decide(read_world(scene.app).scope(scene.world.states)), Halt) or step.task_key:
        if isinstance(step, Halt):
            with scene.driver.hold("answer"):
                answer_issue(scene.app, scene.number(step.task_key), answers.pop(0))
        else:
            perform(scene.app, step)
    assert step.reason == "goal_reached"
    return scene


def events(scene: Scene) -> Iterator[dict[str, Any]]:
    """Every event of every issue, in words of its contract block; commits by their order of appearance."""
    commits: dict[str, str] = {}
    for number in scene.log.streams():
        for record in scene.log.read(number).records:
            block = record.event.model_dump(mode="json")
            for name in ("code_ref", "verify_anchor_sha"):
                if len(block.get(name) or "") == 40:
                    block[name] = commits.setdefault(block[name], f"commit {len(commits) + 1}")
            yield block


def meta_keys(scene: Scene) -> list[list[str]]:
    return [sorted(record.meta) for number in scene.log.streams() for record in scene.log.read(number).records]


@pytest.fixture
def both(tmp_path: Path) -> tuple[Scene, Scene]:
    return in_a_loop(make_scene(tmp_path / "loop")), step_by_step(make_scene(tmp_path / "steps"))


def test_pass_retry_acceptance_and_aggregation_leave_the_same_events_both_ways(both):
    loop, steps = both
    assert list(events(loop)) == list(events(steps))
    assert meta_keys(loop) == meta_keys(steps)
    names = {block["event"] for block in events(loop)}
    assert {"verify_failed_retryable", "verify_pending_acceptance", "checkup_accept_recorded"} <= names
    assert {"checkup_aggregate_recorded", "verify_passed", "checkup_done"} <= names


def test_only_the_loop_has_loop_markers(both):
    loop, steps = both
    [loop_id] = loop.loops.ids()
    assert [record.event.event for record in loop.loops.read(loop_id).records] == [
        *("loop_started", "loop_halted", "loop_resumed", "loop_halted", "loop_resumed", "loop_completed"),
    ]
    assert steps.loops.ids() == ()


def test_the_forge_shows_the_same_both_ways(both):
    loop, steps = both
    shown = [
        [(i.title, i.state, sorted(i.labels), len(scene.tracker.comments.get(i.number, ()))) for i in issues]
        for scene in both
        if (issues := scene.tracker.issues.values())
    ]
    assert shown[0] == shown[1]
    assert loop.repository.remote.keys() == steps.repository.remote.keys()
