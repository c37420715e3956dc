"""One transition at a time, from published to done, with what happened and what to type next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.domain.events import RunStarted
from irontree.domain.state import Phase
from irontree.services.record import read_world, record
from tests.support.repositories import git

NEXT_KEYS = {
    *("issue", "task_key", "title", "phase", "attempt", "attempts", "code_ref"),
    *("events", "output", "question", "next", "undelivered"),
}


def test_an_issue_goes_from_published_to_done_by_typing_what_each_step_says(shell):
    said = []
    words = ["run", "issue-1"]
    while words:
        step = shell(*words, "--json")
        assert step.code == 0, step.err
        said.append([event["event"] for event in step.data["events"]])
        words = step.data["next"].split()[1:] if step.data["issue"] == 1 and step.data["phase"] != "done" else []
    assert said == [["run_started", "run_completed"], ["verify_passed"], ["checkup_done"]]
    assert "attempt 1" in git(shell.remote, "show", "main:first-text.txt")
    assert step.data.keys() == NEXT_KEYS
    assert step.data["next"] == "irontree run issue-3"


def test_what_the_agent_says_is_shown_while_it_works_and_the_result_on_stdout(shell):
    step = shell("run", "1")
    assert "agent at work on first-text" in step.err
    assert "#1 First text: attempt 1 of 2: committed" in step.out
    assert "irontree verify issue-1" in step.out
    assert "`irontree verify issue-1`" in shell("run", "1").err, "what comes, not another attempt"


def test_a_failed_check_is_exit_code_1_with_its_output_and_another_attempt(shell):
    shell.configure((shell.root / ".mino/config.yml").read_text().replace("test ! -e broken", "echo too bad; false"))
    shell.publish("# Texts\n\n## Third text\n\n- [ ] It is there (check: tests)\n")
    shell("run", "third-text")
    step = shell("verify", "third-text")
    assert step.code == 1
    assert "verification failed at attempt 1 of 2" in step.out
    assert "too bad" in step.out
    assert "irontree run issue-4" in step.out


def pending(shell) -> None:
    for words in (["run", "1"], ["verify", "1"], ["checkup", "finalize", "1"], ["run", "3"]):
        assert shell(*words).code == 0
    assert shell("verify", "3", "seen", "on", "paper").code == 1


def test_a_person_sends_work_back_accepts_it_and_the_parent_is_completed(shell):
    pending(shell)
    assert "seen on paper" in (shell.root / ".mino/reports/issue-3/report.md").read_text()
    back = shell("checkup", "reject", "issue-3", "please", "make it longer")
    assert back.code == 0
    assert "sent back by Test Author: “please make it longer”" in back.out
    assert shell("run", "3").code == 0
    assert shell("verify", "3").code == 1
    accepted = shell("checkup", "accept", "#3", "--json")
    assert accepted.code == 0
    assert [event["event"] for event in accepted.data["events"]] == ["checkup_accept_recorded"]
    assert "longer" in git(shell.remote, "show", "main:parts-second-text.txt")
    for words in (["finalize", "3"], ["aggregate", "2"], ["finalize", "2"]):
        assert shell("checkup", *words).code == 0
    assert {issue["phase"] for issue in shell("status", "--json").data["issues"]} == {"done"}


def test_a_second_answer_is_refused_and_changes_nothing(shell):
    pending(shell)
    assert shell("checkup", "accept", "3").code == 0
    before = shell("show", "3", "--events").out
    again = shell("checkup", "accept", "3")
    assert again.code == 1
    assert "issue-3 has no open question" in again.err
    assert shell("show", "3", "--events").out == before


def test_an_answer_that_does_not_fit_is_refused_with_those_that_would(shell):
    pending(shell)
    wrong = shell("checkup", "unblock", "3")
    assert wrong.code == 1
    assert "irontree accept 3" in wrong.err
    assert "irontree reject 3 --note 'NOTE'" in wrong.err


def test_attempts_used_up_are_answered_with_more_of_them(shell):
    pending(shell)
    shell("checkup", "reject", "3", "no")
    shell("run", "3")
    shell("verify", "3")
    shell("checkup", "reject", "3", "no")
    assert shell("status", "--json").data["questions"][0]["reason"] == "fail_terminal"
    assert shell("checkup", "unblock", "3").code == 1
    assert shell("checkup", "unblock", "3", "--retry", "2", "take your time").code == 0
    assert shell("show", "3", "--json").data["attempts"] == 4
    assert shell("run", "3").code == 0


def test_pre_flight_writes_nothing_when_the_runway_is_clear(shell):
    before = shell("show", "1", "--events").out
    clear = shell("checkup", "pre-flight", "issue-1")
    assert (clear.code, clear.out) == (0, "pre-flight ok issue-1\n")
    assert shell("show", "1", "--events").out == before


def test_pre_flight_lists_everything_in_the_way_and_records_the_block(shell):
    git(shell.root, "config", "user.email", "")
    git(shell.root, "config", "core.hooksPath", ".husky/_")
    stopped = shell("checkup", "pre-flight", "1", "--json")
    assert stopped.code == 1
    assert {finding["where"] for finding in stopped.data["findings"]} == {"missing-identity", "hooks-missing"}
    assert "checkup_preflight_blocked" in shell("show", "1", "--events").out
    git(shell.root, "config", "--unset", "user.email")
    git(shell.root, "config", "--unset", "core.hooksPath")
    assert shell("checkup", "unblock", "1", "tidied up").code == 0
    assert shell("run", "1").code == 0


def test_a_changed_document_is_approved_again_by_its_revision(shell):
    assert shell("run", "1").code == 0
    spec = (shell.root / "SPEC.md").read_text().replace("It is there", "It is there and long")
    (shell.root / "SPEC.md").write_text(spec)
    assert shell("verify", "1").code == 1
    [question] = shell("status", "--json").data["questions"]
    assert question["reason"] == "reapproval_required"
    command = question["answers"][0]["command"].split()[1:]
    assert shell("checkup", "unblock", "1", "--approve", "00000000").code == 1
    assert shell(*command).code == 0
    assert shell("run", "1").code == 0
    named = shell("show", "1", "--json").data["files"]
    [transcript] = [path for what, path in named.items() if what.startswith("transcript")]
    archived = next((shell.root / ".mino/archive").iterdir()).name
    assert transcript == f".mino/reports/issue-1/{archived}/attempt-0002", "that of the stream in force alone"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "issue-3"), "depends on first-text, not done yet"),
        (("run", "2"), "is a container and is never run"),
        (("run", "issue-99"), "issue-99 is not known here"),
        (("run", "second-text"), "did you mean parts-second-text?"),
        (("verify", "1"), "there is nothing to verify"),
        (("checkup", "aggregate", "2"), "not done"),
        (("checkup", "finalize", "1"), "no completion evidence"),
        (("checkup", "accept", "1"), "has no open question"),
    ],
)
def test_a_step_that_is_not_legal_now_is_refused_with_its_reason_and_writes_nothing(shell, words, said):
    before = sorted((shell.root / ".mino/events").rglob("*"))
    refused = shell(*words)
    assert refused.code == 1
    assert said in refused.err
    assert refused.out == ""
    assert sorted((shell.root / ".mino/events").rglob("*")) == before


def test_who_is_at_work_is_named_and_can_be_waited_for(shell):
    app = open_app(shell.root, origin=Origin("somebody"))
    with app.driver.hold("issue-9, run"):
        busy = shell("run", "1", "--wait", "0.2")
        assert "At work: issue-9, run" in shell("status").out
    assert busy.code == 1
    assert "issue-9, run" in busy.err
    assert shell("run", "1").code == 0


def test_a_loop_at_work_takes_the_steps_itself(shell):
    app = open_app(shell.root, origin=Origin("somebody"))
    with app.lease.hold("2026-04-22-1432-a3f8b2"):
        refused = shell("run", "1")
    assert refused.code == 1
    assert "loop 2026-04-22-1432-a3f8b2 is at work here" in refused.err


def test_ctrl_c_stops_the_agent_keeps_its_work_and_gives_the_attempt_back(shell_with_own_agent, tmp_path):
    (tmp_path / "agent").write_text("#!/bin/sh\necho half > half.txt\necho started\nexec sleep 60\n")
    words = [sys.executable, "-m", "irontree", "-C", str(shell_with_own_agent.root), "run", "1"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert any(line == "started\n" for line in process.stderr)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "attempt 1 was interrupted and does not count" in out
    assert "Traceback" not in err
    assert "half" in git(shell_with_own_agent.root, "show", "refs/irontree/salvage/issue-1/2:half.txt")


def test_an_attempt_that_was_killed_is_settled_and_followed_by_another_in_one_call(shell):
    app = open_app(shell.root, origin=Origin("somebody"))
    begun = record(app, read_world(app).state(1), RunStarted, attempt_count=1, meta={"token": "1/x/2"})
    assert begun.phase is Phase.RUNNING
    done = shell("run", "1")
    assert done.code == 0, done.err
    assert "attempt 1 was interrupted and does not count: the attempt was cut off" in done.out
    assert "attempt 1 of 2: committed" in done.out


def test_what_stands_in_the_way_is_said_with_the_question_wherever_that_is_listed(shell_with_own_agent, tmp_path):
    """The name of the check alone says little to whoever removed the workspace."""
    (tmp_path / "agent").write_text('#!/bin/sh\nrm -rf "$PWD"\n')
    assert shell_with_own_agent("run", "1").code == 1
    for told in (
        shell_with_own_agent("status"),
        shell_with_own_agent("show", "1", "--why"),
        shell_with_own_agent("show", "1"),
    ):
        assert "was removed while it was worked in" in told.out
    [question] = shell_with_own_agent("status", "--json").data["questions"]
    assert "to go on makes it anew and tries again" in question["said"]


def test_tc_7_2_a_second_run_is_refused_and_names_the_active_task(shell):
    app = open_app(shell.root, origin=Origin("somebody"))
    with app.driver.hold("issue-1, run"):
        refused = shell("run", "3")
    assert refused.code == 1
    assert "busy: issue-1, run (process " in refused.err


def test_tc_7_2_the_run_lock_of_another_tool_is_respected_and_named(shell):
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    lock = shell.root / ".mino" / "run.lock"
    lock.write_text(f"task_key: their-task\nissue_number: 7\nacquired_at: {since}\nhost: builder-2\n")
    refused = shell("run", "1")
    assert refused.code == 1
    assert f"another tool holds .mino/run.lock: issue-7 (their-task), since {since}, on builder-2" in refused.err
    assert lock.exists()


def test_another_tools_living_loop_takes_the_steps_itself_and_a_stale_one_is_cleaned_up_by_task(shell):
    now = datetime.now(UTC)
    lock = shell.root / ".mino" / "loops" / "active.lock"
    lock.parent.mkdir(exist_ok=True)
    form = 'loop_id: "2026-04-22-1432-a3f8b2"\nholder_pid: {}\nholder_agent: mino-task\nheartbeat_at: "{}"\n'
    lock.write_text(form.format(os.getpid(), now.isoformat()))
    assert "another tool's loop is at work here: loop 2026-04-22-1432-a3f8b2" in shell("run", "1").err
    lock.write_text(form.format(os.getpid(), (now - timedelta(hours=7)).isoformat()))
    refused = shell("run", "1")
    assert refused.code == 1
    assert "stale loop lease detected: loop 2026-04-22-1432-a3f8b2" in refused.err
    assert "irontree task" in refused.err
