"""Any program as a coding agent: what it gets, what is kept of it, and how it is stopped."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from pathlib import Path

import pytest

from irontree.agents.program import CommandAgent
from irontree.domain.agents import AgentSpec
from irontree.domain.attempt import Claim
from irontree.ports import AgentTask
from tests.support.processes import NEVER, Heard, children


@pytest.fixture
def task(tmp_path) -> AgentTask:
    (tmp_path / "workspace").mkdir()
    return AgentTask(
        issue_number=7,
        task_key="core-model",
        attempt=2,
        prompt="Make it.\nUse {braces} and ümlauts.\n",
        workspace=tmp_path / "workspace",
        transcript=tmp_path / "reports" / "attempt-0002",
        variables={"EXTRA": "more"},
    )


def attempt(task, *command, cancel=NEVER, progress=None, variables=None, **spec):
    agent = CommandAgent(AgentSpec(command=command, **spec), children(), {**os.environ, **(variables or {})})
    return agent.attempt(task, cancel=cancel, progress=progress or Heard())


def shell(task, script, **more):
    return attempt(task, "sh", "-c", script, **more)


def test_the_prompt_comes_on_stdin_and_as_a_file_outside_the_workspace(task):
    shell(task, 'cat > stdin.txt; cp "$IRONTREE_PROMPT_FILE" file.txt; echo "$IRONTREE_PROMPT_FILE" > where.txt')
    for kept in (task.workspace / "stdin.txt", task.workspace / "file.txt", task.transcript / "prompt.md"):
        assert kept.read_text() == task.prompt
    where = Path((task.workspace / "where.txt").read_text().strip())
    assert not where.is_relative_to(task.workspace)
    assert not where.is_relative_to(task.transcript), "what it can change there is none of the record"
    assert not where.parent.exists(), "it is gone at the end"


def test_a_very_long_prompt_does_not_go_through_the_arguments(task):
    long = dataclasses.replace(task, prompt="x" * 5_000_000)
    shell(long, "wc -c > size.txt")
    assert int((task.workspace / "size.txt").read_text()) == 5_000_000


def test_it_is_told_what_it_works_on(task):
    names = "IRONTREE_TASK_KEY IRONTREE_ISSUE IRONTREE_ATTEMPT IRONTREE_WORKSPACE EXTRA"
    result = shell(task, f"for name in {names}; do printenv $name; done; pwd")
    assert result.output_tail.splitlines() == ["core-model", "7", "2", str(task.workspace), "more", str(task.workspace)]


def test_placeholders_in_the_command_are_filled_and_other_braces_are_left_alone(task):
    words = ("printf", "%s\n", "{task_key}/{attempt}/{issue}", "{prompt_file}", '{"json": {}}')
    ours, prompt, theirs = attempt(task, *words).output_tail.splitlines()
    assert (ours, Path(prompt).name, theirs) == ("core-model/2/7", "prompt.md", '{"json": {}}')


@pytest.mark.parametrize(
    "script",
    [
        'cd "$(dirname "$IRONTREE_PROMPT_FILE")" && mkdir result.json',
        'cd "$(dirname "$IRONTREE_PROMPT_FILE")" && ln -s "$IRONTREE_WORKSPACE/theirs" result.json',
        'folder=$(dirname "$IRONTREE_PROMPT_FILE"); rm -r "$folder" && ln -s "$IRONTREE_WORKSPACE" "$folder"',
        'rm -r "$(dirname "$IRONTREE_PROMPT_FILE")"',
        'mkfifo "$IRONTREE_SUMMARY_FILE"',
    ],
)
def test_what_it_puts_in_the_place_of_our_files_is_neither_written_through_nor_waited_for(task, script):
    assert shell(task, script).exit_code == 0
    assert not (task.workspace / "theirs").exists()
    assert not (task.workspace / "result.json").exists()


def test_a_summary_has_no_secrets_either(task):
    told = 'echo "my key is $MODEL_KEY" > "$IRONTREE_SUMMARY_FILE"'
    result = shell(task, told, variables={"MODEL_KEY": "sk-123456789"}, environment=("MODEL_KEY",))
    assert result.claim.words == "my key is ***"


def test_the_environment_is_scrubbed_but_for_the_names_the_plan_allows(task):
    secrets = {
        "MODEL_KEY": "sk-123456789",
        "GITHUB_TOKEN": "ghp-123456789",
        "PREFECT_API_URL": "http://x",
        "CLAUDECODE": "1",
    }
    shell(task, "env > env.txt", variables=secrets | {"GIT_DIR": "/x"}, environment=("MODEL_KEY",))
    seen = (task.workspace / "env.txt").read_text()
    assert "MODEL_KEY=sk-123456789" in seen
    for name in ("GITHUB_TOKEN", "PREFECT_API_URL", "CLAUDECODE", "GIT_DIR"):
        assert name not in seen


def test_a_secret_that_it_prints_is_not_kept_or_shown(task):
    heard = Heard()
    result = shell(
        task,
        "echo key: $MODEL_KEY",
        variables={"MODEL_KEY": "sk-123456789"},
        environment=("MODEL_KEY",),
        progress=heard,
    )
    kept = "".join(path.read_text() for path in task.transcript.iterdir())
    assert "sk-123456789" not in kept + result.output_tail + "".join(heard.lines)
    assert "key: ***" in kept


def test_the_transcript_holds_prompt_output_and_outcome(task):
    result = shell(task, "echo working; echo trouble >&2; exit 3")
    assert result.exit_code == 3
    assert sorted((task.transcript / "output.log").read_text().split()) == ["trouble", "working"]
    kept = json.loads((task.transcript / "result.json").read_text())
    assert (kept["ended"], kept["exit_code"], kept["command"]) == (
        "exited",
        3,
        ["sh", "-c", "echo working; echo trouble >&2; exit 3"],
    )


def test_other_users_of_the_machine_cannot_read_the_transcript(task):
    shell(task, "true")
    assert task.transcript.stat().st_mode & 0o077 == 0


def test_output_is_shown_as_it_comes(task):
    bell = threading.Event()
    result = shell(task, "echo ready; sleep 1000", cancel=bell, progress=Heard(bell, "ready"))
    assert result.ended == "cancelled"


def test_the_tail_is_short_however_much_it_talks(task):
    result = shell(task, "seq 10000")
    assert result.output_tail.splitlines() == [str(n) for n in range(9981, 10001)]
    assert (task.transcript / "output.log").read_text().count("\n") == 10000


def test_its_last_words_are_kept_if_it_leaves_some(task):
    assert shell(task, 'echo "added the model" > "$IRONTREE_SUMMARY_FILE"').claim == Claim(
        None, "summary", "added the model"
    )


def test_last_words_are_not_read_through_a_link(task, tmp_path):
    (tmp_path / "secret").write_text("secret")
    assert shell(task, f'ln -s {tmp_path}/secret "$IRONTREE_SUMMARY_FILE"').claim is None


def test_without_last_words_there_is_no_summary(task):
    assert shell(task, "true").claim is None


def test_a_program_that_is_missing_is_not_started_and_named(task):
    result = attempt(task, "no-such-agent", "--do")
    assert result.ended == "not_started"
    assert "no-such-agent" in result.output_tail


@pytest.mark.parametrize(("limit", "ended"), [({"wall_seconds": 1}, "timeout"), ({"stall_seconds": 1}, "stalled")])
def test_it_is_stopped_at_its_limits_with_all_it_started(task, witness, limit, ended):
    result = shell(task, f"{witness.hold}; setsid sleep 1000 & sleep 1000", **limit)
    assert result.ended == ended
    assert witness.says_all_are_gone()


def test_bytes_that_are_no_text_do_not_stop_anything(task):
    heard = Heard()
    shell(task, r"printf 'a\377b\n'", progress=heard)
    assert heard.lines == ["a\ufffdb"]
    assert (task.transcript / "output.log").read_bytes() == b"a\xffb\n"
