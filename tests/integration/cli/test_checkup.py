"""`checkup check`, `reconcile` and `repair` as they are typed, over what people and older tools did to issues."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repositories import git

OUR_NAME = "Test Author"


def issue_file(shell, number: int) -> Path:
    return shell.root / ".mino" / "forge" / "issues" / f"{number:04d}.md"


def finished(shell) -> None:
    for words in (["run", "1"], ["verify", "1"], ["checkup", "finalize", "1"]):
        assert shell(*words).code == 0


def test_what_was_done_outside_is_told_with_what_to_do_and_repaired(shell):
    path = issue_file(shell, 1)
    before = path.read_text()
    path.write_text(before.replace("title: ", "title: Another "))
    told = shell("checkup", "reconcile")
    assert told.code == 1
    assert told.out.count("its title or text was edited on the forge") == 1
    assert "irontree checkup repair" in told.out
    mended = shell("checkup", "repair", "--json")
    assert mended.code == 0
    # What kills left in this machine's folder of temporary files is removed too, and told at `.mino`.
    assert [done for done in mended.data["repaired"] if done["where"] != ".mino"] == [
        {"where": "issue-1", "what": "its title and text were put back to what is approved"}
    ]
    assert path.read_text() == before
    assert shell("checkup", "reconcile").out.startswith("Nothing is wrong.")


def test_an_issue_that_is_gone_is_a_question_that_a_person_answers(shell):
    issue_file(shell, 1).unlink()
    assert shell("checkup", "reconcile").code == 1
    [question] = shell("status", "--json").data["questions"]
    assert (question["issue"], question["detail"]) == (1, "deleted-outside")
    assert "it is gone from the forge" in shell("show", "1", "--why").out
    assert shell("checkup", "unblock", "1", "never mind").code == 0
    assert shell("run", "1").code == 0


def test_a_finished_issue_that_was_opened_again_is_closed_by_the_answer(shell):
    finished(shell)
    path = issue_file(shell, 1)
    path.write_text(path.read_text().replace("state: closed", "state: open"))
    assert "somebody opened it again" in shell("checkup", "reconcile").out
    assert shell("checkup", "unblock", "1").code == 0
    assert "state: closed" in path.read_text()
    assert shell("status", "--json").data["questions"] == []


def test_reconcile_ends_with_the_list_of_what_waits_for_acceptance(shell):
    finished(shell)
    shell("run", "3")
    shell("verify", "3")
    told = shell("checkup", "reconcile")
    assert told.out.rstrip().endswith("Pending Acceptance:\n  #3 Second text: irontree accept 3")
    assert shell("checkup", "reconcile", "--json").data["pending_acceptance"] == [3]


def test_the_source_of_an_issue_that_is_asked_about_is_named(shell):
    assert "issue-1: local events: 1 file(s), primary source used" in shell("checkup", "reconcile", "issue-1").out


@pytest.mark.parametrize("author", [OUR_NAME, "mallory"])
def test_a_log_that_an_older_tool_left_in_comments_is_restored_if_its_author_counts(shell, author):
    finished(shell)
    events = sorted((shell.root / ".mino/events/issue-1").iterdir())
    blocks = [path.read_text().partition("meta:")[0] for path in events]
    for path in events:
        path.unlink()
    comments = shell.root / ".mino/forge/issues/0001/comments"
    comments.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(blocks, start=1):
        head = f'---\nauthor: {author}\ncreated_at: "2025-01-01T00:00:00Z"\n---\n'
        (comments / f"{number:04d}.md").write_text(f"{head}Something happened.\n\n```yaml\n{text}```\n")
    told = shell("checkup", "reconcile", "issue-1")
    if author == OUR_NAME:
        assert f"{len(blocks)} event(s) restored from its event comments" in told.out
        assert shell("show", "1", "--json").data["phase"] == "done"
    else:
        assert f"{len(blocks)} by people without write access" in told.out
        assert not list((shell.root / ".mino/events/issue-1").iterdir())


def test_what_a_newer_version_wrote_says_upgrade_and_is_not_written_over(shell):
    event = shell.root / ".mino/events/issue-1/0002-task-dreamt.yml"
    event.write_text("iron_tree:\n  version: 2\n  event: task_dreamt\n")
    for words in (["checkup"], ["checkup", "reconcile"], ["audit"]):
        told = shell(*words)
        assert told.code == 1
        assert "upgrade irontree" in told.out
        assert "restore it" not in told.out
        assert "record what is missing" not in told.out
    assert "upgrade irontree" in shell("run", "1").err
    assert "upgrade irontree" in shell("status").out
    assert [path.name for path in sorted(event.parent.iterdir())] == ["0001-task-published.yml", event.name]


def test_check_names_a_comment_of_ours_that_holds_what_it_must_not_and_writes_nothing(shell):
    git(shell.root, "config", "user.email", "")
    shell("run", "1")
    [posted] = (shell.root / ".mino/forge/issues/0001/comments").glob("*.md")
    text = posted.read_text() + "\nverify_passed at deadbeef\n"
    posted.write_text(text)
    told = shell("checkup", "check")
    assert told.code == 1
    assert "our comment holds" in told.out
    assert posted.read_text() == text


@pytest.mark.parametrize("sequence", ["0001-task-published", "0002-run-started"])
def test_a_folder_in_place_of_an_event_file_is_a_problem_of_that_issue(shell, sequence):
    """Ruling R13: whatever stands there, the others go on, and this one is asked about."""
    shell("run", "1")
    event = shell.root / ".mino" / "events" / "issue-1" / f"{sequence}.yml"
    for path in sorted(event.parent.iterdir()):
        if path.name >= event.name:
            path.unlink()
    event.mkdir()
    for _ in range(2):
        told = shell("checkup", "reconcile")
        assert (told.code, told.err) == (1, "")
        assert f"{event.name}: " in told.out
    assert shell("status").code == 0
    assert shell("run", "3").code == 1  # it waits for #1
    assert shell("audit").code == 1
