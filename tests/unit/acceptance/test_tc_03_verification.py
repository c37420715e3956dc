"""Acceptance cases TC-3.x: what verification records when it cannot simply pass."""

from __future__ import annotations

from irontree.agents.scripted import ScriptedAgent
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.checks import HEAD_LINES, TAIL_LINES, result_of, truncate
from irontree.domain.state import Phase
from irontree.domain.text import TRUNCATION_MARKER
from irontree.errors import RemoteUnavailable
from irontree.services.execution.checkup import Decider, send_back
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.views.history import say_issue_event
from tests.support.world import ONE_TASK, Scene, does

WITHOUT_COMMANDS = "# Toy\n\n## Greeting\n\n- [ ] it says hello\n"


def committed(scene: Scene, text: str = ONE_TASK, written: str = "hello") -> Scene:
    scene.agent = ScriptedAgent(does(greet_txt=written))
    scene.publish(text)
    run(scene.app, 1)
    return scene


def report(scene: Scene) -> str:
    return scene.projections.texts[scene.root / ".mino/reports/issue-1/report.md"]


def test_tc_3_1_a_push_that_fails_leaves_the_issue_in_verify_and_costs_no_attempt(scene):
    committed(scene).repository.failures += [RemoteUnavailable("no route")] * 3
    before = scene.state().attempt_count
    state = verify(scene.app, 1)
    assert (state.current_stage, state.next_stage, state.workflow_entry_state) == ("verify", "verify", "ready_to_start")
    assert (state.code_publication_state, state.pass_fail_outcome) == ("local_only", None)
    assert state.attempt_count == before
    assert (state.report_path, scene.last().event.event) == (None, "verify_publication_failed")


def test_tc_3_2_without_a_command_a_person_must_decide(scene):
    state = verify(committed(scene, WITHOUT_COMMANDS).app, 1)
    assert (state.phase, state.workflow_entry_state) == (Phase.PENDING, "pending_acceptance")
    assert state.pass_fail_outcome is None
    no_command, to_judge = scene.last().meta["reasons"]
    assert no_command == "no check command is configured, listed or detected"
    assert to_judge == "only a person can judge: it says hello"
    assert "it says hello: **a person judges this**" in report(scene)


def test_tc_3_2_the_verifiers_note_is_in_the_report_to_the_letter(scene):
    committed(scene, WITHOUT_COMMANDS)
    verify(scene.app, 1, note="clicked through it:\n  all fine")
    assert "## Manual Verifier Note\n\n```text\nclicked through it:\n  all fine\n```" in report(scene)


def test_tc_3_2_what_was_sent_back_for_the_last_time_is_reported_with_the_reason(scene):
    scene.policy = scene.policy.model_copy(update={"max_retry_count": 0})
    verify(committed(scene, WITHOUT_COMMANDS).app, 1)
    assert send_back(scene.app, 1, Decider("ada", "say it louder")).phase is Phase.TERMINAL
    assert "- Outcome: failed; all attempts are used up" in report(scene)
    assert "- sent back by ada: say it louder" in report(scene)
    assert say_issue_event(scene.last()) == "sent back by ada: “say it louder”; attempts used up: 1"


def test_tc_3_3_of_a_huge_output_the_first_50_and_the_last_20_lines_are_kept(scene):
    lines = [f"line {number}" for number in range(1, 1001)]
    kept = truncate("\n".join(lines)).splitlines()
    assert kept == [*lines[:50], TRUNCATION_MARKER, *lines[980:]]
    assert (HEAD_LINES, TAIL_LINES) == (50, 20)


class Talkative(ScriptedCheckRunner):
    """Fails with a thousand lines."""

    def run(self, check, **_named):
        return result_of(check, "exited", 1, seconds=1, output="\n".join(f"line {number}" for number in range(1, 1001)))


def test_tc_3_3_report_and_next_prompt_get_the_shortened_output(scene):
    scene.policy = scene.policy.model_copy(update={"max_retry_count": 0})
    committed(scene).checks = Talkative()
    verify(scene.app, 1)
    assert f"line 50\n{TRUNCATION_MARKER}\nline 981\n" in report(scene)
    assert "line 51\n" not in report(scene)
