"""A loop with `loop.on_halt: go_on` (R17): what waits stops only what depends on it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.decide import Halt
from irontree.errors import Busy
from irontree.services.answers.answers import ANSWERING, Answer, answer_issue, between_steps, give_way
from irontree.services.answers.comments import look
from irontree.services.execution.steps import next_step, perform
from irontree.services.loops import loop as loops
from irontree.services.loops.choice import may_go_on, next_decision
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.sources import propose
from irontree.services.questions.questions import open_questions, questions_beside
from irontree.services.views.overview import overview
from irontree.store.memory import MemoryLock
from tests.support.world import Scene, accepts, nobody

SPEC = """\
# Toy

## One

- [ ] it is friendly (manual)

## Two

- [ ] it is friendly (manual)

## Three

- [ ] it is there `$ has three.txt hello`

## Four

Depends on: One

- [ ] it is there `$ has four.txt hello`
"""


@pytest.fixture
def scene(scene: Scene) -> Scene:
    scene.policy = scene.policy.model_copy(update={"on_halt": "go_on"})
    scene.agent = ScriptedAgent(_write)
    return scene


def _write(task) -> None:
    (task.workspace / f"{task.task_key}.txt").write_text("hello\n")


def test_it_halts_when_only_waiting_issues_and_what_depends_on_them_are_left(scene):
    loop = scene.start(SPEC)
    assert scene.drive(loop) == Halt("pending_acceptance", "one", waiting=("one", "two"))
    assert scene.state("three").done
    assert not scene.state("four").started
    assert scene.loop_events(loop) == ["loop_started", "loop_halted"]
    halted = scene.loops.read(loop.id).records[-1]
    assert (halted.event.halt_at_task_key, halted.told.waiting) == ("one", ("one", "two"))


def test_the_answer_to_any_of_them_lets_a_halted_loop_go_on(scene):
    loop = scene.start(SPEC)
    scene.drive(loop)
    assert not may_go_on(scene.app, loop.id)
    answer_issue(scene.app, scene.number("two"), accepts(), loop.id)
    assert may_go_on(scene.app, loop.id)
    assert scene.drive(loop) == Halt("pending_acceptance", "one", waiting=("one",))
    assert scene.state("two").done
    answer_issue(scene.app, scene.number("one"), accepts(), loop.id)
    assert scene.drive(loop).reason == "goal_reached"
    assert scene.state("four").done


def test_a_loop_that_halted_for_another_reason_does_not_go_on_by_itself(scene):
    """A run that a person cancelled, or a budget: these are not answered by what happens to an issue."""
    loop = scene.start(SPEC)
    loops.halt(scene.app, loop.id, Halt("blocked", detail="the run of the loop was cancelled in Prefect"))
    assert not isinstance(next_decision(scene.app, loop.id), Halt)
    assert not may_go_on(scene.app, loop.id)


def until_one_waits(scene: Scene) -> loops.Loop:
    loop = scene.start(SPEC)
    for _ in range(2):
        perform(scene.app, next_decision(scene.app, loop.id), loop.id)
    assert scene.state("one").phase == "waiting for acceptance"
    return loop


def test_while_one_waits_another_is_worked_on_and_both_are_shown(scene):
    loop = until_one_waits(scene)
    rows = {row.task_key: row.asks for row in overview(scene.app).issues}
    [question] = open_questions(scene.app, scene.world, [loops.read_loop(scene.app, loop.id)])
    assert (rows["one"], question.task_key, question.loop_id) == ("pending_acceptance", "one", loop.id)
    assert [q.key for q in questions_beside(scene.world, loop)] == [question.key]
    assert next_decision(scene.app, loop.id).task_key == "two"
    assert overview(scene.app).loops[0].status == "running"


def test_what_was_answered_comes_next_and_nothing_else_takes_its_turn(scene):
    loop = until_one_waits(scene)
    answer_issue(scene.app, scene.number("one"), Answer("send-back", "ada", note="longer"), loop.id)
    decision = next_decision(scene.app, loop.id)
    assert decision.task_key == "one"
    assert next_step(scene.app, scene.number("one"), loop.id) == decision
    assert next_step(scene.app, scene.number("two"), loop.id).reason.endswith("comes first in its loop")


def test_skipping_it_while_the_loop_runs_takes_what_depends_on_it_along(scene):
    loop = until_one_waits(scene)
    answer_issue(scene.app, scene.number("one"), Answer("skip", "ada"), loop.id)
    assert loops.read_loop(scene.app, loop.id).keys == ("two", "three")
    assert scene.drive(loop) == Halt("pending_acceptance", "two", waiting=("two",))
    assert scene.loop_events(loop) == ["loop_started", "loop_cancelled", "loop_cancelled", "loop_halted"]


def test_stopping_the_loop_in_its_question_leaves_nothing_to_do(scene):
    loop = until_one_waits(scene)
    step = next_decision(scene.app, loop.id)
    answer_issue(scene.app, scene.number("one"), Answer("stop", "ada"), loop.id)
    assert next_step(scene.app, scene.number(step.task_key), loop.id).reason == "its loop is cancelled"


def test_its_comment_is_an_answer_while_the_loop_runs(scene):
    loop = until_one_waits(scene)
    scene.tracker.writers |= {"alice"}
    scene.forge("alice").post_comment(scene.number("one"), "/accept")
    assert [found.outcome for found in look(scene.app)] == ["taken"]
    assert scene.drive(loop, nobody) == Halt("pending_acceptance", "two", waiting=("two",))
    assert scene.state("four").done


def test_the_plan_says_so_in_plain_words_and_only_then(scene):
    path = scene.root / "SPEC.md"
    path.write_text(SPEC)
    words = "While an issue waits for you, the loop goes on with the tasks that do not depend on it."
    assert words in approval_text(scene.app, propose(scene.app, path), loop_mode=True, answer="yes")
    scene.policy = scene.policy.model_copy(update={"on_halt": "stop"})
    assert words not in approval_text(scene.app, propose(scene.app, path), loop_mode=True, answer="yes")
    assert "on_halt" not in scene.policy.model_dump()


# --- answers and steps take turns -----------------------------------------------------------------------------


def test_who_answers_while_a_step_is_taken_is_announced_and_let_go_first(scene):
    lock = MemoryLock(scene.clock)
    app = replace(scene.app, alive={ANSWERING: lock}.__getitem__)
    order: list[str] = []

    def answer() -> None:
        with between_steps(app, "issue-1, answer", wait_seconds=30):
            order.append("answer")

    with app.driver.hold("issue-2, run"):
        with pytest.raises(Busy, match="issue-2, run"), between_steps(app, "issue-1, answer"):
            pytest.fail("it has the lock")
        answering = threading.Thread(target=answer)
        answering.start()
        while lock.holder() is None:
            time.sleep(0.01)
        step = threading.Thread(target=lambda: (give_way(app), order.append("step")))
        step.start()
        assert order == []
    answering.join()
    step.join()
    assert order == ["answer", "step"]
