"""The repository's own checks: run in the workspace, by the shell, and limited."""

from __future__ import annotations

import hashlib
import os
import threading

from irontree.checks.shell import ShellCheckRunner
from irontree.domain.plan import Shell
from irontree.domain.text import TRUNCATION_MARKER
from irontree.domain.workflow.step import Command
from tests.support.processes import NEVER, Heard, children


def run_step(command, workspace, **caller):
    runner = ShellCheckRunner(children(), {**os.environ, **caller})
    return runner.run(
        Command(run=command), workspace=workspace, seconds=60, variables={}, cancel=NEVER, progress=Heard()
    )


def run(command, workspace, *, seconds=60, variables=None, cancel=NEVER, caller=None, progress=None):
    runner = ShellCheckRunner(children(), {**os.environ, **(caller or {})})
    return runner.run(
        Shell(name="unit", run=command),
        workspace=workspace,
        seconds=seconds,
        variables=variables or {},
        cancel=cancel,
        progress=progress or Heard(),
    )


def test_it_runs_by_the_shell_in_the_workspace(tmp_path):
    assert run("pwd | tr a-z A-Z && test -d .", tmp_path).output.strip() == str(tmp_path).upper()


def test_the_callers_python_path_tokens_and_repository_stay_outside(tmp_path):
    caller = {
        "PYTHONPATH": "/checkout",
        "GIT_DIR": "/x",
        "GITHUB_TOKEN": "t",
        "VIRTUAL_ENV": "/v",
        "PREFECT_API_URL": "u",
    }
    seen = run("env", tmp_path, caller=caller).output
    for name in caller:
        assert f"{name}=" not in seen


def test_side_effects_of_two_workspaces_are_kept_apart(tmp_path):
    for name in ("run", "verify"):
        (tmp_path / name).mkdir()
    show = 'echo "$COMPOSE_PROJECT_NAME $IRONTREE_WORKSPACE $EXTRA"'
    one = run(show, tmp_path / "run", variables={"EXTRA": "x"}).output.split()
    two = run(show, tmp_path / "verify", variables={"EXTRA": "x"}).output.split()
    assert one[0] != two[0]
    assert one[0] == one[0].lower()
    assert one[1:] == [str(tmp_path / "run"), "x"]


def test_output_is_cut_for_people_and_the_digest_is_over_all_of_it(tmp_path):
    result = run("seq 1000", tmp_path)
    whole = "".join(f"{n}\n" for n in range(1, 1001))
    lines = result.output.splitlines()
    assert lines == [*map(str, range(1, 51)), TRUNCATION_MARKER, *map(str, range(981, 1001))]
    assert result.output_digest == hashlib.sha256(whole.encode()).hexdigest()


def test_huge_output_keeps_its_first_and_last_lines(tmp_path):
    lines = run("seq 2000000", tmp_path).output.splitlines()
    assert (lines[0], lines[49], lines[-1]) == ("1", "50", "2000000")
    assert len(lines) == 71


def test_a_check_that_takes_too_long_is_a_timeout_and_nobody_is_left(tmp_path, witness):
    result = run(f"{witness.hold}; setsid sleep 1000 & sleep 1000", tmp_path, seconds=1)
    assert (result.ended, result.passed) == ("timeout", False)
    assert witness.says_all_are_gone()


def test_a_server_that_a_check_leaves_running_is_gone_afterwards(tmp_path, witness):
    assert run(f"{witness.hold}; setsid sleep 1000 & exit 0", tmp_path).passed
    assert witness.says_all_are_gone()


def test_a_check_can_be_stopped(tmp_path):
    bell = threading.Event()
    result = run("echo ready; sleep 1000", tmp_path, cancel=bell, progress=Heard(bell, "ready"))
    assert result.ended == "cancelled"


def test_a_command_that_does_not_exist_has_not_passed(tmp_path):
    result = run("no-such-tool --check", tmp_path)
    assert (result.exit_code, result.passed) == (127, False)
    assert "no-such-tool" in result.output


def test_the_command_of_a_step_is_run_by_bash_where_there_is_one(tmp_path):
    by_bash = run_step('[[ -n "$BASH_VERSION" ]] && echo "it is $0"', tmp_path)
    assert (by_bash.exit_code, by_bash.output) == (0, "it is bash\n")
    assert run_step("exit 3", tmp_path).exit_code == 3
    assert run_step('echo "one\n$two"\nexit 0', tmp_path).passed


def test_and_by_sh_where_there_is_none(tmp_path):
    without = run_step('echo "it is $0"; exit 4', tmp_path, PATH=str(tmp_path))
    assert (without.exit_code, without.output) == (4, "it is /bin/sh\n")
