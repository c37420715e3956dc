"""Whole runs as an agent drives them, and how a summary is shown in a chat: by the numbers in docs/hotl.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.hotl import Hotl, call


def shown_in_codex(hotl: Hotl) -> list[str]:
    """What `finalize-codex-summary.sh` prints."""
    Path("summary.json").write_text(hotl.ok("finalize", "--json"), encoding="utf-8")
    return hotl.ok("render", "--platform", "codex", "summary.json").splitlines()


def test_i01_a_run_in_which_all_goes_well(hotl: Hotl):
    hotl.init()
    hotl.finish(1, 2)
    hotl.ok("step", 3, "start")
    assert hotl.ok("step", 3, "verify") == "pass (no verify command)\n"
    found = hotl("finalize", "--json").json
    assert (found["status"], found["completed_steps"]) == ("completed", 3)
    assert (found["failed_steps"], found["blocked_steps"]) == (0, 0)
    assert [step["attempts"] for step in found["steps"]] == [1, 1, 1]
    assert hotl.report.endswith("Run finalized: completed\n")


def test_i02_the_demo_is_shown_in_a_chat(hotl: Hotl):
    hotl.init("demo-simulation")
    hotl.ok("step", 1, "start")
    (hotl.folder / ".hotl-demo" / "simulation").mkdir(parents=True)
    hotl.ok("step", 1, "verify")
    (hotl.folder / ".hotl-demo" / "simulation" / "demo-note.md").write_text("# Note\n")
    hotl.finish(2, 3)
    hotl.ok("gate", 3, "approved", "--mode", "auto")
    assert shown_in_codex(hotl) == [
        "Execution Summary",
        "",
        "✓ Step 1: Create demo workspace - Done (1 attempt)",
        "✓ Step 2: Write demo note - Done (1 attempt)",
        "⚡ Step 3: Demo review gate - Auto-approved (-)",
    ]
    assert hotl.state["status"] == "completed"
    assert "⚡ Auto-approved" in hotl.report


def test_i03_a_person_reviews_and_approves(hotl: Hotl):
    hotl.init("human-review-e2e")
    hotl.finish(1)
    hotl.ok("step", 2, "start")
    assert hotl("step", 2, "verify").code == 1
    assert hotl.state["status"] == "paused"
    hotl.ok("gate", 2, "approved", "--mode", "human")
    assert (hotl.state["status"], hotl.step(2)["gate_result"]) == ("running", "approved")
    hotl.finish(3, 4)
    hotl.ok("gate", 4, "approved", "--mode", "human")
    assert shown_in_codex(hotl)[2:] == [
        "✓ Step 1: Run an automated pre-check - Done (1 attempt)",
        "✓ Step 2: Pause for manual review - Approved (-)",
        "✓ Step 3: Run a post-review check - Done (1 attempt)",
        "✓ Step 4: Final human gate - Approved (-)",
    ]
    assert hotl.state["status"] == "completed"
    assert "Human review for Step 2: approved (human)\n" in hotl.report
    assert "Gate Step 4: approved (human)\n" in hotl.report


def test_i04_a_failure_ends_no_run(hotl: Hotl):
    hotl.init("retry-sample")
    hotl.ok("step", 1, "start")
    assert hotl("step", 1, "verify").code == 1
    assert (hotl.step(1)["status"], hotl.state["status"]) == ("failed", "running")


def test_i05_a_block_ends_the_run_blocked(hotl: Hotl):
    hotl.init()
    hotl.ok("step", 1, "start")
    hotl.ok("step", 1, "block", "--reason", "agent could not edit file")
    assert hotl.step(1)["block_reason"] == "agent could not edit file"
    found = hotl("finalize", "--json").json
    assert (found["status"], found["blocked_steps"]) == ("blocked", 1)


def test_i06_a_gate_is_kept_beside_the_steps_end(hotl: Hotl):
    hotl.init()
    hotl.finish(1)
    hotl.ok("gate", 1, "approved", "--mode", "auto")
    assert "Gate Step 1: approved (auto)\n" in hotl.report
    hotl.finish(2, 3)
    found = hotl("finalize", "--json").json
    first = found["steps"][0]
    assert found["status"] == "completed"
    assert (first["status"], first["attempts"], first["gate_result"], first["gate_mode"]) == (
        *("done", 1, "approved"),
        "auto",
    )


def test_i07_a_summary_in_the_middle(hotl: Hotl):
    hotl.init()
    hotl.ok("step", 1, "start")
    found = hotl("summary", hotl.run_id, "--json").json
    assert (found["status"], found["run_id"], found["total_steps"]) == ("running", hotl.run_id, 3)
    assert [step["status"] for step in found["steps"]] == ["in_progress", "pending", "pending"]


def test_i08_fail_then_retry_then_pass(hotl: Hotl):
    hotl.init()
    hotl.edit(1, command="false")
    hotl.ok("step", 1, "start")
    assert hotl("step", 1, "verify").code == 1
    hotl.ok("step", 1, "retry")
    hotl.edit(1, command="true")
    hotl.finish(1)
    assert (hotl.step(1)["status"], hotl.step(1)["attempts"]) == ("done", 2)
    first = hotl("finalize", "--json").json["steps"][0]
    assert (first["status"], first["attempts"]) == ("done", 2)
    assert "↻" in hotl.report
    assert "✓ Done" in hotl.report


def test_i09_the_summary_tells_what_failed_and_what_is_blocked(hotl: Hotl):
    hotl.init()
    hotl.finish(1)
    hotl.edit(2, command="false")
    hotl.ok("step", 2, "start")
    assert hotl("step", 2, "verify").code == 1
    hotl.ok("step", 3, "start")
    hotl.ok("step", 3, "block", "--reason", "manual stop for review")
    found = hotl("finalize", "--json").json
    assert found["status"] == "blocked"
    assert (found["completed_steps"], found["failed_steps"], found["blocked_steps"]) == (1, 1, 1)
    assert [step["status"] for step in found["steps"]] == ["done", "failed", "blocked"]
    assert found["steps"][2]["block_reason"] == "manual stop for review"


def test_i10_the_report_grows_with_each_command(hotl: Hotl):
    hotl.init()
    assert hotl.report.count("· Pending") == 3
    hotl.ok("step", 1, "start")
    assert "→ Running" in hotl.report
    hotl.ok("step", 1, "verify")
    assert "✓ Done" in hotl.report
    assert len(re.findall(r"^\*\*\[", hotl.report, re.MULTILINE)) == 2


def test_i11_a_browser_check_without_browser_blocks_loudly(hotl: Hotl):
    hotl.init("unsupported-verify")
    hotl.ok("step", 1, "start")
    assert hotl("step", 1, "verify").code == 1
    reason = hotl.step(1)["block_reason"]
    assert reason.startswith("human review required: the page renders at http://localhost:3000 (")
    assert "unsupported verify type: browser" in reason
    assert hotl.state["status"] == "paused"
    assert "✗ Blocked" in hotl.report
    assert f"Blocked ({reason})\n" in hotl.report


def test_the_report_of_a_whole_run_line_by_line(hotl: Hotl):
    hotl.init("human-review-e2e")
    hotl.edit(1, command="echo out; echo err >&2; test -f made")
    hotl.ok("step", 1, "start")
    hotl("step", 1, "verify")
    hotl.ok("step", 1, "retry")
    Path("made").touch()
    hotl.finish(1)
    hotl.ok("step", 2, "start")
    hotl("step", 2, "verify")
    hotl.ok("gate", 2, "rejected")
    hotl.ok("step", 3, "block", "--reason", "no network")
    hotl.ok("finalize")
    _, _, shown = re.sub(r"\d\d:\d\d:\d\d\]", "T]", hotl.report).partition("**Status:** ")
    asked = "human review required: Confirm the intermediate output is acceptable before continuing"
    assert shown == (
        "blocked\n\n"
        "| Step | Name | Status | Iterations |\n|------|------|--------|------------|\n"
        "|  1   | Run an automated pre-check | ✓ Done | 2 |\n"
        "|  2   | Pause for manual review | ✗ Rejected | - |\n"
        "|  3   | Run a post-review check | ✗ Blocked | - |\n"
        "|  4   | Final human gate | · Pending | - |\n\n"
        "## Event Log\n\n"
        "**[T]** → Step 1: Run an automated pre-check\n"
        "**[T]** ✗ Step 1: Failed (1 attempt(s))\n  verify stderr: err\n  verify stdout: out\n"
        "**[T]** ↻ Step 1: Retrying (2/3)\n"
        "**[T]** → Step 1: Run an automated pre-check\n"
        "**[T]** ✓ Step 1: Done (2 attempt(s))\n"
        "**[T]** → Step 2: Pause for manual review\n"
        f"**[T]** ✗ Step 2: Blocked ({asked})\n"
        "**[T]** Human review for Step 2: rejected (human)\n"
        "**[T]** ✗ Step 3: Blocked — no network\n"
        "**[T]** Run finalized: blocked\n"
    )


# --- A summary in a chat


def step(number: int, name: str, status: str, attempts: int = 1, **gate: str) -> dict[str, Any]:
    return {"number": number, "name": name, "status": status, "attempts": attempts} | gate


HAPPY = (
    step(1, "Write fixture loader", "done"),
    step(2, "Approve it", "done", gate_result="approved", gate_mode="human"),
)
AUTO = (
    step(1, "Write fixture loader", "done"),
    step(2, "Approve it", "done", gate_result="approved", gate_mode="auto"),
)
RETRY = (step(1, "Write fixture loader", "done", 2), step(2, "Load it", "pending", 0))
MIXED = (
    step(1, "Write fixture loader", "done"),
    step(2, "Load it", "failed"),
    step(3, "Show it", "blocked", 2),
    step(4, "Approve it", "done", gate_result="rejected", gate_mode="human"),
)
TABLE = "| Step | Name | Status | Iterations |\n|------|------|--------|------------|\n"


def rendered(tmp_path: Path, platform: str, *steps: dict[str, Any]) -> str:
    path = tmp_path / "summary.json"
    path.write_text(json.dumps({"steps": steps}))
    called = call("render", "--platform", platform, path)
    assert called.code == 0, called
    return called.out


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        pytest.param(
            HAPPY,
            ("✓ Step 1: Write fixture loader - Done (1 attempt)", "✓ Step 2: Approve it - Approved (-)"),
            id="s1",
        ),
        pytest.param(
            AUTO,
            ("✓ Step 1: Write fixture loader - Done (1 attempt)", "⚡ Step 2: Approve it - Auto-approved (-)"),
            id="s2",
        ),
        pytest.param(
            RETRY,
            ("✓ Step 1: Write fixture loader - Done (2 attempts)", "· Step 2: Load it - Pending (0 attempts)"),
            id="s3",
        ),
        pytest.param(
            MIXED,
            (
                "✓ Step 1: Write fixture loader - Done (1 attempt)",
                "✗ Step 2: Load it - Failed (1 attempt)",
                "✗ Step 3: Show it - Blocked (2 attempts)",
                "✗ Step 4: Approve it - Rejected (-)",
            ),
            id="s4",
        ),
    ],
)
def test_s1_to_s4_lines_for_codex(tmp_path: Path, steps: tuple[dict[str, Any], ...], lines: tuple[str, ...]):
    assert rendered(tmp_path, "codex", *steps).splitlines() == ["Execution Summary", "", *lines]


@pytest.mark.parametrize("platform", [pytest.param("claude", id="s5"), pytest.param("cline", id="s6")])
def test_s5_and_s6_a_table_for_claude_and_cline(tmp_path: Path, platform: str):
    rows = "| 1 | Write fixture loader | ✓ Done | 1 |\n| 2 | Approve it | ✓ Approved | - |\n"
    assert rendered(tmp_path, platform, *HAPPY) == TABLE + rows


def test_s7_a_table_escapes_what_would_end_a_cell(tmp_path: Path):
    rows = "| 1 | a \\| b \\\\ c | ✓ Done | 1 |\n"
    assert rendered(tmp_path, "claude", step(1, "a | b \\ c", "done")) == TABLE + rows
