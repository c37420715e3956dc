"""The verbs that only look: their JSON keys, what they survive, and what they do not import."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app, open_set_aside
from irontree.cli.main import main
from irontree.domain.decide import Halt
from irontree.services.loops import loop as loops
from irontree.services.record import read_world
from tests.integration.cli.conftest import CONFIG
from tests.support.repositories import git
from tests.support.store import LOOP_ID

SHOW_KEYS = {
    *("issue", "task_key", "title", "type", "phase", "problem", "revision", "document", "parent", "children"),
    *("depends_on", "waits_for", "loop_id", "attempt", "attempts", "commit", "code_ref", "publication"),
    *("budgets", "completion_basis", "criteria", "checks", "failure", "denied", "last_words", "events"),
    *("question", "next", "files", "undelivered", "warnings", "diff"),
}
ISSUE_KEYS = {
    *("number", "task_key", "title", "parent", "depth", "phase", "stage", "attempts", "code_ref"),
    *("waits_for", "asks", "problem", "undelivered", "warnings", "skipped"),
}


def files(root: Path) -> dict[str, bytes]:
    """Everything under .mino but caches and locks, which a look may touch."""
    found = (path for path in (root / ".mino").rglob("*") if path.is_file())
    return {
        str(path): path.read_bytes() for path in found if not path.relative_to(root / ".mino").parts[0].startswith(".")
    }


def halted_loop(shell, reason: str = "loop_budget_exhausted", key: str | None = None) -> None:
    app = open_app(shell.root, origin=Origin("Test Author"))
    keys = tuple(read_world(app).states)
    loops.start(app, LOOP_ID, keys, intent="the first ten issues", query="first 10", budget=1)
    loops.spend(app, LOOP_ID, keys[0], "run")
    loops.halt(app, LOOP_ID, Halt(reason, key))


def test_status_lists_the_tree_in_order_with_documented_keys(shell):
    issues = shell("status", "--json").data["issues"]
    assert [(issue["number"], issue["depth"], issue["parent"]) for issue in issues] == [
        (1, 0, None),
        (2, 0, None),
        (3, 1, "parts"),
    ]
    assert issues[0].keys() == ISSUE_KEYS
    assert shell("status").out.splitlines()[0] == "0 of 3 issues done"


def test_the_next_command_works_from_where_status_was_typed(shell, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["-C", str(shell.root), "status"]) == 0
    shown = capsys.readouterr().out
    assert f"irontree -C {shell.root} run issue-1" in shown
    assert not re.search(r"irontree (?!-C)", shown)


def test_show_tells_everything_about_one_issue(shell):
    shell("run", "1")
    shown = shell("show", "first-text", "--diff", "--json").data
    assert shown.keys() == SHOW_KEYS
    assert shown["criteria"] == [{"text": "It is there", "covered_by": "test ! -e broken"}]
    assert "+attempt 1" in shown["diff"]
    assert set(shown["files"]) == {"brief", "events", "transcript 0002, attempt 1"}
    assert all((shell.root / path).exists() for path in shown["files"].values())
    assert shown["next"] == "irontree verify issue-1"
    text = shell("show", "#1", "--diff").out
    for part in (
        "committed, to be verified",
        "Attempts: 1 of 2",
        "From: SPEC.md",
        "+attempt 1",
        "irontree verify issue-1",
    ):
        assert part in text


def test_show_of_a_composite_names_its_parts_and_of_a_part_what_it_waits_for(shell):
    assert "Parts: #3" in shell("show", "2").out
    part = shell("show", "3").out
    assert "Part of: #2" in part
    assert "Waits for: #1" in part


def test_events_as_json_are_the_contracts_blocks_exactly_as_recorded(shell):
    [found] = shell("show", "1", "--events", "--json").data["events"]
    [file] = (shell.root / ".mino/events/issue-1").iterdir()
    lines = file.read_text().splitlines()
    keys = [line.split(":")[0].strip() for line in lines[1 : lines.index("meta:")]]
    assert list(found["iron_tree"]) == keys
    assert found["iron_tree"]["event"] == "task_published"
    assert {"time", "actor"} <= found["meta"].keys()


def test_events_are_one_line_each(shell):
    lines = shell("show", "1", "--events").out.splitlines()
    assert lines[0].split() == ["SEQ", "TIME", "EVENT", "WHAT"]
    assert lines[1].startswith("0001  ")
    assert lines[1].endswith("task_published  published")


def test_events_that_cannot_be_read_are_named_even_if_none_can(shell):
    for file in (shell.root / ".mino/events/issue-1").iterdir():
        file.write_text("iron_tree: [")
    shown = shell("show", "1", "--events")
    assert shown.code == 0
    assert "0001-task-published.yml" in shown.out
    assert shell("show", "9", "--events").code == 1


def test_the_graph_is_mermaid_text_with_numbers_and_states(shell):
    drawn = shell("graph").out
    assert drawn.startswith("flowchart TD\n")
    assert "First text: ready to run" in drawn
    nodes = {node["task_key"]: node for node in shell("graph", "--json").data["nodes"]}
    assert nodes["parts-second-text"]["depends_on"] == ["first-text"]
    assert nodes["parts-second-text"]["parent"] == "parts"
    assert nodes["parts"]["issue"] == 2


def test_the_graph_is_a_picture_and_a_text_for_graphviz_too(shell):
    drawn = ET.fromstring(shell("graph", "--format", "svg").out)
    titles = [title.text for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert "#1 First text: ready to run" in titles
    assert 'label="#1 First text: ready to run"' in shell("graph", "--format", "dot").out


def test_why_tells_where_a_task_stands_by_number_and_by_key(shell):
    assert shell("show", "1", "--why").out.startswith("#1 first-text is next: ")
    found = shell("show", "parts-second-text", "--why", "--json").data
    assert (found["standing"], found["because"]) == ("waiting", "it needs first-text")
    assert found["events"] == ["1. published"]
    assert shell("show", "nobody", "--why").code == 1


def test_audit_proves_a_log_and_names_what_was_changed_in_it(shell):
    shell("run", "1")
    assert shell("audit").out.startswith("Sound: ")
    event = shell.root / ".mino/events/issue-1/0002-run-started.yml"
    before = event.read_text()
    event.write_text(before.replace("attempt_count: 1", "attempt_count: 7"))
    assert event.read_text() != before
    changed = shell("audit", "--json")
    assert (changed.code, changed.data["ok"]) == (1, False)
    assert {finding["where"] for finding in changed.data["findings"]} == {"issue-1"}


def test_results_whose_key_was_lost_are_named_until_the_user_vouches_for_them(shell):
    for words in (("run",), ("verify",), ("checkup", "finalize")):
        assert shell(*words, "issue-1").code == 0
    assert shell("audit").code == 0
    key = open_set_aside(shell.root).state_folder / "results.key"
    key.unlink()
    for _ in range(2):
        found = shell("audit")
        assert (found.code, "irontree audit --vouch" in found.out) == (1, True)
    vouched = shell("audit", "--vouch")
    assert (vouched.code, "sealed 1 check result that you vouch for" in vouched.err) == (0, True)
    assert shell("audit").code == 0


def test_audit_and_check_name_what_is_lost_from_the_end_of_a_stream_and_how_to_get_it_back(shell):
    shell("run", "1")
    last = max((shell.root / ".mino/events/issue-1").iterdir())
    content = last.read_text()
    last.unlink()
    for words in (("audit",), ("checkup", "check")):
        [finding] = shell(*words, "--json").data["findings"]
        assert (finding["where"], "is gone" in finding["what"]) == (str(last.relative_to(shell.root)), True)
    assert shell(*shlex.split(finding["remedy"])[1:]).code == 0
    assert last.read_text() == content
    assert shell("audit").code == 0


def test_a_task_whose_events_were_lost_is_not_begun_a_second_time(shell):
    shell("run", "1")
    shutil.rmtree(shell.root / ".mino/events/issue-1")
    revision = shell("task", "SPEC.md", "--plan", "--json").data["name"]
    said = shell("task", "SPEC.md", "--stepwise", "--approve", revision)
    assert "its events were there and are gone" in said.out + said.err
    assert not (shell.root / ".mino/events/issue-1").exists()


def test_a_graph_of_nothing_is_refused_with_what_to_do(bare_shell):
    bare_shell("init")
    empty = bare_shell("graph")
    assert empty.code == 1
    assert "irontree task SPEC.md" in empty.err


def test_a_halted_loop_asks_its_question_with_the_command_that_answers_it(shell):
    halted_loop(shell)
    [question] = shell("status", "--json").data["questions"]
    assert (question["issue"], question["loop_id"]) == (None, LOOP_ID)
    assert [answer["command"] for answer in question["answers"]] == [
        f"irontree answer {LOOP_ID} extend:20",
        f"irontree stop {LOOP_ID}",
    ]
    [row] = shell("status", "--loops", "--json").data["loops"]
    assert (row["loop_id"], row["status"], row["total"]) == (LOOP_ID, "halted", 3)
    one = shell("status", "--loops", LOOP_ID)
    assert "halted, 1 of 1 transitions used" in one.out
    assert "extend:20" in one.out
    assert shell("status", "--loops", LOOP_ID, "--json").data.keys() == {
        "loop",
        "cancelled",
        "budgets",
        "tasks",
        "events",
    }


def test_a_halted_loop_goes_on_by_being_resumed_after_an_answer(shell):
    halted_loop(shell, "blocked", "first-text")
    git(shell.root, "config", "user.email", "")
    shell("checkup", "pre-flight", "1")
    git(shell.root, "config", "--unset", "user.email")
    assert shell("checkup", "unblock", "1", "--json").data["next"] == f"irontree resume {LOOP_ID}"


@pytest.mark.parametrize("given_up", [("skip", "first-text"), ("cancel",)])
def test_what_a_person_gave_up_asks_nobody_but_can_be_looked_at(shell, given_up):
    halted_loop(shell, "blocked", "first-text")
    git(shell.root, "config", "user.email", "")
    shell("checkup", "pre-flight", "1")
    before = shell("status").out
    assert f"Next (asks you at the terminal, then goes on):\n  irontree resume {LOOP_ID}" in before
    assert "irontree serve" not in before
    shell("repos", "add")
    assert shell("status").out.endswith("\n  irontree serve\n")
    shell("repos", "remove")
    app = open_app(shell.root, origin=Origin("Test Author"))
    if given_up[0] == "skip":
        loops.skip(app, LOOP_ID, given_up[1], "Ada")
    else:
        loops.cancel(app, LOOP_ID, "Ada")
    seen = shell("status", "--json").data
    assert seen["questions"] == []
    assert seen["issues"][0]["skipped"] == (given_up[0] == "skip")
    assert "waiting for you" not in shell("status").out
    assert shell("show", "1", "--json").data["question"]["reason"] == "blocked"


def test_a_remedy_can_be_typed_where_it_is_told(shell, capsys):
    assert main(["-C", str(shell.root), "status", "--loops", "2020-01-01-0000-aaaaaa"]) == 1
    assert f"`irontree -C {shell.root} status --loops` lists them" in capsys.readouterr().err


def test_a_loop_that_is_not_there_is_refused(shell):
    missing = shell("status", "--loops", "2020-01-01-0000-aaaaaa")
    assert missing.code == 1
    assert "irontree status --loops" in missing.err


def test_damage_is_shown_by_status_found_by_check_and_recorded_by_reconcile(shell):
    shell("run", "1")
    (shell.root / ".mino/events/issue-1/0002-run-started.yml").write_text("iron_tree: [")
    assert shell("status").code == 0
    assert "0002-run-started.yml" in shell("status").out
    assert "irontree checkup reconcile" in shell("status").out
    before = files(shell.root)
    found = shell("checkup", "check", "--json")
    assert found.code == 1
    assert not found.data["ok"]
    assert files(shell.root) == before
    reconciled = shell("checkup", "reconcile")
    assert reconciled.code == 1
    assert "missing events were recorded" in reconciled.out
    assert "sequence_gap_detected" in shell("show", "1", "--events").out


def test_an_event_that_was_edited_is_found_by_the_digest_in_the_next_one(shell):
    shell("run", "1")
    started = shell.root / ".mino/events/issue-1/0002-run-started.yml"
    started.write_text(re.sub(r"(?<!approved_)spec_revision: .*", 'spec_revision: "00000000"', started.read_text()))
    found = shell("checkup", "check")
    assert found.code == 1
    assert "was changed after it was written" in found.out


def test_a_healthy_log_passes_the_check_and_reconciling_it_changes_nothing(shell):
    assert shell("checkup").out == "Nothing is wrong.\n"
    before = shell("show", "1", "--events").out
    assert shell("checkup", "reconcile").code == 0
    assert shell("show", "1", "--events").out == before


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["show", "1"],
        ["show", "1", "--events"],
        ["show", "1", "--why"],
        ["graph"],
        ["status", "--loops"],
        ["config"],
        ["audit"],
        ["checkup", "check"],
    ],
)
def test_looking_changes_nothing(shell, words):
    before = files(shell.root)
    assert shell(*words).code == 0
    assert files(shell.root) == before


def test_titles_of_other_people_reach_no_terminal_raw(shell):
    app = open_app(shell.root, origin=Origin("Test Author"))
    [plan] = [app.plans.load(revision) for revision in app.plans.revisions()]
    hostile = tuple(node.model_copy(update={"title": f"\x1b[2J{node.title}\x9b31m\u202e"}) for node in plan.nodes)
    for file in (shell.root / ".mino/plans").iterdir():
        file.unlink()
    app.plans.save(plan.model_copy(update={"nodes": hostile}))
    pictures = (["graph", "--format", notation] for notation in ("mermaid", "dot", "svg"))
    for words in (["status"], ["show", "1"], ["show", "1", "--why"], *pictures, ["status", "--json"], ["run", "1"]):
        typed = shell(*words)
        assert not {"\x1b", "\x9b", "\u202e"} & set(typed.out + typed.err), words


def test_outside_a_repository_and_before_init_the_remedy_is_named(bare_shell, tmp_path):
    assert "irontree init" in bare_shell("status").err
    elsewhere = replace(bare_shell, root=tmp_path)
    refused = elsewhere("status", "--json")
    assert refused.code == 1
    assert json.loads(refused.err)["error"]["kind"] == "not_a_repository"


def test_the_folder_can_be_given_before_or_behind_the_verb(shell, tmp_path):
    sub = shell.root / "docs"
    sub.mkdir()
    assert replace(shell, root=sub)("status").code == 0
    assert replace(shell, root=tmp_path)("status", "-C", "project").code == 0


def test_a_reader_that_has_enough_is_no_error(shell):
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "irontree", "show", "1", "--events"]
    done = subprocess.run(words, cwd=shell.root, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_that_the_locale_cannot_encode_crashes_nothing(shell):
    shell.publish("# Größe\n\n## Größe → Maß\n\n- [ ] ist da (check: tests)\n")
    done = subprocess.run(
        [sys.executable, "-m", "irontree", "status"],
        cwd=shell.root,
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    assert b"Gr??e ? Ma?" in done.stdout


# --- doctor, status --watch ---------------------------------------------------------------------------------


def test_doctor_finds_a_repository_that_is_ready_ready(shell):
    typed = shell("doctor")
    assert typed.code == 0, typed.out
    assert "sound: 3 issue(s)" in typed.out
    assert "ready; code goes to origin main" in typed.out


def test_doctor_names_everything_that_is_in_the_way_with_what_to_do(shell):
    (shell.root / "half-done.txt").write_text("mine")
    shell.configure(CONFIG.format(agent="no-such-agent"))
    typed = shell("doctor", "--json")
    assert typed.code == 1
    bad = {item["what"]: item for item in typed.data["findings"] if item["verdict"] == "bad"}
    assert set(bad) == {"agent"}
    assert bad["agent"]["remedy"]
    noted = {item["what"]: item["found"] for item in typed.data["findings"] if item["verdict"] == "note"}
    assert noted["checkout"].startswith("Not part of this work: changes in no commit: half-done.txt. Work starts from")


def test_doctor_outside_a_repository_still_looks_at_the_machine(shell, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    typed = replace(shell, root=tmp_path / "elsewhere")("doctor")
    assert typed.code == 0
    assert "-> " in typed.out


def test_doctor_changes_nothing(shell):
    before = files(shell.root)
    shell("doctor")
    assert files(shell.root) == before


def test_a_watched_status_is_printed_again_when_something_happens_and_ends_with_ctrl_c(shell):
    program = Path(sys.executable).parent / "irontree"
    with subprocess.Popen(
        [program, "status", "--watch"], cwd=shell.root, stdout=subprocess.PIPE, text=True
    ) as watching:
        first = _page(watching)
        shell("run", "issue-1")
        second = _page(watching)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=30) == 0
    assert "irontree run issue-1" in first
    assert "irontree verify issue-1" in second


def _page(watching: subprocess.Popen[str]) -> str:
    """The next page that says what to do next: while the agent is at work there are others."""
    page = ""
    while "irontree run issue-" not in page and "irontree verify issue-" not in page:
        page += watching.stdout.readline()
    return page


def test_a_pipe_in_place_of_the_configuration_blocks_nobody(shell):
    config = shell.root / ".mino" / "config.yml"
    config.unlink()
    os.mkfifo(config)
    assert {shell(*words).code for words in (["status"], ["doctor"], ["init"], ["run", "1"])} <= {0, 1}


def test_a_state_folder_that_is_a_link_is_refused_by_every_verb(shell):
    state = shell.root / ".mino"
    state.rename(shell.root.parent / "elsewhere")
    state.symlink_to(shell.root.parent / "elsewhere")
    for words in (["status"], ["init"], ["run", "1"]):
        refused = shell(*words)
        assert (refused.code, "is a symbolic link" in refused.err) == (1, True)
