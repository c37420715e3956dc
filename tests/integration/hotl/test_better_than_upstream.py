"""What upstream's runtime gets wrong and this one does not: fifteen defects (D1 to D15) and three more (E1 to E3)."""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path

import pytest

from tests.support.hotl import Hotl, call, workflow
from tests.support.repositories import git

PASSES = "loop: false\nverify: echo ok"
REVIEW = "loop: false\nverify:\n  type: human-review\n  prompt: Look at it"
GATED = "loop: false\nverify: echo ok\ngate: human"


@pytest.mark.parametrize(("command", "code", "status"), [("exit 1", 1, "failed"), ("exit 0", 0, "done")])
def test_d01_a_check_that_exits_ends_itself_alone(hotl: Hotl, command: str, code: int, status: str):
    hotl.begin(f"loop: false\nverify: {command}")
    hotl.ok("step", 1, "start")
    assert hotl("step", 1, "verify").code == code
    assert hotl.step(1)["status"] == status


def test_d01_a_check_that_changes_its_folder_moves_nobody_else(hotl: Hotl):
    hotl.begin("loop: false\nverify: cd / && pwd")
    hotl.finish(1)
    assert hotl.step(1)["verify"]["stdout"] == "/\n"


def test_d02_exit_code_200_is_a_failure(hotl: Hotl):
    hotl.begin("loop: false\nverify: exit 200")
    hotl.ok("step", 1, "start")
    assert hotl("step", 1, "verify").out == "fail\n"
    assert (hotl.step(1)["status"], hotl.step(1)["block_reason"]) == ("failed", None)


def test_d03_steps_are_meant_by_their_number(hotl: Hotl):
    path = Path("hotl-workflow-gap.md")
    path.write_text(workflow(PASSES, PASSES).replace("Step 2:", "Step 5:"))
    hotl.run_id = hotl.ok("init", path).strip()
    hotl.finish(5)
    assert [step["status"] for step in hotl.state["steps"]] == ["pending", "done"]
    for number in (0, 2, 99, "x", "-1", "1e3", "9" * 5000):
        for words in (("step", number, "start"), ("step", number, "verify"), ("gate", number, "approved")):
            hotl.refused(*words)
    assert hotl.refused("step", 99, "verify") == "ERROR: There is no step 99 in this run (there is: 1, 5)\n"


def test_d03_two_steps_of_one_number_are_refused(hotl: Hotl):
    Path("hotl-workflow-twice.md").write_text(workflow(PASSES, PASSES).replace("Step 2:", "Step 1:"))
    error = hotl.refused("init", "hotl-workflow-twice.md")
    assert error == "ERROR: Step 'Part 2' has the number 1, as 'Part 1' has (line 13)\n"


def test_d04_a_run_with_steps_that_were_never_begun_is_not_completed(hotl: Hotl):
    hotl.begin(PASSES, PASSES, PASSES)
    hotl.finish(1)
    hotl.ok("step", 2, "start")
    called = hotl("finalize")
    assert (called.code, called.json["status"]) == (0, "blocked")
    assert called.err == "not completed: 1 step in progress: 2; 1 step pending: 3\n"


def test_d04_a_rejected_gate_leaves_a_run_blocked(hotl: Hotl):
    hotl.begin(GATED)
    hotl.finish(1)
    hotl.ok("gate", 1, "rejected")
    assert hotl("finalize").json["status"] == "blocked"
    hotl.ok("gate", 1, "approved")
    assert hotl("finalize").json["status"] == "completed"


@pytest.mark.parametrize(
    ("front", "status"),
    [
        ("risk_level: low\nauto_approve: true", "completed"),
        ("risk_level: medium\nauto_approve: true", "completed"),
        ("risk_level: high\nauto_approve: true", "blocked"),
        ("risk_level: low\nauto_approve: false", "blocked"),
        ("risk_level: low", "blocked"),
    ],
)
def test_d04_a_gate_that_nobody_decided_counts_only_if_it_approves_itself(hotl: Hotl, front: str, status: str):
    hotl.begin(GATED, front=front)
    hotl.finish(1)
    called = hotl("finalize")
    assert called.json["status"] == status
    assert ("the gate of step 1 is not decided" in called.err) is (status == "blocked")


def test_d05_the_rule_decides_no_review(hotl: Hotl):
    hotl.begin(REVIEW)
    hotl.ok("step", 1, "start")
    hotl("step", 1, "verify")
    error = "ERROR: Step 1 waits for a human review: --mode auto cannot decide it\n"
    assert hotl.refused("gate", 1, "approved", "--mode", "auto") == error


@pytest.mark.parametrize(
    ("front", "error"),
    [
        ("risk_level: high\nauto_approve: true", "ERROR: High-risk workflows require human gate decisions\n"),
        ("risk_level: low", "ERROR: auto_approve is not true: the gate requires a human decision\n"),
    ],
)
def test_d05_the_rule_decides_only_where_it_is_met(hotl: Hotl, front: str, error: str):
    hotl.begin(GATED, front=front)
    hotl.finish(1)
    assert hotl.refused("gate", 1, "approved", "--mode", "auto") == error
    hotl.ok("gate", 1, "approved")


def test_d06_a_blocked_step_can_be_tried_again(hotl: Hotl):
    hotl.begin(PASSES)
    hotl.ok("step", 1, "start")
    hotl.ok("step", 1, "block", "--reason", "no network")
    assert hotl.ok("step", 1, "retry") == "retrying step 1 (attempt 2/3)\n"
    assert (hotl.step(1)["block_reason"], hotl.state["status"]) == (None, "running")
    hotl.finish(1)
    assert hotl("finalize").json["status"] == "completed"


def test_d06_a_rejected_review_can_be_tried_again_or_approved_after_all(hotl: Hotl):
    hotl.begin(REVIEW)
    hotl.ok("step", 1, "start")
    hotl("step", 1, "verify")
    assert "it waits for a human review" in hotl.refused("step", 1, "retry")
    hotl.ok("gate", 1, "rejected")
    hotl.ok("step", 1, "retry")
    assert (hotl.step(1)["gate_result"], hotl.step(1)["verify"]["stderr"]) == (None, None)
    hotl("step", 1, "verify")
    hotl.ok("gate", 1, "rejected")
    assert hotl.ok("gate", 1, "approved") == "human-review 1: approved (human)\n"
    assert (hotl.step(1)["status"], hotl.step(1)["attempts"]) == ("done", 2)
    assert hotl("finalize").json["status"] == "completed"


def test_d06_a_step_sent_back_at_its_gate_can_be_done_again(hotl: Hotl):
    hotl.begin(GATED)
    hotl.finish(1)
    hotl.ok("gate", 1, "rejected")
    assert hotl.ok("step", 1, "retry") == "retrying step 1 (attempt 2/3)\n"
    assert "|  1   | Part 1 | ↻ Retrying | 2 |\n" in hotl.report
    hotl.finish(1)
    assert (hotl.step(1)["gate_result"], hotl.state["status"]) == (None, "running")
    hotl.ok("gate", 1, "approved")
    assert hotl("finalize").json["status"] == "completed"


def test_d07_block_takes_the_run_that_is_named(hotl: Hotl):
    hotl.init()
    second = hotl.init()
    hotl.ok("step", 1, "block", "--run-id", second, "--reason", "no network")
    assert hotl.step(1)["status"] == "blocked"


def test_d08_runs_of_one_second_do_not_overwrite_each_other(hotl: Hotl):
    ids = [hotl.init() for _ in range(4)]
    assert sorted(set(ids)) == ids
    assert {path.stem for path in Path(".hotl/state").glob("*.json")} == set(ids)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("auto_approve: true", "auto_approve: yes", "auto_approve must be true or false (got: 'yes') (line 5)"),
        ("risk_level: low", "risk_level: none", "risk_level must be low, medium, or high (got: 'none') (line 4)"),
        (
            *("loop: false", "loop: false\nmax_iterations: many"),
            "Step 'Part 1' max_iterations must be a whole number from 1 to 50 (got: 'many') (line 11)",
        ),
        ("loop: false", "gate: yes", "Step 'Part 1' gate must be human or auto (got: 'yes') (line 10)"),
    ],
)
def test_d09_what_the_state_cannot_hold_is_refused(hotl: Hotl, old: str, new: str, error: str):
    Path("hotl-workflow-bad.md").write_text(workflow(PASSES).replace(old, new))
    assert hotl.refused("init", "hotl-workflow-bad.md") == f"ERROR: {error}\n"


def test_d09_any_text_is_kept_as_json(hotl: Hotl):
    text = workflow(PASSES).replace("Part 1", 'a\t"b" \\ ü').replace("auto_approve: true", "auto_approve: true # note")
    Path("hotl-workflow-odd.md").write_text(text, encoding="utf-8")
    hotl.run_id = hotl.ok("init", "hotl-workflow-odd.md").strip()
    assert (hotl.step(1)["name"], hotl.state["auto_approve"]) == ('a\t"b" \\ ü', True)


def test_d10_only_the_first_block_is_front_matter(hotl: Hotl):
    hotl.begin(f"{PASSES}\n\n---\nintent: Something else\nrisk_level: high\n---")
    assert (hotl.state["intent"], hotl.state["risk_level"]) == ("Try it", "low")


def test_d11_code_and_prose_are_neither_steps_nor_fields(hotl: Hotl):
    prose = (
        "Some words.\ngate: human\n```\n- [ ] **Step 2: none**\n### 3. none\n```\n<!--\n### 4. none\n-->\nverify: false"
    )
    hotl.begin(f"{PASSES}\n\n{prose}")
    assert len(hotl.state["steps"]) == 1
    assert (hotl.step(1)["gate"], hotl.step(1)["verify"]["command"]) == (None, "echo ok")


def test_d12_a_colon_in_a_value_is_text(hotl: Hotl):
    shell = "  - type: shell\n    command: echo type: browser command: x"
    browser = "  - type: browser\n    url: http://localhost\n    check: the url: bar is there"
    hotl.begin(f"loop: false\nverify:\n{shell}\n{browser}")
    first, second = hotl.step(1)["verify"]["checks"]
    assert first["command"] == "echo type: browser command: x"
    assert (second["url"], second["check"]) == ("http://localhost", "the url: bar is there")


def test_d13_no_update_of_another_command_is_lost(hotl: Hotl):
    hotl.begin(*[PASSES] * 12)
    threads = [threading.Thread(target=call, args=("step", number, "start")) for number in range(1, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [step["status"] for step in hotl.state["steps"]] == ["in_progress"] * 12
    assert hotl.report.count("→ Step ") == 12


def test_d13_a_check_may_call_the_runtime_itself(hotl: Hotl):
    hotl.begin(PASSES, PASSES)
    calls = "from irontree.cli.hotl import main; main(['step', '2', 'start'])"
    hotl.edit(1, command=f'{sys.executable} -c "{calls}"')
    hotl.finish(1)
    assert [step["status"] for step in hotl.state["steps"]] == ["done", "in_progress"]


def test_d13_a_step_that_moved_while_it_was_verified_is_left_as_it_is(hotl: Hotl):
    hotl.begin(PASSES)
    script = Path("moves.py")
    script.write_text(
        f"import json, pathlib\npath = pathlib.Path({str(hotl.state_file)!r})\nstate = json.loads(path.read_text())\n"
        "state['steps'][0] |= {'status': 'blocked', 'block_reason': 'by hand'}\npath.write_text(json.dumps(state))\n"
    )
    hotl.edit(1, command=f"{sys.executable} moves.py")
    hotl.ok("step", 1, "start")
    called = hotl("step", 1, "verify")
    error = "ERROR: Step 1 was changed while it was verified (it is 'blocked'); nothing was recorded\n"
    assert (called.code, called.out, called.err) == (1, "", error)
    assert hotl.step(1)["block_reason"] == "by hand"


@pytest.mark.parametrize(
    "words",
    [
        ("step", 1, "start", "--run-id"),
        ("step", 1, "block", "--reason"),
        ("gate", 1, "approved", "--mode"),
        ("init", "hotl-workflow-made.md", "--branch"),
        ("finalize", "--run-id"),
    ],
)
def test_d14_an_option_without_its_value_is_an_error_in_words(hotl: Hotl, words: tuple[object, ...]):
    hotl.begin(PASSES)
    assert hotl.refused(*words) == f"ERROR: {words[-1]} needs a value\n"


def test_d15_a_bar_in_a_name_breaks_no_row(hotl: Hotl):
    Path("hotl-workflow-bar.md").write_text(workflow(PASSES).replace("Part 1", "a | b"))
    hotl.run_id = hotl.ok("init", "hotl-workflow-bar.md").strip()
    assert "|  1   | a \\| b | · Pending | - |\n" in hotl.report
    hotl.finish(1)
    assert "|  1   | a \\| b | ✓ Done | 1 |\n" in hotl.report


def test_e1_checks_behind_a_review_run_before_a_person_is_asked(hotl: Hotl):
    review = "  - type: human-review\n    prompt: Look at it"
    hotl.begin(f"loop: false\nverify:\n{review}\n  - type: shell\n    command: echo ran >> ran; test -f made")
    hotl.ok("step", 1, "start")
    assert hotl("step", 1, "verify").out == "fail\n"
    Path("made").touch()
    hotl.ok("step", 1, "retry")
    hotl.ok("step", 1, "start")
    assert hotl("step", 1, "verify").out == "blocked: human review required: Look at it\n"
    assert Path("ran").read_text() == "ran\nran\n"


def test_e2_to_start_twice_is_one_attempt(hotl: Hotl):
    hotl.begin("loop: until it is there\nmax_iterations: 2\nverify: test -f made")
    hotl.ok("step", 1, "start")
    hotl.ok("step", 1, "start")
    assert hotl.step(1)["attempts"] == 1
    hotl("step", 1, "verify")
    hotl.ok("step", 1, "retry")
    hotl("step", 1, "verify")  # without a start: it is an attempt anyway
    assert (hotl.step(1)["attempts"], hotl.step(1)["status"]) == (2, "failed")
    error = "ERROR: Step 1 reached max iterations (2). it is there not met.\n"
    assert hotl.refused("step", 1, "retry") == error


def test_e3_prepare_uses_no_branch_that_is_there(repository: Path):
    Path("hotl-workflow-sample.md").write_text(workflow(PASSES))
    git(repository, "branch", "hotl/sample")
    called = call("prepare", "hotl-workflow-sample.md")
    assert (called.code, called.out) == (1, "")
    assert "Branch already exists: hotl/sample." in called.err


@pytest.mark.parametrize("status", ["pending", "done", "failed", "blocked"])
def test_only_a_step_in_progress_is_verified(hotl: Hotl, status: str):
    hotl.begin(PASSES)
    state = hotl.state
    state["steps"][0]["status"] = status
    hotl.state_file.write_text(json.dumps(state))
    error = hotl.refused("step", 1, "verify")
    assert re.match(f"ERROR: Step 1 is '{status}', expected 'in_progress' for verify\n", error)
