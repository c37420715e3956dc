"""What `hotl-rt` says of a command line that it cannot follow, what it reads and writes, and what it loads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from irontree.cli.main import main as irontree
from tests.support.hotl import SAMPLES, Hotl, call, workflow

PASSES = "loop: false\nverify: echo ok"
PROGRAM = Path(sysconfig.get_path("scripts")) / "hotl-rt"
LOADED = """
import sys
from irontree.cli.hotl import main
code = main(sys.argv[1:])
print(code, *sorted(name for name in sys.modules if "." not in name), file=sys.stderr)
"""
HEAVY = {"git", "httpx", "jinja2", "markdown_it", "prefect", "pydantic", "rich", "sqlalchemy", "yaml"}


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("help",)])
def test_help_is_usage_on_stdout(words: tuple[str, ...]):
    called = call(*words)
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith("usage: hotl-rt <command> [args]\n")


@pytest.mark.parametrize("words", ["init --help", "step 1 --help", "step -h", "gate 1 approved -h", "lint --help"])
def test_help_of_a_command_is_its_usage(words: str):
    called = call(*words.split())
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith(f"usage: hotl-rt {words.split(maxsplit=1)[0]} ")
    assert "locate" not in called.out


def test_the_value_of_an_option_asks_for_no_help(hotl: Hotl):
    hotl.begin(PASSES)
    assert hotl.ok("step", 1, "block", "--reason", "--help") == "blocked step 1: --help\n"


def test_without_a_command_and_with_an_unknown_one_it_is_exit_code_1():
    assert (call().code, call().out) == (1, call("help").out)
    called = call("dance")
    assert (called.code, called.out, called.err) == (1, call("help").out, "ERROR: Unknown command: dance\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("init f.md --loud", "ERROR: Unknown option for init: --loud"),
        ("step 1 start --loud", "ERROR: Unknown option for step start: --loud"),
        ("step 1 verify more", "ERROR: Unknown option for step verify: more"),
        ("step 1 retry --reason x", "ERROR: Unknown option for step retry: --reason"),
        ("step 1 block --loud", "ERROR: Unknown option for block: --loud"),
        ("gate 1 approved --loud", "ERROR: Unknown option for gate: --loud"),
        ("gate 1 approved --mode loud", "ERROR: Gate mode must be 'auto' or 'human', got: loud"),
        ("finalize --loud", "ERROR: Unknown option for finalize: --loud"),
        ("summary x --loud", "ERROR: Unknown option for summary: --loud"),
        ("locate --loud", "ERROR: Unknown option for locate: --loud"),
        ("prepare f.md --loud", "ERROR: Unknown option for prepare: --loud"),
        ("step 1 dance", "ERROR: Unknown step action: dance"),
        ("step one start", "ERROR: The step number must be a whole number, got: one"),
        ("step 1 start --run-id other", "ERROR: No HOTL run found for run_id: other"),
        ("step 1 start --run-id ../state/x", "ERROR: No HOTL run found for run_id: ../state/x"),
        ("log-decision", "ERROR: log-decision requires a JSON argument"),
        ("render --platform vt100 fixtures/s.json", "ERROR: Unsupported platform: vt100"),
        ("render --platform codex nowhere.json", "ERROR: Summary JSON not found: nowhere.json"),
        ("render --platform codex hotl-workflow-made.md", "ERROR: hotl-workflow-made.md is no JSON"),
    ],
)
def test_what_cannot_be_followed_is_said_and_changes_nothing(hotl: Hotl, words: str, error: str):
    hotl.begin(PASSES)
    Path("fixtures/s.json").write_text('{"steps": []}')
    assert hotl.refused(*words.split()).startswith(error)


@pytest.mark.parametrize("words", ["init", "step 1", "gate 1", "summary", "prepare", "lint", "render codex"])
def test_too_few_words_are_answered_by_the_usage(hotl: Hotl, words: str):
    called = hotl(*words.split())
    assert (called.code, called.out) == (1, "")
    assert called.err.startswith(f"usage: hotl-rt {words.split(maxsplit=1)[0]} ")


def test_without_a_run_there_is_nothing_to_do(hotl: Hotl):
    error = "ERROR: No active HOTL run found in .hotl/state/\n"
    assert hotl.refused("step", 1, "start") == hotl.refused("finalize") == error


def test_a_workflow_without_steps_is_no_run(hotl: Hotl):
    Path("hotl-workflow-none.md").write_text("---\nintent: x\n---\n")
    assert hotl.refused("init", "hotl-workflow-none.md") == "ERROR: No steps found in workflow\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is no JSON"),
        ("", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ("[]", "the run is no object"),
        ('{"steps": []}', "the run has no valid 'run_id'"),
    ],
)
def test_a_damaged_state_is_named_and_left(hotl: Hotl, text: str, why: str):
    hotl.begin(PASSES)
    hotl.state_file.write_text(text)
    for words in (("step", 1, "start"), ("step", 1, "verify"), ("finalize",), ("summary", hotl.run_id)):
        error = hotl.refused(*words)
        assert error.startswith(f"ERROR: The state {hotl.state_file} is damaged: {why}")
        assert error.endswith("begin a new run: hotl-rt init\n")


@pytest.mark.parametrize(
    ("key", "value"),
    [("status", "tired"), ("attempts", True), ("attempts", "1"), ("verify", None), ("name", None), ("number", 2)],
)
def test_a_step_that_cannot_be_is_damage(hotl: Hotl, key: str, value: object):
    hotl.begin(PASSES, PASSES)
    state = hotl.state
    state["steps"][0][key] = value
    hotl.state_file.write_text(json.dumps(state))
    assert " is damaged: " in hotl.refused("step", 1, "start")


def test_keys_of_others_stay_and_come_last(hotl: Hotl):
    hotl.begin(PASSES)
    state = {"policy": {"x": [1]}} | hotl.state
    state["steps"][0]["note"] = "mine"
    hotl.state_file.write_text(json.dumps(state))
    hotl.finish(1)
    assert list(hotl.state)[-1] == "policy"
    assert hotl.state["policy"] == {"x": [1]}
    assert list(hotl.step(1).items())[-1] == ("note", "mine")


def test_a_run_that_iron_tree_drives_is_only_shown(hotl: Hotl):
    hotl.begin(PASSES)
    hotl.state_file.write_text(json.dumps(hotl.state | {"driver": "irontree", "loop_id": "a"}))
    for words in (("step", 1, "start"), ("step", 1, "verify"), ("gate", 1, "approved"), ("finalize",)):
        assert hotl.refused(*words).startswith(
            f"ERROR: Iron Tree drives the run {hotl.run_id}: hotl-rt only shows it\n"
        )
    assert hotl("summary", hotl.run_id).json["status"] == "running"


def test_decisions_are_logged_only_where_it_is_configured(hotl: Hotl):
    assert hotl.ok("log-decision", '{"a": 1}') == ""
    assert not Path(".hotl").exists()
    Path(".hotl").mkdir()
    Path(".hotl/config.yml").write_text("decision_log_path: logs/decisions.jsonl # mine\n")
    hotl.ok("log-decision", '{"a": 1}')
    hotl.ok("log-decision", '{"b": 2}')
    assert Path("logs/decisions.jsonl").read_text() == '{"a": 1}\n{"b": 2}\n'


def test_verbose_progress_shows_the_steps_and_a_full_report_all_output(hotl: Hotl):
    front = "risk_level: low\nprogress: verbose\nreport_detail: full"
    hotl.begin("loop: false\nverify: printf '%05000d' 7; echo more >&2", "loop: false", front=front)
    called = hotl("step", 1, "start")
    assert (called.out, called.err) == ("started step 1\n", "→ Running Step 1: Part 1 (1)\n· Pending Step 2: Part 2\n")
    hotl.ok("step", 1, "verify")
    assert f"  verify stderr: more\n  verify stdout: {7:05000d}\n" in hotl.report
    assert hotl.step(1)["verify"]["stdout"] == "0" * 4096 + "\n"


def test_a_full_report_has_the_output_of_checks_before_a_review(hotl: Hotl):
    checks = "verify:\n  - type: shell\n    command: echo seen\n  - type: human-review\n    prompt: Look"
    hotl.begin(f"loop: false\n{checks}", front="risk_level: low\nreport_detail: full")
    hotl.ok("step", 1, "start")
    assert hotl("step", 1, "verify").out == "blocked: human review required: Look\n"
    assert hotl.report.endswith("Blocked (human review required: Look)\n  verify stdout: seen\n")
    assert hotl.step(1)["verify"]["stdout"] is None


# --- A check that fails, one that calls itself, and what is kept of each


TWO = "loop: false\nverify:\n  - type: shell\n    command: {}\n  - type: shell\n    command: echo b; test -f made"


def test_a_failing_check_is_named_on_stderr_with_what_to_do(hotl: Hotl):
    hotl.begin(TWO.format("echo a").replace("false", "until it is made"), PASSES.replace("echo ok", "false"))
    hotl.ok("step", 1, "start")
    called = hotl("step", 1, "verify")
    assert (called.code, called.out) == (1, "fail\n")
    assert called.err == (
        "Step 1 failed: $ echo b; test -f made\n"
        f"       its output is in {hotl.state['report_path']}; put it right, then: hotl-rt step 1 retry\n"
    )
    for _ in range(2):
        hotl.ok("step", 1, "retry")
        hotl.ok("step", 1, "start")
        called = hotl("step", 1, "verify")
    assert called.err.endswith('; hotl-rt step 1 block --reason "verify failed"\n'), "no attempt is left"
    hotl.ok("step", 2, "start")
    assert hotl("step", 2, "verify").err.endswith('; hotl-rt step 2 block --reason "verify failed"\n'), "no loop"


def test_each_check_of_a_list_is_marked(hotl: Hotl):
    def marks() -> list[bool | None]:
        return [check["passed"] for check in hotl.step(1)["verify"]["checks"]]

    hotl.begin(TWO.format("echo a") + "\n  - type: human-review\n    prompt: Look")
    hotl.ok("step", 1, "start")
    assert marks() == [None, None, None]
    hotl("step", 1, "verify")
    assert marks() == [True, False, None]
    hotl.ok("step", 1, "retry")
    assert marks() == [None, None, None]
    Path("made").touch()
    hotl.ok("step", 1, "start")
    hotl("step", 1, "verify")
    assert marks() == [True, True, None]
    hotl.ok("gate", 1, "rejected")
    assert marks() == [True, True, False]
    hotl.ok("gate", 1, "approved")
    assert marks() == [True, True, True]


def test_a_check_that_verifies_its_own_step_is_refused_and_ends(hotl: Hotl):
    hotl.begin(PASSES)
    hotl.edit(1, command=f"{PROGRAM} step 1 verify")
    hotl.ok("step", 1, "start")
    assert hotl("step", 1, "verify").out == "fail\n"
    assert (
        "ERROR: A check of step 1 verifies that step itself: it would never end\n" in hotl.step(1)["verify"]["stderr"]
    )


@pytest.mark.parametrize("status", ["pending", "in_progress"])
def test_a_gate_of_a_step_that_was_not_begun_is_not_taken(hotl: Hotl, status: str):
    hotl.begin("loop: false\nverify: test -f made\ngate: human")
    if status == "in_progress":
        hotl.ok("step", 1, "start")
        hotl("step", 1, "verify")
        hotl.ok("step", 1, "retry")
    for decision in ("approved", "rejected"):
        assert hotl.refused("gate", 1, decision) == (
            f"ERROR: Step 1 is '{status}' and was not begun: its gate has nothing to decide on\n"
            "       do it first: hotl-rt step 1 start\n"
        )


def test_what_a_name_would_do_in_a_chat_or_a_terminal_it_does_not_do(hotl: Hotl):
    path = Path("hotl-workflow-odd.md")
    path.write_text(workflow(PASSES, front="risk_level: low\nprogress: verbose"))
    path.write_text(path.read_text().replace("Part 1", "![x](http://evil/x.png) \x1b[31mred <img src=x>"))
    hotl.run_id = hotl.ok("init", path).strip()
    started = hotl("step", 1, "start")
    Path("s.json").write_text(hotl("summary", hotl.run_id).out)
    shown = [hotl.report, *(hotl.ok("render", "--platform", name, "s.json") for name in ("codex", "claude"))]
    for text in (*shown, started.err):
        assert "red" in text
        assert "\x1b" not in text
    for text in shown:
        assert "](" not in text
        assert "<img" not in text
    assert json.loads(Path("s.json").read_text())["steps"][0]["name"] == hotl.step(1)["name"]


def test_git_does_not_see_the_folder(repository: Path):
    from tests.support.repositories import git

    Path("hotl-workflow-a.md").write_text(workflow(PASSES))
    assert call("init", "hotl-workflow-a.md").code == 0
    assert git(repository, "status", "--porcelain") == "?? hotl-workflow-a.md"


# --- Lint on the command line


def test_lint_passes_on_stdout_and_fails_on_stderr(hotl: Hotl):
    shown = call("lint", SAMPLES / "hotl-workflow-add-rate-limiting.md")
    assert (shown.code, shown.out) == (0, "LINT PASSED: hotl-workflow-add-rate-limiting.md\n")
    assert shown.err == "WARN: Step 'Final approval' has no 'verify:' (line 26). It passes without a check\n"
    Path("hotl-workflow-bad.md").write_text("# nothing\n")
    failed = call("lint", "hotl-workflow-bad.md")
    assert (failed.code, failed.out) == (1, "")
    assert failed.err.splitlines()[0] == "FAIL: Missing YAML frontmatter (file must start with ---) (line 1)"
    assert failed.err.endswith("LINT FAILED: 2 error(s) in hotl-workflow-bad.md\n")
    assert call("lint", "hotl-workflow-gone.md").err == "FAIL: File not found: hotl-workflow-gone.md\n"
    assert call("lint", "NOTES.md").err == "FAIL: File not found: NOTES.md\n", "a name that is typed wrong is no pass"
    Path("README.md").write_text("# A project\n")
    skipped = call("lint", "README.md")
    assert (skipped.code, skipped.err) == (0, "SKIP: README.md is not a HOTL design doc or workflow file\n")


# --- The program itself


def test_the_program_starts_without_heavy_libraries(hotl: Hotl):
    hotl.begin(PASSES)
    for words in (["summary", hotl.run_id], ["step", "1", "start"], ["lint", "hotl-workflow-made.md"]):
        done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=True)
        code, *packages = done.stderr.splitlines()[-1].split()
        assert (code, set(packages) & HEAVY) == ("0", set())


def test_the_console_script_and_its_shims(hotl: Hotl, capsys):
    hotl.begin(PASSES)
    assert irontree(["workflow", "shims", "hotl"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert all(len(path.read_text().splitlines()) == 2 for path in Path("hotl").rglob("*.*"))
    environment = os.environ | {"PATH": f"{PROGRAM.parent}:/usr/bin:/bin"}
    for words in ("runtime/hotl-rt step 1 start", "runtime/hotl-rt step 1 verify", "scripts/finalize-codex-summary.sh"):
        done = subprocess.run(f"hotl/{words}", shell=True, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("✓ Step 1: Part 1 - Done (1 attempt)\n")
    Path("hotl/scripts/document-lint.sh").write_text("#!/bin/bash\nmine\nhotl-rt\n")
    assert irontree(["workflow", "shims", "hotl"]) == 1
    assert "is another program's" in capsys.readouterr().err


def test_an_interrupt_is_exit_code_130_and_the_check_can_be_run_again(hotl: Hotl):
    hotl.begin("loop: false\nverify: touch began; sleep 60")
    hotl.ok("step", 1, "start")
    child = subprocess.Popen([PROGRAM, "step", "1", "verify"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 20
    while not Path("began").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out, err) == (130, b"", b"")
    assert hotl.step(1)["status"] == "in_progress"
    hotl.edit(1, command="true")
    hotl.ok("step", 1, "verify")


def test_a_daemon_that_a_check_leaves_is_neither_waited_for_nor_ended(hotl: Hotl):
    hotl.begin("loop: false\nverify: (sleep 2; touch later) & echo $! > pid")
    began = time.monotonic()
    hotl.finish(1)
    assert time.monotonic() - began < 2
    os.kill(int(Path("pid").read_text()), signal.SIGKILL)


def test_a_reader_that_goes_away_is_no_error(hotl: Hotl):
    hotl.begin(PASSES)
    done = subprocess.run(f"{PROGRAM} summary {hotl.run_id} | true", shell=True, capture_output=True, check=True)
    assert done.stderr == b""
