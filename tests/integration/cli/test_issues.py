"""`irontree task` over issues that people wrote by hand, on the real local forge, up to where flows begin."""

from __future__ import annotations

import re
import shlex

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.services.record import read_world
from tests.integration.cli.conftest import CONFIG, SPEC

GREETING = """\
---
title: Greeting
---

## Acceptance criteria

- it is there (check: tests)
"""
BIG = "---\ntitle: Big\n---\n\n- [ ] a\n- [ ] b\n- [ ] c\n- [ ] d\n"
VAGUE = "---\ntitle: Vague\n---\n\nIt should be nicer.\n"
STRANGERS = "---\ntitle: Wish\nauthor: mallory\n---\n\n- [ ] it is there `$ curl evil`\n"


@pytest.fixture
def shell(bare_shell, tmp_path):
    """Set up, with an agent and no issue."""
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/sh\necho hello >> "$IRONTREE_TASK_KEY.txt"\n')
    agent.chmod(0o755)
    assert bare_shell("init").code == 0
    bare_shell.configure(CONFIG.format(agent=agent))
    return bare_shell


def write(shell, *texts: str) -> None:
    """Issues as files, numbered from 1."""
    folder = shell.root / ".mino" / "forge" / "issues"
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts, start=1):
        (folder / f"{number:04d}.md").write_text(text)


def text_of(shell, number: int) -> str:
    return (shell.root / ".mino" / "forge" / "issues" / f"{number:04d}.md").read_text()


def events(shell, number: int) -> list[str]:
    return sorted(path.name for path in (shell.root / ".mino" / "events" / f"issue-{number}").iterdir())


def everything(shell):
    files = (path for path in (shell.root / ".mino").rglob("*") if path.is_file() and ".cache" not in path.parts)
    return {path: path.read_bytes() for path in files}


def name_of(shell, words: str) -> str:
    return shell("task", words, "--plan", "--json").data["name"]


@pytest.mark.parametrize("words", ["#1 #2", "issue-1, issue-2"])
def test_the_plan_of_a_set_is_shown_and_nothing_is_touched(shell, words):
    write(shell, GREETING, STRANGERS)
    before = everything(shell)
    shown = shell("task", words, "--plan")
    assert shown.code == 0
    for needed in ("Loop Mode", "#1 Greeting", "[adopted]", "From mallory:", "`main`", "at most 50", "issues #1, #2"):
        assert needed in shown.out
    data = shell("task", words, "--plan", "--json").data
    assert [(task["issue"], task["status"]) for task in data["tasks"]] == [(1, "adopted"), (2, "adopted")]
    assert (data["query"], data["approved"], data["excluded"]) == ("issues #1, #2", False, [])
    assert everything(shell) == before


def test_adopt_takes_one_issue_in_and_says_how_to_go_on(shell):
    write(shell, GREETING)
    taken = shell("task", "adopt", "issue-1")
    assert taken.code == 0
    assert events(shell, 1) == ["0001-task-adopted.yml"]
    assert 'iron-tree:adopted"' in text_of(shell, 1)
    assert text_of(shell, 1).endswith("- it is there (check: tests)\n")
    command = re.search(r"irontree (answer 1 approve:\S+)", taken.out)[1]
    assert command in shell("status").out, "it is the command that the question names, too"
    assert shell(*command.split()).code == 0
    assert events(shell, 1) == ["0001-task-adopted.yml", "0002-task-approved.yml"]
    assert "stage:run" in text_of(shell, 1)


def test_what_a_stranger_wrote_does_nothing_to_the_terminal(shell):
    write(shell, GREETING.replace("title: Greeting", 'title: "Gree\\e[2J\\rting"'))
    for typed in (("adopt", "issue-1"), ("#1", "--stepwise", "--approve", name_of(shell, "#1"))):
        shown = shell("task", *typed)
        assert "Gree" in shown.out
        assert "\x1b" not in shown.out + shown.err
        assert "\r" not in shown.out + shown.err


def test_the_command_that_a_plan_names_can_be_typed_as_it_stands(shell):
    """Also with an apostrophe in it."""
    (shell.root / "it's.md").write_text(SPEC)
    shown = shell("task", "it's.md", "--plan")
    [(command, option)] = re.findall(r"type `+ ?(irontree .*?) ?`+, which asks you. In a script, add `(.*)`", shown.out)
    assert shlex.split(command)[1:] == ["task", "it's.md"]
    assert shell(*shlex.split(f"{command} {option}")[1:], "--stepwise").code == 0


def test_stepwise_adopts_approves_and_stops_there_and_the_issue_can_be_run(shell):
    write(shell, GREETING, GREETING.replace("Greeting", "Farewell"))
    done = shell("task", "#1 #2", "--stepwise", "--approve", name_of(shell, "#1 #2"))
    assert done.code == 0
    assert done.out.splitlines()[-1] == "Next: irontree run issue-1"
    assert events(shell, 2) == ["0001-task-adopted.yml", "0002-task-approved.yml"]
    assert shell("status", "--loops", "--json").data["loops"] == []
    assert shell("run", "issue-1").code == 0
    again = shell("task", "#1 #2", "--stepwise")
    assert again.code == 0, "all of it is approved"
    assert shell("audit").code == 0


def test_without_an_approval_and_without_a_person_nothing_happens(shell):
    write(shell, GREETING)
    refused = shell("task", "#1")
    assert refused.code == 1
    assert f"add --approve {name_of(shell, '#1')}" in refused.err
    assert not (shell.root / ".mino" / "events" / "issue-1").exists()


def test_another_name_is_refused(shell):
    write(shell, GREETING)
    name = name_of(shell, "#1")
    write(shell, GREETING.replace("it is there", "it is really there"))
    refused = shell("task", "#1", "--stepwise", "--approve", name)
    assert refused.code == 1
    assert name_of(shell, "#1") in refused.err


@pytest.mark.parametrize("words", ["#1 #2", "issue-2 #1"])
def test_one_issue_that_does_not_fit_aborts_the_batch(shell, words):
    write(shell, GREETING, BIG)
    refused = shell("task", words, "--stepwise", "--approve", "x")
    assert refused.code == 1
    assert "Batch adopt aborted at #2" in refused.err
    assert "needs-breakdown" in text_of(shell, 2)
    assert not (shell.root / ".mino" / "events").exists()


def test_a_vague_issue_is_shown_with_its_questions_and_not_approved(shell):
    write(shell, VAGUE)
    refused = shell("task", "#1", "--stepwise", "--approve", name_of(shell, "#1"))
    assert refused.code == 1
    assert "Open questions" in refused.out
    assert "answer in the issue" in refused.err
    taken = shell("task", "adopt", "issue-1")
    assert "Open question: What must hold" in taken.out
    assert "--approve" not in taken.out, "it would be refused"
    asked = shell("status", "--json").data["questions"][0]
    assert "its text leaves open: What must hold" in asked["detail"]
    assert asked["look"].endswith("--plan")


def test_an_edited_issue_is_taken_in_anew_and_its_stream_archived(shell):
    write(shell, GREETING)
    assert shell("task", "#1", "--stepwise", "--approve", name_of(shell, "#1")).code == 0
    edited = text_of(shell, 1) + "- and it is polite\n"
    (shell.root / ".mino" / "forge" / "issues" / "0001.md").write_text(edited)
    stopped = shell("run", "issue-1")
    assert stopped.code == 1
    assert "title or text of #1 is not what was approved" in shell("show", "issue-1").out
    shown = shell("task", "#1", "--plan").out
    archive = re.search(r"\[re_adopted, archived to (\S+)\]", shown)[1]
    assert "criterion added: and it is polite" in shown
    assert shell("task", "#1", "--stepwise", "--approve", name_of(shell, "#1")).code == 0
    assert events(shell, 1) == ["0001-task-re-adopted.yml", "0002-task-approved.yml"]
    assert (shell.root / archive / "events" / "0001-task-adopted.yml").is_file()
    assert (shell.root / archive / "brief.md").is_file()
    assert shell("audit").code == 0


@pytest.mark.parametrize("words", ["all open", "所有", "first 5", "前 5 条"])
def test_a_query_is_over_adopted_issues_that_are_open(shell, words):
    write(shell, GREETING, VAGUE, GREETING.replace("Greeting", "Closed").replace("---\n\n", "state: closed\n---\n\n"))
    assert shell("task", words).code == 1
    assert shell("task", "adopt", "issue-1").code == 0
    assert shell("task", "adopt", "issue-2").code == 0
    data = shell("task", words, "--plan", "--json").data
    assert [task["issue"] for task in data["tasks"]] == [1]
    assert [each["issue"] for each in data["excluded"]] == [2]
    assert data["intent"] == words


@pytest.mark.parametrize("option", ["--plan", "--stepwise", "--detach"])
def test_adopt_alone_takes_no_option_of_a_loop(shell, option):
    write(shell, GREETING)
    assert shell("task", "adopt", "issue-1", option).code == 2


def test_the_threshold_is_a_setting(shell):
    write(shell, BIG)
    shell.configure((shell.root / ".mino" / "config.yml").read_text() + "issue: {composite_threshold: 4}\n")
    assert shell("task", "adopt", "issue-1").code == 0


def test_an_adopted_issue_whose_plan_was_deleted_is_approved_again_by_its_number(shell):
    write(shell, GREETING)
    assert shell("task", "#1", "--stepwise", "--approve", name_of(shell, "#1")).code == 0
    for plan in (shell.root / ".mino" / "plans").iterdir():
        plan.unlink()
    write(shell, GREETING.replace("title: Greeting", "title: Another greeting"))
    told = shell("checkup", "check").out
    assert "irontree init --from-backup" in told
    assert "irontree task '#1'" in told
    assert "irontree task '#1'" in shell("run", "1").err
    assert shell("task", "#1", "--stepwise", "--approve", name_of(shell, "#1")).code == 0
    assert shell("run", "1").code == 0
    assert shell("status", "--json").data["issues"][0]["task_key"] == "greeting"


DRAFT = "# Second\n\nParent: #1\n\n## Part of it\n\n- [ ] it is there `$ test -f part.txt`\n"


def test_an_issue_that_the_team_talked_over_is_divided_as_its_members_claim(shell):
    app = open_app(shell.root, origin=Origin("ada"))
    app.forge().create_issue("Second", "It should be larger.\n")
    app.agent_requests.save_draft(1, DRAFT)
    shown = shell("task", "#1", "--plan")
    assert shown.code == 0, shown.err
    for told in ("#1 Second", "Part of it", "test -f part.txt", "there already"):
        assert told in shown.out
    name = shown.out.partition("`")[2].partition("`")[0]
    done = shell("task", "#1", "--stepwise", "--approve", name)
    assert done.code == 0, done.err
    assert read_world(open_app(shell.root, origin=Origin("ada"))).children["second"] == ("part-of-it",)


def test_one_that_somebody_adopted_instead_is_one_task(shell):
    app = open_app(shell.root, origin=Origin("ada"))
    app.forge().create_issue("Second", "- [ ] it is larger `$ true`\n")
    app.agent_requests.save_draft(1, DRAFT)
    assert shell("task", "adopt", "issue-1").code == 0
    assert "Part of it" not in shell("task", "#1", "--plan").out
