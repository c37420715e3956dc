"""The replay agent, run as any other agent: through the `command` adapter, as a program."""

from __future__ import annotations

import dataclasses
import os
import sys

import pytest

from irontree.agents.program import CommandAgent
from irontree.domain.agents import AgentSpec
from irontree.ports import AgentTask
from tests.support.processes import NEVER, Heard, children
from tests.support.repositories import git, write

FIRST = "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-one\n+two\n"
SECOND = "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-two\n+three\n"
NEW_FILE = "diff --git a/new.py b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+new\n"


@pytest.fixture
def patches(tmp_path):
    folder = tmp_path / "patches" / "core-model"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def replay(tmp_path, patches):
    workspace = tmp_path / "workspace"
    git(tmp_path, "init", "--quiet", str(workspace))
    write(workspace, **{"app.py": "one\n"})
    spec = AgentSpec(command=(sys.executable, "-m", "irontree", "agents", "replay", str(patches.parent)))
    task = AgentTask(7, "core-model", 1, "prompt", workspace, tmp_path / "transcript")

    def attempt(number: int = 1, *more: str):
        words = spec.model_copy(update={"command": (*spec.command, *more)})
        heard = Heard()
        agent = CommandAgent(words, children(), os.environ)
        result = agent.attempt(dataclasses.replace(task, attempt=number), cancel=NEVER, progress=heard)
        return result, "\n".join(heard.lines), workspace

    return attempt


def test_it_applies_the_patch_of_the_attempt_and_says_that_no_model_is_called(replay, patches):
    (patches / "1.patch").write_text(FIRST + NEW_FILE)
    result, said, workspace = replay()
    assert result.exit_code == 0
    assert (workspace / "app.py").read_text() == "two\n"
    assert (workspace / "new.py").read_text() == "new\n"
    assert "replaying prepared patch core-model/1.patch" in said
    assert "no model is called" in said


def test_a_later_attempt_starts_from_the_earlier_ones_files(replay, patches):
    (patches / "1.patch").write_text(FIRST)
    (patches / "2.patch").write_text(SECOND)
    replay(1)
    _, _, workspace = replay(2)
    assert (workspace / "app.py").read_text() == "three\n"


def test_without_a_patch_of_its_own_an_attempt_takes_the_last_one_before_it(replay, patches):
    (patches / "1.patch").write_text("")
    (patches / "2.patch").write_text(FIRST)
    (patches / "10.patch").write_text(SECOND)
    _, said, workspace = replay(9)
    assert "2.patch" in said
    assert (workspace / "app.py").read_text() == "two\n"


def test_an_empty_patch_changes_nothing_and_is_no_error(replay, patches):
    (patches / "1.patch").write_text("")
    result, said, workspace = replay()
    assert result.exit_code == 0
    assert "nothing to change" in said
    assert (workspace / "app.py").read_text() == "one\n"


def test_it_says_what_was_prepared_for_it_to_say(replay, patches):
    (patches / "1.patch").write_text(FIRST)
    (patches / "1.say").write_text("I read the code.\nI change one line.\n")
    _, said, _ = replay(1, "--pace", "0.02")
    assert "I read the code.\nI change one line." in said


def test_a_patch_that_does_not_apply_is_an_error_that_says_so(replay, patches):
    (patches / "1.patch").write_text(SECOND)
    result, said, workspace = replay()
    assert result.exit_code == 1
    assert "1.patch does not apply" in said
    assert (workspace / "app.py").read_text() == "one\n"


def test_nothing_prepared_is_an_error_that_names_task_attempt_and_folder(replay, patches):
    (patches / "2.patch").write_text(FIRST)
    result, said, _ = replay(1)
    assert result.exit_code == 1
    assert "no prepared patch for core-model, attempt 1" in said
    assert str(patches.parent) in said
