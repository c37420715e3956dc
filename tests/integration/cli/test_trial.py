"""Real checks that are tried before any work, step by step and with `irontree doctor --run` (decision 27)."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repositories import git

CONFIG = """\
agent:
  command: [{agent}]
verify:
  preflight: true
  commands:
  - name: tests
    run: {tests}
publish:
  remote: origin
  target_branch: main
"""


@pytest.fixture
def tried(shell):
    """What configures the repository so that this command is tried first, and publishes a task."""

    def configure(tests: str):
        agent = (shell.root / ".mino/config.yml").read_text().partition("command: [")[2].partition("]")[0]
        shell.configure(CONFIG.format(agent=agent, tests=tests))
        shell.publish("# Texts\n\n## Third text\n\n- [ ] It is there (check: tests)\n")
        return shell

    return configure


def events(shell) -> list[str]:
    return [path.name for path in sorted((shell.root / ".mino/events/issue-4").iterdir())]


def test_a_missing_program_is_a_question_before_any_agent_and_is_tried_again_once_it_is_there(tried, tmp_path):
    shell = tried(f"sh {tmp_path}/check.sh")
    step = shell("run", "third-text")
    assert step.code == 1
    assert "The checks do not work without any change" in shell("inbox").out
    assert "run-started" not in str(events(shell))
    git(shell.root, "status")
    shell("checkup", "unblock", "issue-4")
    again = shell("run", "third-text")
    assert again.code == 1, "nothing was put right"


def test_what_is_accepted_as_it_was_lets_the_work_begin(tried):
    shell = tried("test -e third-text.txt")
    assert shell("run", "third-text").code == 1
    accepted = shell("checkup", "accept", "issue-4", "the task is to write it")
    assert accepted.code == 0, accepted.err
    assert shell("run", "third-text").code == 0
    assert shell("verify", "third-text").code == 0


def test_stored_results_that_somebody_wrote_are_not_believed(tried):
    shell = tried("echo looks bad; test -e third-text.txt")
    shell("run", "third-text")
    (stored,) = (shell.root / ".mino/reports/base").glob("*.yml")
    stored.write_text(stored.read_text().replace("exit_code: 1", "exit_code: 0"))
    shell("checkup", "unblock", "issue-4")
    assert shell("run", "third-text").code == 1


def test_doctor_runs_the_checks_if_it_is_told_to_and_shows_what_they_print(tried):
    shell = tried("echo looks bad; exit 3")
    assert shell("doctor").code == 0
    ran = shell("doctor", "--run", "--json")
    assert ran.code == 1
    (found,) = (item for item in ran.data["findings"] if item["what"] == "check tests")
    assert found["verdict"] == "bad"
    assert "looks bad" in found["found"]
    assert "without any change" in found["found"]


TRY, APPROVE = "Try these commands now? [Y/n] ", "Approve and publish? [yes/no] "


def at_a_terminal(shell, given: dict[str, str], *words: str) -> str:
    """What a program prints that is started at a terminal where each question is answered by the next line for it."""
    answers = {question: iter(lines.split("\n")) for question, lines in given.items()}
    ours, theirs = pty.openpty()
    program = Path(sys.executable).parent / "irontree"
    with subprocess.Popen(
        [program, "-C", shell.root, *words], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        os.close(theirs)
        said = ""
        while more := process.stdout.read(1):
            said += more
            for question, answer in answers.items():
                if said.endswith(question):
                    os.write(ours, f"{next(answer)}\n".encode())
    os.close(ours)
    return said


def test_at_a_terminal_the_commands_are_offered_before_the_approval_and_run_only_after_a_yes(tried, tmp_path):
    shell = tried(f"echo ran >> {tmp_path}/ran; exit 1")
    (shell.root / "NEW.md").write_text("# Texts\n\n## Fourth text\n\n- [ ] It is there (check: tests)\n")
    assert TRY in at_a_terminal(shell, {TRY: "n", APPROVE: "no"}, "task", "NEW.md", "--stepwise")
    said = at_a_terminal(shell, {APPROVE: "no"}, "task", "NEW.md", "--stepwise", "--no-preflight")
    assert TRY not in said
    said = at_a_terminal(shell, {TRY: "maybe\nn", APPROVE: "no"}, "task", "NEW.md", "--stepwise")
    assert "“maybe” is neither yes nor no" in said
    assert not (tmp_path / "ran").exists()
    said = at_a_terminal(shell, {TRY: "", APPROVE: "no"}, "task", "NEW.md", "--stepwise")
    assert "fails" in said.partition(TRY)[2]
    assert "without any change" in said
    assert "not approved; nothing was published" in said
