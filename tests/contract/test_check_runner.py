"""The port `CheckRunner`: what every adapter keeps, the shipped double included."""

from __future__ import annotations

import os
import threading

import pytest

from irontree.checks.scripted import ScriptedCheckRunner
from irontree.checks.shell import ShellCheckRunner
from irontree.domain.plan import Shell
from irontree.domain.workflow.step import Artifact, Command
from tests.support.processes import NEVER, Heard, children


def shell():
    return ShellCheckRunner(children(), os.environ)


def scripted():
    return ScriptedCheckRunner(
        lambda command, _workspace: None if command == "sleep 60" else int(command.removeprefix("exit "))
    )


@pytest.fixture(params=[shell, scripted])
def runner(request):
    return request.param()


def run(runner, command, workspace, cancel=NEVER, seconds=60):
    return runner.run(
        Shell(name="unit", run=command),
        workspace=workspace,
        seconds=seconds,
        variables={},
        cancel=cancel,
        progress=Heard(),
    )


@pytest.mark.parametrize("code", [0, 1, 7])
def test_a_check_passes_by_exit_code_zero_alone(runner, tmp_path, code):
    result = run(runner, f"exit {code}", tmp_path)
    assert (result.ended, result.exit_code, result.passed) == ("exited", code, code == 0)
    assert (result.name, result.command) == ("unit", f"exit {code}")


def test_asked_to_stop_it_has_not_passed(runner, tmp_path):
    stop = threading.Event()
    stop.set()
    result = run(runner, "exit 0", tmp_path, stop)
    assert result.ended == "cancelled"
    assert not result.passed


def test_a_check_that_runs_out_of_time_has_not_passed(runner, tmp_path):
    result = run(runner, "sleep 60", tmp_path, seconds=1)
    assert (result.ended, result.passed) == ("timeout", False)
    assert result.exit_code != 0


def test_it_names_the_system_and_the_tools_that_the_commands_call(runner, tmp_path):
    versions = runner.versions(["git status --short", "git log"], workspace=tmp_path)
    assert {"system", "git"} <= versions.keys()
    assert all(isinstance(value, str) and value for value in versions.values())


def test_the_digest_is_64_hex(runner, tmp_path):
    assert len(bytes.fromhex(run(runner, "exit 0", tmp_path).output_digest)) == 32


def test_nothing_foreign_is_seen_where_nothing_is(runner, tmp_path):
    assert runner.foreign_sources(tmp_path / "workspace", tmp_path / "checkout") == ()


def test_the_command_of_a_step_is_run_too(runner, tmp_path):
    result = runner.run(
        Command(run="exit 0"), workspace=tmp_path, seconds=60, variables={}, cancel=NEVER, progress=Heard()
    )
    assert (result.name, result.command, result.passed) == ("step: exit 0", "exit 0", True)


@pytest.mark.parametrize(
    ("kind", "value", "output", "passes"),
    [
        ("exists", None, "artifact exists: made", True),
        ("matches-glob", "*.sql", "artifact matches glob: made/*.sql", True),
        ("matches-glob", "*.md", "no artifact matches *.md in made", False),
        ("contains", "x", "artifact missing: made", False),
    ],
)
def test_it_looks_at_what_is_in_the_workspace(runner, tmp_path, kind, value, output, passes):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "1.sql").write_text("x")
    check = Artifact(path="made", kind=kind, value=value)
    result = runner.look_at(check, workspace=tmp_path)
    assert (result.output, result.passed, result.failed) == (output, passes, not passes)
    assert result.check == check
