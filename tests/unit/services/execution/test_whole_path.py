"""The whole path on the pure driver, with doubles: from a document to `done` by evidence."""

from __future__ import annotations

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.decide import Halt
from tests.support.world import (
    CLOSE,
    GREETING,
    ONE,
    PARTS,
    TWO,
    accepts,
    does,
    prepared,
    sends_back,
    writes_what_is_asked,
)


def test_a_document_becomes_published_code_and_a_complete_log(scene):
    def agent(task):
        if task.task_key == GREETING and task.attempt == 1:
            return does(greet_txt="bye")(task)
        return writes_what_is_asked(task)

    scene.agent = ScriptedAgent(agent)
    loop = scene.start()
    ended = scene.drive(loop, prepared(sends_back("prettier"), accepts("fine")))
    assert ended == Halt("goal_reached")
    run = ["run_started", "run_completed"]
    assert scene.events(GREETING) == [
        *("task_published", *run, "verify_failed_retryable", *run, "verify_passed", "checkup_done"),
    ]
    assert scene.events(TWO) == [
        *("task_published", *run, "verify_pending_acceptance", "verify_failed_retryable"),
        *(*run, "verify_pending_acceptance", "checkup_accept_recorded", "checkup_done"),
    ]
    assert scene.events(PARTS) == ["task_published", "checkup_aggregate_recorded", "checkup_done"]
    assert scene.events(ONE)[-1] == scene.events(CLOSE)[-1] == "checkup_done"
    assert scene.loop_events(loop) == [
        *("loop_started", "loop_halted", "loop_resumed", "loop_halted", "loop_resumed", "loop_completed")
    ]
    messages = [
        scene.repository.commits[sha].message for sha in scene.repository.history(scene.repository.remote["main"])
    ]
    assert [text.splitlines()[0] for text in reversed(messages[:-1])] == [
        *("[run] #1: Greeting", "[run] #3: Part one", "[run] #4: Part two", "[run] #5: Close")
    ]
