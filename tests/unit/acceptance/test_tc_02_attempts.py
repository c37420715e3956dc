"""Acceptance cases TC-2.x: attempts, the runway, and dependencies."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.decide import Run, Verify
from irontree.domain.halt import concerns_one_issue
from irontree.domain.state import Phase
from irontree.errors import NotEligible
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.run import run
from irontree.services.execution.steps import next_step, perform
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.sources import propose
from irontree.services.questions.listing import list_questions
from irontree.services.work.preflight import block
from tests.support.world import CLOSE, GREETING, ONE, ONE_TASK, SPEC, Scene, does


def attempt(scene: Scene, says: str) -> None:
    scene.agent = ScriptedAgent(does(greet_txt=says))
    perform(scene.app, Run(GREETING))
    perform(scene.app, Verify(GREETING))


def test_tc_2_1_the_second_attempt_passes_and_the_history_is_whole(scene):
    scene.publish(ONE_TASK)
    attempt(scene, "bye")
    state = scene.state()
    assert (state.pass_fail_outcome, state.attempt_count) == ("fail_retryable", 1)
    attempt(scene, "hello")
    assert (scene.state().pass_fail_outcome, scene.state().attempt_count) == ("pass", 2)
    assert [record.event.sequence for record in scene.records()] == list(range(1, 8))
    brief = scene.projections.read("brief", 1)
    failure = brief.partition("## Failure Context")[2].partition("\n## ")[0]
    assert "Attempt: 1 / 4" in failure


def test_tc_2_2_a_dirty_tree_is_told_and_blocks_nothing(scene):
    """Decision 0021: the contract has it block. The attempt works in a clone, from what is committed."""
    (scene.root / "mine.txt").write_text("half")
    shown = approval_text(scene.app, propose(scene.app, scene.write(ONE_TASK)), loop_mode=True, answer="")
    assert "- Not part of this work: changes in no commit: mine.txt. Work starts from commit" in shown
    scene.publish(ONE_TASK)
    attempt(scene, "hello")
    assert scene.state().phase is Phase.VERIFIED
    assert "mine.txt" not in scene.repository.commits[scene.state().code_ref].files
    assert (scene.root / "mine.txt").read_text() == "half"


def test_tc_2_2_in_the_log_of_an_earlier_version_it_is_read_and_answered_as_before(scene):
    scene.publish(ONE_TASK)
    block(scene.app, scene.state(), "dirty-working-tree", "changes that are in no commit", remedy="commit them")
    assert [(record.event.sequence, record.event.event) for record in scene.records()] == [
        (1, "task_published"),
        (2, "checkup_preflight_blocked"),
    ]
    (question,) = list_questions(scene.app, scene.world, ())
    assert (question.rule.reason, question.detail) == ("blocked", "dirty-working-tree")
    assert not concerns_one_issue(scene.state())
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    attempt(scene, "hello")
    assert scene.state().phase is Phase.VERIFIED


def test_tc_2_3_the_fourth_failure_is_terminal(scene):
    scene.publish(ONE_TASK)
    for number in range(1, 5):
        attempt(scene, "bye" * number)
    state = scene.state()
    assert (state.pass_fail_outcome, state.workflow_entry_state, state.attempt_count) == ("fail_terminal", "blocked", 4)
    assert scene.events().count("verify_failed_retryable") == 3
    assert state.phase is Phase.TERMINAL
    with pytest.raises(NotEligible):
        run(scene.app, 1)


def test_tc_2_4_an_issue_whose_dependency_is_not_done_is_refused_with_what_to_run_first(scene):
    scene.publish(SPEC)
    with pytest.raises(NotEligible) as refused:
        run(scene.app, scene.number(CLOSE))
    assert ONE in refused.value.message
    assert refused.value.remedy == f"run issue-{scene.number(ONE)} first"
    with pytest.raises(NotEligible, match=f"depends on {GREETING}"):
        run(scene.app, scene.number(ONE))
    assert next_step(scene.app, scene.number(ONE)).reason == f"waits for {GREETING}"
