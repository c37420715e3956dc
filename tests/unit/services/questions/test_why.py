"""`why` says in plain words where a task stands, by which rule, and what happened to it."""

from __future__ import annotations

import pytest

from irontree.errors import NotEligible
from irontree.services.answers.answers import Answer
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.questions.listing import explain
from tests.support.world import CLOSE, GREETING, MANUAL_TASK, ONE, ONE_TASK, PARTS, SPEC, TWO, Scene, accepts, prepared


def standing(scene: Scene, key: str) -> tuple[str, str]:
    found = explain(scene.app, key)
    return found.standing, found.because


def test_what_nobody_knows_is_refused(scene):
    with pytest.raises(NotEligible, match="nobody"):
        explain(scene.app, "nobody")


def test_each_task_of_a_new_tree_says_what_it_needs_and_one_is_next(scene):
    scene.start(SPEC)
    assert standing(scene, GREETING) == ("next", "what comes: an attempt")
    assert standing(scene, ONE) == ("waiting", "it needs greeting")
    assert standing(scene, PARTS) == ("waiting", "it needs parts-part-one, parts-part-two")
    assert standing(scene, CLOSE) == ("waiting", "it needs parts-part-one, parts-part-two")


def test_an_issue_in_progress_comes_before_one_that_is_ready(scene):
    scene.publish(ONE_TASK + "\n## Second\n\n- [ ] too `$ has two.txt`\n")
    run(scene.app, 1)
    assert standing(scene, GREETING) == ("next", "what comes: the checks at its commit, then publication")
    assert standing(scene, "second") == ("ready", "greeting comes first")


def test_a_task_that_waits_for_a_person_says_for_what_and_what_may_be_said(scene):
    scene.drive(scene.start(MANUAL_TASK))
    found = explain(scene.app, GREETING)
    assert (found.standing, found.because) == ("blocked", "your acceptance is needed")
    assert found.rule == "a person decides; the choices are: accept, reject, skip, stop"
    assert found.events[-1].startswith("4. waits for a person")


def test_others_that_could_start_say_at_what_the_loop_halted(scene):
    scene.drive(scene.start(MANUAL_TASK + "\n## Second\n\n- [ ] too `$ has two.txt`\n"))
    assert standing(scene, "second") == ("ready", "the loop has halted at greeting: pending acceptance")


def test_once_its_loop_was_stopped_a_task_waits_for_commands_alone(scene):
    loop = scene.start(MANUAL_TASK + "\n## Second\n\n- [ ] too `$ has two.txt`\n")
    scene.drive(loop, prepared(Answer("stop", "ada")))
    assert standing(scene, "second") == ("ready", f"loop {loop.id} was stopped: it waits for `irontree run issue-2`")
    asked = explain(scene.app, GREETING)
    assert (asked.standing, asked.because) == ("blocked", "your acceptance is needed")
    said = f"loop {loop.id} was stopped and asks no questions; the choices of `irontree answer 1` are: accept, reject"
    assert asked.rule == said


def test_without_a_loop_nothing_halts_what_may_start(scene):
    scene.publish(MANUAL_TASK + "\n## Second\n\n- [ ] too `$ has two.txt`\n")
    run(scene.app, 1)
    verify(scene.app, 1)
    assert standing(scene, "second") == ("ready", "no loop has it: it waits for `irontree run issue-2`")


def test_done_names_its_evidence(scene):
    scene.drive(scene.start(ONE_TASK))
    found = explain(scene.app, GREETING)
    said = f"verified, published as commit {scene.state().code_ref[:7]} on main, 1 check passed"
    assert (found.standing, found.because) == ("done", said)
    assert found.events[-1] == "5. done"


def test_an_accepted_task_names_who_accepted_it_where_and_what_was_published(scene):
    scene.drive(scene.start(MANUAL_TASK), prepared(accepts()))
    published = f"published as commit {scene.state().code_ref[:7]} on main"
    said = f"accepted by ada on the command line, {published}, 1 check passed"
    assert standing(scene, GREETING) == ("done", said)


def test_a_skipped_task_and_what_depends_on_it_say_which_loop_leaves_them_out(scene):
    loop = scene.start(SPEC)
    scene.drive(loop, prepared(Answer("skip", "ada")))
    for key in (TWO, PARTS, CLOSE):
        assert standing(scene, key) == ("skipped", f"loop {loop.id} leaves it out")
    assert standing(scene, ONE)[0] == "done"
