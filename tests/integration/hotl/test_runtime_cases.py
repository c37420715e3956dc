"""The 53 cases of upstream's runtime, each under its number (docs/hotl.md)."""

from __future__ import annotations

import re

import pytest

from tests.support.hotl import Hotl

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
STEP_KEYS = [
    *("number", "name", "action", "status", "attempts", "max_iterations", "loop", "started_at", "completed_at"),
    *("verify", "gate", "gate_result", "gate_mode", "block_reason"),
]
RUN_KEYS = [
    *("run_id", "workflow_path", "source_workflow_path", "workflow_slug", "intent", "success_criteria", "risk_level"),
    *("auto_approve", "branch", "repo_root", "execution_root", "worktree_path", "executor_mode", "started_at"),
    *("last_update", "completed_at", "status", "current_step", "total_steps", "report_path", "steps"),
]
REVIEW = "human-review-runtime-sample"
ARTIFACT = "artifact-verify-sample"


def test_r01_init_makes_a_state_with_all_steps(hotl: Hotl):
    assert hotl.init() == hotl.state["run_id"]
    assert len(hotl.state["steps"]) == 3


def test_r02_init_fills_the_fields_in_their_order(hotl: Hotl):
    hotl.init()
    state = hotl.state
    assert list(state) == RUN_KEYS
    assert list(state["steps"][0]) == STEP_KEYS
    here = str(hotl.folder.resolve())
    assert (state["status"], state["current_step"], state["total_steps"]) == ("running", 1, 3)
    assert (state["risk_level"], state["auto_approve"], state["executor_mode"]) == ("low", True, "loop")
    assert (state["workflow_slug"], state["branch"]) == ("runtime-sample", "hotl/runtime-sample")
    assert (state["repo_root"], state["execution_root"], state["worktree_path"]) == (here, here, None)
    assert state["last_update"] == state["started_at"]
    assert ISO.fullmatch(state["started_at"])
    assert state["report_path"] == f"{here}/.hotl/reports/{hotl.run_id}.md"


def test_r03_init_takes_what_the_caller_says(hotl: Hotl):
    source = hotl.folder / "source.md"
    source.touch()
    hotl.init(
        "runtime-sample",
        *("--executor-mode", "subagent", "--repo-root", "/repo", "--execution-root", str(hotl.folder)),
        *("--source-workflow-path", str(source), "--worktree-path", "/tree", "--branch", "feat/x"),
    )
    state = hotl.state
    assert (state["executor_mode"], state["repo_root"], state["execution_root"]) == (
        *("subagent", "/repo"),
        str(hotl.folder),
    )
    assert (state["source_workflow_path"], state["worktree_path"], state["branch"]) == (str(source), "/tree", "feat/x")
    assert state["report_path"] == f"{hotl.folder}/.hotl/reports/{hotl.run_id}.md"
    assert "**Worktree:** /tree\n" in hotl.report


def test_r04_the_report_has_its_header(hotl: Hotl):
    hotl.init()
    state = hotl.state
    assert hotl.report == (
        f"# Execution Report: {hotl.run_id}\n\n"
        "**Workflow:** hotl-workflow-runtime-sample.md\n"
        f"**Source Workflow:** {state['source_workflow_path']}\n"
        "**Intent:** Exercise the runtime\n"
        "**Branch:** hotl/runtime-sample\n"
        "**Executor:** loop\n"
        f"**Execution Root:** {state['execution_root']}\n"
        f"**Started:** {state['started_at']}\n"
        f"**Updated:** {state['started_at']}\n"
        "**Status:** running\n\n"
        "| Step | Name | Status | Iterations |\n|------|------|--------|------------|\n"
        "|  1   | Write fixture loader | · Pending | - |\n"
        "|  2   | Load until it works | · Pending | - |\n"
        "|  3   | Final approval | · Pending | - |\n\n"
        "## Event Log\n\n"
    )


def test_r05_the_report_has_all_steps_pending(hotl: Hotl):
    hotl.init()
    assert hotl.report.count("· Pending") == 3


def test_r06_steps_are_pending_without_attempts(hotl: Hotl):
    hotl.init()
    assert {(step["status"], step["attempts"]) for step in hotl.state["steps"]} == {("pending", 0)}


def test_r07_a_text_is_a_shell_command(hotl: Hotl):
    hotl.init()
    assert hotl.step(1)["verify"] == {
        "type": "shell",
        "command": 'echo "hello from verify"',
        "passed": None,
        "stdout": None,
        "stderr": None,
    }


def test_r08_gates_are_kept(hotl: Hotl):
    hotl.init()
    assert (hotl.step(3)["gate"], hotl.step(1)["gate"]) == ("human", None)


def test_r09_iterations_are_kept(hotl: Hotl):
    hotl.init("retry-sample")
    assert [step["max_iterations"] for step in hotl.state["steps"]] == [3, 3, 5]
    assert [step["loop"] for step in hotl.state["steps"]] == ["false", "until tests pass", "until clean"]


def test_r10_a_missing_file_is_an_error(hotl: Hotl):
    assert hotl.refused("init", "nowhere.md") == "ERROR: Workflow file not found: nowhere.md\n"


def test_r11_init_prints_the_run_id_alone(hotl: Hotl):
    hotl.init()
    assert re.fullmatch(r"runtime-sample-[0-9]{8}T[0-9]{6}Z\n", hotl.calls[-1].out)


def test_r12_start_puts_a_step_in_progress(hotl: Hotl):
    hotl.init()
    assert hotl.ok("step", 1, "start") == "started step 1\n"
    assert hotl.step(1)["status"] == "in_progress"


def test_r13_start_counts_an_attempt(hotl: Hotl):
    hotl.init()
    hotl.ok("step", 1, "start")
    assert hotl.step(1)["attempts"] == 1


def test_r14_start_notes_the_time(hotl: Hotl):
    hotl.init()
    hotl.ok("step", 1, "start")
    assert ISO.fullmatch(hotl.step(1)["started_at"])


def test_r15_start_is_in_the_report(hotl: Hotl):
    hotl.init()
    hotl.ok("step", 1, "start")
    assert "|  1   | Write fixture loader | → Running | 1 |\n" in hotl.report


def test_r16_start_is_in_the_event_log(hotl: Hotl):
    hotl.init()
    hotl.ok("step", 1, "start")
    assert re.search(r"^\*\*\[\d\d:\d\d:\d\d\]\*\* → Step 1: Write fixture loader$", hotl.report, re.MULTILINE)


def test_r17_of_several_runs_one_has_to_be_named(hotl: Hotl, monkeypatch: pytest.MonkeyPatch):
    first, second = hotl.init(), hotl.init()
    assert first < second
    error = hotl.refused("step", 1, "start")
    assert "Multiple HOTL runs found in .hotl/state/. Select one with --run-id <run-id> or HOTL_RUN_ID." in error
    assert f"\n  - {first} [running] workflow={hotl.state['workflow_path']}\n" in error
    hotl.ok("step", 1, "start", "--run-id", second)
    monkeypatch.setenv("HOTL_RUN_ID", second)
    hotl.ok("step", 2, "start")
    assert [step["status"] for step in hotl.state["steps"]] == ["in_progress", "in_progress", "pending"]
    hotl.run_id = first
    assert {step["status"] for step in hotl.state["steps"]} == {"pending"}


def test_r18_a_passing_command_ends_the_step(hotl: Hotl):
    hotl.init()
    hotl.ok("step", 1, "start")
    assert hotl.ok("step", 1, "verify") == "pass\n"
    assert (hotl.step(1)["status"], hotl.step(1)["verify"]["passed"]) == ("done", True)


def test_r19_the_output_of_a_passing_command_is_kept(hotl: Hotl):
    hotl.init()
    hotl.finish(1)
    assert (hotl.step(1)["verify"]["stdout"], hotl.step(1)["verify"]["stderr"]) == ("hello from verify\n", "\n")


def failed_step(hotl: Hotl) -> None:
    hotl.init("retry-sample")
    hotl.ok("step", 1, "start")
    called = hotl("step", 1, "verify")
    assert (called.code, called.out) == (1, "fail\n")


def test_r20_a_failing_command_fails_the_step(hotl: Hotl):
    failed_step(hotl)
    assert (hotl.step(1)["status"], hotl.step(1)["verify"]["passed"]) == ("failed", False)
    assert "**Status:** running" in hotl.report
    assert "|  1   | Write tests | ✗ Failed | 1 |\n" in hotl.report
    assert re.search(r"✗ Step 1: Failed \(1 attempt\(s\)\)\n  verify stderr: .*pytest", hotl.report)


def test_r21_a_passed_step_has_its_end(hotl: Hotl):
    hotl.init()
    hotl.finish(1)
    assert ISO.fullmatch(hotl.step(1)["completed_at"])


def test_r22_a_type_without_tooling_blocks(hotl: Hotl):
    hotl.init("unsupported-verify")
    hotl.ok("step", 1, "start")
    called = hotl("step", 1, "verify")
    reason = hotl.step(1)["block_reason"]
    assert (called.code, called.out) == (1, f"blocked: {reason}\n")
    assert hotl.step(1)["status"] == "blocked"
    assert "unsupported verify type" in reason


def reviewed(hotl: Hotl) -> None:
    hotl.init(REVIEW)
    hotl.ok("step", 1, "start")
    assert hotl("step", 1, "verify").code == 1


def test_r23_a_review_pauses_the_run(hotl: Hotl):
    reviewed(hotl)
    assert hotl.step(1)["block_reason"] == "human review required: Confirm the output looks correct"
    assert (hotl.step(1)["status"], hotl.state["status"]) == ("blocked", "paused")
    assert "**Status:** paused\n" in hotl.report


def test_r24_a_pass_is_in_the_report(hotl: Hotl):
    hotl.init()
    hotl.finish(1)
    assert "|  1   | Write fixture loader | ✓ Done | 1 |\n" in hotl.report
    assert "✓ Step 1: Done (1 attempt(s))\n" in hotl.report


@pytest.mark.parametrize("number", [1, 2])
def test_r25_an_artifact_that_is_there_passes(hotl: Hotl, number: int):
    hotl.init(ARTIFACT)
    make_artifacts(hotl)
    hotl.finish(number)
    assert (hotl.step(number)["status"], hotl.step(number)["verify"]["passed"]) == ("done", True)


def make_artifacts(hotl: Hotl) -> None:
    (hotl.folder / "artifacts" / "reports").mkdir(parents=True)
    (hotl.folder / "artifacts" / "output.txt").write_text("it says: render ok\n")
    (hotl.folder / "artifacts" / "reports" / "one.md").write_text("one\n")


def test_r26_an_artifact_of_a_name_passes(hotl: Hotl):
    hotl.init(ARTIFACT)
    make_artifacts(hotl)
    hotl.finish(3)
    assert hotl.step(3)["verify"]["stdout"] == "artifact matches glob: artifacts/reports/*.md\n"


def test_r27_all_checks_of_a_list_run(hotl: Hotl):
    hotl.init(ARTIFACT)
    make_artifacts(hotl)
    hotl.finish(4)
    assert hotl.step(4)["verify"]["passed"] is True
    assert hotl.step(4)["verify"]["stdout"] == "checked\nartifact exists: artifacts/output.txt\n"


def test_r28_the_keys_of_a_check_may_stand_in_any_order(hotl: Hotl):
    hotl.init("verify-order-sample")
    for number in (1, 2):
        assert [check["type"] for check in hotl.step(number)["verify"]["checks"]] == ["shell", "artifact"]
    assert hotl.step(2)["verify"]["checks"][0]["command"] == "echo second"


@pytest.mark.parametrize(
    ("number", "asserted", "reason"),
    [
        pytest.param(2, {"kind": "contains", "value": None}, "artifact assert kind contains requires value", id="r29"),
        pytest.param(
            3, {"kind": "matches-glob", "value": None}, "artifact assert kind matches-glob requires value", id="r30"
        ),
        pytest.param(
            3,
            {"kind": "matches-glob", "value": "artifacts/*"},
            "artifact assert kind matches-glob expects a filename glob; put the directory in path",
            id="r31",
        ),
    ],
)
def test_r29_to_r31_an_assert_without_a_sense_blocks(hotl: Hotl, number: int, asserted: dict, reason: str):
    hotl.init(ARTIFACT)
    make_artifacts(hotl)
    hotl.edit(number, **{"assert": asserted})
    hotl.ok("step", number, "start")
    assert hotl("step", number, "verify").code == 1
    assert (hotl.step(number)["status"], hotl.step(number)["block_reason"]) == ("blocked", reason)
    assert hotl.state["status"] == "blocked"


def test_r32_retry_puts_a_failed_step_in_progress(hotl: Hotl):
    failed_step(hotl)
    assert hotl.ok("step", 1, "retry") == "retrying step 1 (attempt 2/3)\n"
    assert hotl.step(1)["status"] == "in_progress"


def test_r33_retry_clears_the_results(hotl: Hotl):
    failed_step(hotl)
    hotl.ok("step", 1, "retry")
    verify = hotl.step(1)["verify"]
    assert (verify["passed"], verify["stdout"], verify["stderr"]) == (None, None, None)


def test_r34_retry_is_in_the_report(hotl: Hotl):
    failed_step(hotl)
    hotl.ok("step", 1, "retry")
    assert "|  1   | Write tests | ↻ Retrying | 2 |\n" in hotl.report
    assert "↻ Step 1: Retrying (2/3)\n" in hotl.report


def test_r35_only_what_failed_is_tried_again(hotl: Hotl):
    hotl.init()
    assert hotl.refused("step", 1, "retry") == "ERROR: Step 1 is 'pending', expected 'failed' for retry\n"


def test_r36_block_keeps_the_reason(hotl: Hotl):
    hotl.init()
    assert hotl.ok("step", 1, "block", "--reason", "no network") == "blocked step 1: no network\n"
    assert (hotl.step(1)["status"], hotl.step(1)["block_reason"]) == ("blocked", "no network")


def test_r37_block_is_in_the_report(hotl: Hotl):
    hotl.init()
    hotl.ok("step", 1, "block", "--reason", "no network")
    assert "|  1   | Write fixture loader | ✗ Blocked | - |\n" in hotl.report
    assert "✗ Step 1: Blocked — no network\n" in hotl.report
    assert "**Status:** blocked\n" in hotl.report


def test_r38_block_needs_a_reason(hotl: Hotl):
    hotl.init()
    assert hotl.refused("step", 1, "block") == "ERROR: --reason is required for block\n"


def test_r39_a_gate_is_approved(hotl: Hotl):
    hotl.init()
    assert hotl.ok("gate", 1, "approved") == "gate 1: approved (human)\n"
    assert hotl.step(1)["gate_result"] == "approved"


def test_r40_a_gate_approves_itself(hotl: Hotl):
    hotl.init()
    assert hotl.ok("gate", 1, "approved", "--mode", "auto") == "gate 1: approved (auto)\n"
    assert hotl.step(1)["gate_mode"] == "auto"


def test_r41_a_gate_is_rejected(hotl: Hotl):
    hotl.init()
    hotl.ok("gate", 1, "rejected")
    assert (hotl.step(1)["gate_result"], hotl.state["status"]) == ("rejected", "blocked")


def test_r42_no_other_decision_is_taken(hotl: Hotl):
    hotl.init()
    error = "ERROR: Gate decision must be 'approved' or 'rejected', got: maybe\n"
    assert hotl.refused("gate", 1, "maybe") == error


def test_r43_a_gate_is_in_the_report(hotl: Hotl):
    hotl.init()
    hotl.ok("gate", 1, "approved")
    assert "Gate Step 1: approved (human)\n" in hotl.report
    assert "|  1   | Write fixture loader | ✓ Approved | - |\n" in hotl.report


def test_r44_an_approved_review_ends_the_step(hotl: Hotl):
    reviewed(hotl)
    assert hotl.ok("gate", 1, "approved") == "human-review 1: approved (human)\n"
    step = hotl.step(1)
    assert (step["status"], step["verify"]["passed"], step["block_reason"]) == ("done", True, None)
    assert (step["verify"]["stdout"], hotl.state["status"]) == ("human review approved", "running")


def test_r45_a_rejected_review_stays_blocked(hotl: Hotl):
    reviewed(hotl)
    hotl.ok("gate", 1, "rejected")
    step = hotl.step(1)
    assert (step["status"], step["verify"]["passed"]) == ("blocked", False)
    assert (step["block_reason"], hotl.state["status"]) == ("human review rejected", "blocked")
    assert "|  1   | Look at it | ✗ Rejected | - |\n" in hotl.report


def test_r46_finalize_prints_the_summary(hotl: Hotl):
    hotl.init()
    found = hotl("finalize", "--json").json
    assert (found["run_id"], found["total_steps"]) == (hotl.run_id, 3)


def test_r47_a_run_is_completed_with_all_steps_done(hotl: Hotl):
    hotl.init()
    hotl.finish(1, 2, 3)
    called = hotl("finalize", "--json")
    assert (called.json["status"], called.json["completed_steps"], called.err) == ("completed", 3, "")
    assert hotl.state["status"] == "completed"


def test_r48_a_run_is_blocked_with_a_block(hotl: Hotl):
    hotl.init()
    hotl.ok("step", 1, "block", "--reason", "no network")
    found = hotl("finalize", "--json")
    assert (found.code, found.json["status"], found.json["blocked_steps"]) == (0, "blocked", 1)


def test_r49_the_end_is_in_the_report(hotl: Hotl):
    hotl.init()
    hotl.finish(1, 2, 3)
    hotl.ok("finalize")
    assert "**Status:** completed\n" in hotl.report
    assert "Run finalized: completed\n" in hotl.report


def test_r50_a_run_is_completed_after_an_approved_review(hotl: Hotl):
    reviewed(hotl)
    hotl.ok("gate", 1, "approved", "--mode", "human")
    found = hotl("finalize").json
    assert (found["status"], found["completed_steps"], found["blocked_steps"]) == ("completed", 1, 0)


def test_r51_the_summary_of_a_run_in_progress(hotl: Hotl):
    hotl.init()
    before = hotl.files()
    assert hotl("summary", hotl.run_id, "--json").json["status"] == "running"
    assert hotl.files() == before


def test_r52_the_summary_of_a_finished_run(hotl: Hotl):
    hotl.init()
    hotl.finish(1, 2, 3)
    finished = hotl("finalize").json
    assert hotl("summary", hotl.run_id).json == finished
    assert finished["completed_at"] == hotl.state["completed_at"] is not None


def test_r53_no_summary_of_an_unknown_run(hotl: Hotl):
    assert hotl.refused("summary", "other") == "ERROR: No state found for run: other\nAvailable runs:\n  (none)\n"
    known = hotl.init()
    assert hotl.refused("summary", "other").endswith(f"Available runs:\n{known}\n")
