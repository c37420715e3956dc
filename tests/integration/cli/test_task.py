"""`irontree task` up to the point where flows begin: plans to look at, approvals, publishing, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.cli.answer import expected_numbers
from irontree.services.answers.approve import approve
from irontree.services.loops import loop as loops
from irontree.services.proposals.sources import propose
from irontree.services.record import read_world
from tests.integration.cli.conftest import CONFIG, SPEC
from tests.support.soak import in_soak

BROKEN = """\
# Broken

## First

Depends on: Nowhere

## First

- [ ] it is there
"""


@pytest.fixture
def server_elsewhere(monkeypatch):
    """A command that has its approval starts a server at once, which would find its way into other tests."""
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")


@pytest.fixture
def shell(bare_shell, tmp_path):
    """Set up, with a document that nobody has approved."""
    assert bare_shell("init").code == 0
    bare_shell.configure(CONFIG.format(agent=tmp_path / "agent"))
    (bare_shell.root / "SPEC.md").write_text(SPEC)
    return bare_shell


@pytest.fixture
def revision(shell) -> str:
    return propose(open_app(shell.root, origin=Origin("eve")), shell.root / "SPEC.md").name


def everything(root):
    """All files of the state folder with their content, but for caches."""
    files = (path for path in (root / ".mino").rglob("*") if path.is_file() and ".cache" not in path.parts)
    return {path: path.read_bytes() for path in files}


@pytest.fixture
def untouched(shell):
    """Whatever is typed in the test, nothing is written."""
    before = everything(shell.root)
    yield
    assert everything(shell.root) == before


@pytest.mark.usefixtures("untouched")
def test_the_plan_shows_tree_keys_revision_and_commands(shell, revision):
    shown = shell("task", "SPEC.md", "--plan")
    assert shown.code == 0
    for needed in (revision, "parts-second-text", "depends on first-text", "test ! -e broken", "`main`", "a person"):
        assert needed in shown.out


@pytest.mark.usefixtures("untouched")
def test_the_command_that_approves_has_the_options_that_the_plan_was_shown_with(shell):
    shown = shell("task", "SPEC.md", "--plan", "--keep-removed", "--reopen-changed").out
    assert "`irontree task SPEC.md --keep-removed --reopen-changed`, which asks you" in shown


@pytest.mark.usefixtures("untouched")
def test_the_machine_form_of_the_plan_has_nodes_order_policy_and_budget(shell, revision):
    plan = shell("task", "SPEC.md", "--plan", "--json").data
    assert (plan["name"], plan["spec_path"], plan["approved"]) == (revision, "SPEC.md", False)
    assert plan["digest"].startswith(revision)
    assert [node["task_key"] for node in plan["nodes"]] == ["first-text", "parts", "parts-second-text"]
    assert plan["nodes"][2]["depends_on"] == ["first-text"]
    assert plan["order"].index("first-text") < plan["order"].index("parts-second-text")
    assert plan["policy"]["checks"][0]["run"] == "test ! -e broken"
    assert plan["budget_max_transitions"] == 50


def test_stepwise_publishes_and_stops_there_and_the_same_again_finds_what_is_there(shell, revision):
    first = shell("task", "SPEC.md", "--stepwise", "--approve", revision)
    assert first.code == 0
    lines = [line.split() for line in first.out.splitlines() if line.startswith("#") and line[1].isdigit()]
    assert [(number, status) for number, status, *_ in lines] == [
        ("#1", "created"),
        ("#2", "created"),
        ("#3", "created"),
    ]
    assert first.out.splitlines()[-1] == "Next: irontree run issue-1"
    events = sorted((shell.root / ".mino" / "events").rglob("*.yml"))
    again = shell("task", "SPEC.md", "--stepwise")
    assert again.code == 0
    assert "was approved by Test Author" in again.out
    assert "created" not in again.out
    assert sorted((shell.root / ".mino" / "events").rglob("*.yml")) == events
    assert shell("status", "--loops", "--json").data["loops"] == []


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("SPEC.md",), "is not approved, and nobody is here to ask"),
        (("SPEC.md", "--stepwise"), "is not approved, and nobody is here to ask"),
        (("SPEC.md", "--approve", "00000000"), "that does not name an approval"),
        (("nowhere.md",), "`irontree example > nowhere.md` writes one to start from"),
        (("SPCE.md",), "there is no file SPCE.md; did you mean SPEC.md?\n  -> irontree task SPEC.md"),
        (("spec.markdown",), "did you mean SPEC.md?"),
        (("docs/SPEC.md",), "did you mean SPEC.md?"),
        (("tidy", "up"), "Cannot infer intent from “tidy up”"),
        (("first", "5"), "there are no open issues labelled iron-tree:adopted"),
        (("#12",), "there is no issue #12 here"),
        (("SPEC.md", "--answer", "issue-1=perhaps"), "there is no answer “perhaps”"),
        (("SPEC.md", "--answer", "accept"), "is not understood"),
        (("SPEC.md", "--answer", "issue-4=accept"), "there is no such issue here"),
        (("SPEC.md", "--answer", "third-text=accept"), "there is no such task here"),
        (("resume",), "No loop is open"),
        (("resme", "2026-04-22-1432-a3f8b2"), "did you mean resume?"),
        (("resume", "2026-04-22-1432-a3f8b2", "cancle"), "“cancle” is no way to resume; did you mean cancel?"),
        (("resume", "2026-04-22-1432-a3f8b2"), "Loop 2026-04-22-1432-a3f8b2 not found"),
    ],
)
@pytest.mark.usefixtures("server_elsewhere")
def test_what_cannot_be_done_is_refused_with_what_can_and_nothing_is_written(shell, words, said):
    refused = shell("task", *words)
    assert refused.code == 1
    assert said in refused.err
    assert "  -> " in refused.err


@pytest.mark.usefixtures("untouched")
def test_runs_are_left_to_a_worker_only_where_a_server_is_named(shell):
    refused = shell("task", "SPEC.md", "--detach")
    assert (refused.code, "no Prefect server is configured" in refused.err) == (1, True)


def test_the_numbers_by_which_answers_are_checked_are_those_that_the_tasks_get(shell, revision):
    app = open_app(shell.root, origin=Origin("eve"))
    (shell.root / "OTHER.md").write_text("# Other\n\n## Before\n\n- [ ] It is there\n")
    for document in ("OTHER.md", "SPEC.md"):
        proposal = propose(app, shell.root / document)
        expected = expected_numbers(proposal.draft.nodes, read_world(app).states)
        assert shell("task", document, "--stepwise", "--approve", proposal.name).code == 0
        states = read_world(app).states
        assert expected == {node.task_key: states[node.task_key].issue_number for node in proposal.draft.nodes}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("words", [("--json",), ("--stepwise", "--detach"), ("--detach", "--answer", "issue-1=accept")])
def test_options_that_mean_nothing_together_are_wrong_usage(shell, words):
    assert shell("task", "SPEC.md", *words).code == 2


@pytest.mark.parametrize(("agent", "said"), [("''", "agent.command is empty"), ("no-such-agent", "is not on PATH")])
@pytest.mark.usefixtures("server_elsewhere")
def test_a_loop_that_nobody_would_work_in_is_refused_before_it_is_approved(shell, agent, said):
    shell.configure(f"agent:\n  command: {agent}\n")
    before = everything(shell.root)
    revision = shell("task", "SPEC.md", "--plan", "--json").data["name"]
    refused = shell("task", "SPEC.md", "--approve", revision)
    assert (refused.code, said in refused.err) == (1, True)
    assert everything(shell.root) == before


@pytest.mark.usefixtures("untouched")
def test_all_that_is_wrong_with_a_document_is_said_at_once_with_its_lines(shell):
    (shell.root / "SPEC.md").write_text(BROKEN)
    refused = shell("task", "SPEC.md", "--plan")
    assert refused.code == 1
    for said in ("SPEC.md:5", "Nowhere", "SPEC.md:7"):
        assert said in refused.err


def on_a_terminal(shell, *typed: bytes, before: bytes = b"") -> subprocess.CompletedProcess[str]:
    """`irontree task --stepwise` with somebody who types that, each once asked, and may have typed something before."""
    keyboard, terminal = os.openpty()
    os.write(keyboard, before)
    words = [sys.executable, "-m", "irontree", "-C", str(shell.root), "task", "SPEC.md", "--stepwise"]
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(words, stdin=terminal, stdout=pipe, stderr=pipe, text=True) as process:
            shown = ""
            for line in typed:
                prompts = shown.count("[yes/no] ")
                while shown.count("[yes/no] ") == prompts and (more := process.stdout.read(1)):
                    shown += more
                os.write(keyboard, line)
            out, err = process.communicate(timeout=60)
    finally:
        os.close(terminal)
        os.close(keyboard)
    return subprocess.CompletedProcess(words, process.returncode, shown + out, err)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "typed",
    [
        [b"perhaps\n", b"No\n"],
        *(pytest.param(typed, marks=in_soak) for typed in ([b"no\n"], [b"\n", b"n\n"], [b"\x04"])),
    ],
)
def test_whatever_is_typed_but_yes_writes_nothing(shell, typed):
    """What is neither yes nor no is asked again."""
    refused = on_a_terminal(shell, *typed)
    assert refused.returncode == 1
    assert "not approved; nothing was published" in refused.stderr


@pytest.mark.usefixtures("untouched")
def test_a_yes_that_was_typed_before_the_plan_was_shown_approves_nothing(shell):
    assert on_a_terminal(shell, b"no\n", before=b"yes\n").returncode == 1


def test_somebody_on_a_terminal_says_yes(shell, revision):
    assert on_a_terminal(shell, b"Yes\n").returncode == 0
    app = open_app(shell.root, origin=Origin("eve"))
    [plan] = map(app.plans.load, app.plans.revisions())
    assert plan.approval.by == "Test Author"


# --- a loop that is there ------------------------------------------------------------------------------------------


@pytest.fixture
def loop_id(shell, revision) -> str:
    app = open_app(shell.root, origin=Origin("Test Author"))
    with app.driver.hold("publish"):
        return approve(app, propose(app, shell.root / "SPEC.md"), revision, "Test Author").id


def test_a_loop_is_cancelled_for_good(shell, loop_id):
    cancelled = shell("task", "resume", loop_id, "cancel")
    assert (cancelled.code, cancelled.out) == (
        0,
        f"Loop {loop_id} cancelled. Its issues keep their state: irontree status\n",
    )
    assert shell("status", "--loops", loop_id, "--json").data["loop"]["status"] == "cancelled"
    for action in ((), ("cancel",), ("skip", "first-text")):
        refused = shell("task", "resume", loop_id, *action)
        assert (refused.code, f"Loop {loop_id} is cancelled" in refused.err) == (1, True)


def test_what_a_command_said_of_a_loop_is_in_the_backup(shell, loop_id):
    """R13"""
    assert shell("task", "resume", loop_id, "cancel").code == 0
    words = ["git", "ls-tree", "-r", "--name-only", "refs/irontree/log", f".mino/loops/{loop_id}/events/"]
    kept = subprocess.run(words, cwd=shell.root, capture_output=True, text=True, check=True).stdout.splitlines()
    assert kept[-1].endswith("0002-loop-cancelled.yml")


def test_one_open_loop_need_not_be_named(shell, loop_id):
    assert shell("task", "resume", "cancel").out.startswith(f"Loop {loop_id} cancelled.")
    assert "No loop is open" in shell("task", "resume").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("later",), "“later” is no way to resume"),
        (("skip",), "“skip” is no way to resume"),
        (("skip", "third-text"), "'third-text' is no issue (issue-12, #12, 12) and no task key here"),
        (("skip", "frist-text"), "did you mean first-text?"),
        (("continue", "--answer", "issue-9=accept"), "there is no such issue here"),
        (("skip", "first-text", "--answer", "issue-9=accept"), "there is no such issue here"),
        (("continue", "--detach"), "no Prefect server is configured"),
        (("skip", "first-text", "--detach"), "no Prefect server is configured"),
    ],
)
@pytest.mark.usefixtures("server_elsewhere")
def test_another_way_to_resume_is_refused_and_the_loop_stays_as_it_is(shell, loop_id, words, said, monkeypatch):
    if "--detach" in words:
        monkeypatch.delenv("PREFECT_API_URL")
    before = everything(shell.root)
    refused = shell("task", "resume", loop_id, *words)
    assert refused.code == 1
    assert said in refused.err
    assert everything(shell.root) == before


@pytest.mark.parametrize("named", ["3", "#3", "issue-3", "parts-second-text"])
@pytest.mark.usefixtures("server_elsewhere")
def test_what_is_to_be_skipped_is_named_as_issues_are_everywhere(shell, loop_id, named):
    loops.skip(open_app(shell.root, origin=Origin("Ada")), loop_id, "parts-second-text", "Ada")
    again = shell("task", "resume", loop_id, "skip", named)
    assert f"parts-second-text is not in the scope of loop {loop_id}" in again.err


# --- --what-if ----------------------------------------------------------------------------------------------


def test_what_if_names_every_step_and_who_is_asked_and_touches_nothing(shell):
    before = sorted((shell.root / ".mino").rglob("*.yml"))
    typed = shell("task", "SPEC.md", "--what-if")
    assert typed.code == 0, typed.err
    assert "If every attempt passes, you are asked once, and it ends with: The goal is reached." in typed.out
    steps = shell("task", "SPEC.md", "--what-if", "--json").data
    assert [step["step"] for step in steps["steps"]] == [
        *("run", "verify", "finalize"),
        *("run", "verify", "asks you", "finalize"),
        *("aggregate", "finalize"),
    ]
    assert steps["ends_with"] == "goal_reached"
    assert sorted((shell.root / ".mino").rglob("*.yml")) == before


@pytest.mark.usefixtures("untouched")
def test_an_empty_branch_is_refused(shell):
    done = shell("task", "SPEC.md", "--branch", "")
    assert (done.code, "--branch needs a value" in done.err) == (2, True)


@pytest.mark.parametrize("intent", ["#12", "all open", "adopt issue-12", "resume 2026-04-22-1432-0a1b2c"])
@pytest.mark.parametrize("option", ["--keep-removed", "--reopen-changed"])
def test_what_is_to_become_of_a_documents_changes_is_said_with_a_document_alone(shell, intent, option):
    typed = shell("task", intent, option, "--plan")
    assert typed.code == 2
    assert "leave them out" in typed.err


def test_what_if_and_plan_are_two_questions(shell):
    typed = shell("task", "SPEC.md", "--what-if", "--plan")
    assert typed.code == 2
    assert "leave one of them out" in typed.err


@pytest.mark.usefixtures("untouched")
def test_a_placeholder_that_was_pasted_is_no_branch(shell):
    assert "put one in its place" in shell("task", "SPEC.md", "--branch", "NAME", "--plan").err


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("intent", ["SPEC.md", "#1"])
@pytest.mark.usefixtures("server_elsewhere")
def test_a_branch_is_chosen_for_workflow_files_alone(shell, intent):
    done = shell("task", intent, "--branch", "isolated", "--approve", "0" * 16)
    assert done.code != 0
    assert "leave" in done.err
    assert "--branch" in done.err
