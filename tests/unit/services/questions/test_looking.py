"""What a person at a terminal may look at before an answer."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from irontree.agents.scripted import ScriptedAgent
from irontree.cli.looking import TRY_KEY, _details, looks_at
from irontree.domain.halt import RULE
from irontree.rendering import JinjaRenderer
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.questions.questions import question_about
from tests.support.views import case
from tests.support.world import MANUAL_TASK

ROOT = Path(__file__).resolve().parents[4]


def test_each_part_has_a_key_of_its_own_and_t_opens_a_shell_where_the_work_is(scene, monkeypatch, tmp_path):
    shell, told = tmp_path / "shell", tmp_path / "told"
    shell.write_text(f"#!/bin/sh\npwd > {told}\ncat greet.txt >> {told}\nenv > {told}.env\n")
    shell.chmod(0o755)
    monkeypatch.setenv("SHELL", str(shell))
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "irontree:of the private server")
    monkeypatch.setenv("GITHUB_TOKEN", "of-the-forge")
    scene.publish(MANUAL_TASK)
    scene.agent = ScriptedAgent(lambda task: (task.workspace / "greet.txt").write_text("hello\n") and None)
    run(scene.app, 1)
    state = verify(scene.app, 1)
    looks = {look.key: look for look in looks_at(scene.app, question_about(state, RULE["pending_acceptance"]))}
    output = io.StringIO()
    looks["c"].show(Console(file=output, width=100))
    looks["t"].show(Console(file=output, width=100))
    assert [look.title for look in looks.values()] == [
        *("Acceptance criteria", "Checks at this commit", "Files changed", "The change"),
        f"try it: a shell at {state.anchor[:12]}",
    ]
    assert "Acceptance criteria" in output.getvalue()
    assert told.read_text() == f"{scene.repository.workspace('try', scene.policy.workspace).path}\nhello\n"
    assert not {"of the private server", "of-the-forge"} & {
        line.partition("=")[2].removeprefix("irontree:") for line in Path(f"{told}.env").read_text().splitlines()
    }, "what runs there may be the agent's"


def test_the_keys_are_those_that_the_guide_explains():
    guide = (ROOT / "docs" / "how-to" / "answer-questions.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`([a-z])`", "".join(re.findall(r"^\| (`[a-z]`[^|]*) \|", guide, re.MULTILINE))))
    forms = ("pending-acceptance", "fail-terminal", "blocked")
    texts = [JinjaRenderer().render(f"forms/{form}.md", **case(f"forms/{form}.md", "text")) for form in forms]
    assert {look.key for text in texts for look in _details(text)} | {TRY_KEY} == explained


def test_a_shell_that_is_not_there_is_said(scene, monkeypatch):
    monkeypatch.setenv("SHELL", "/nowhere/shell")
    scene.publish(MANUAL_TASK)
    scene.agent = ScriptedAgent(lambda task: (task.workspace / "greet.txt").write_text("hello\n") and None)
    run(scene.app, 1)
    *_, look = looks_at(scene.app, question_about(verify(scene.app, 1), RULE["pending_acceptance"]))
    output = io.StringIO()
    look.show(Console(file=output, width=100))
    assert "name another program in SHELL" in output.getvalue()
