"""The files of the local forge: read and edited by people, written by several processes, cut off at any moment."""

from __future__ import annotations

import multiprocessing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from irontree.errors import RemoteFailed
from irontree.forges import ForgeSettings
from irontree.forges.local import LocalForge
from irontree.ports import Label
from irontree.store.codec import read_mapping, write_mapping

BY_HAND = """\
---
# priority was agreed on Monday
title: Log in
state: open
labels: [bug, urgent]   # flow style is fine
estimate: 3 days
---

The body, with  two spaces.
"""


class Noon:
    """A clock that stands still."""

    def now(self) -> datetime:
        return datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def open_forge(folder: Path) -> LocalForge:
    return LocalForge(ForgeSettings(folder, "irontree", Noon(), read_mapping, write_mapping))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "forge"


@pytest.fixture
def forge(folder: Path) -> LocalForge:
    return open_forge(folder)


@pytest.fixture
def issue_file(folder: Path) -> Path:
    """An issue that a person typed."""
    path = folder / "issues" / "0003.md"
    path.parent.mkdir(parents=True)
    path.write_text(BY_HAND)
    return path


def test_an_issue_reads_well_in_an_editor(forge: LocalForge, folder: Path):
    forge.create_issue("Log in", "As a user I log in.", ["stage:task"])
    assert (folder / "issues" / "0001.md").read_text() == (
        "---\n"
        'title: "Log in"\n'
        "state: open\n"
        "labels:\n"
        '  - "stage:task"\n'
        "author: irontree\n"
        'created_at: "2026-01-02T12:00:00Z"\n'
        "---\n"
        "\n"
        "As a user I log in.\n"
    )


def test_what_a_person_typed_is_an_issue(forge: LocalForge, issue_file: Path):
    issue = forge.read_issue(3)
    assert issue is not None
    assert (issue.title, issue.labels, issue.trusted) == ("Log in", ("bug", "urgent"), True)
    assert issue.body == "The body, with  two spaces."


def test_our_changes_leave_a_persons_comments_keys_and_text_alone(forge: LocalForge, issue_file: Path):
    forge.edit_issue(3, state="closed")
    forge.set_labels(3, add=["stage:done"], remove=["urgent"])
    text = issue_file.read_text()
    assert text.startswith("---\n# priority was agreed on Monday\ntitle: Log in\nstate: closed\n")
    assert text.endswith("estimate: 3 days\n---\n\nThe body, with  two spaces.\n")
    assert forge.read_issue(3).labels == ("bug", "stage:done")


def test_a_front_matter_that_cannot_be_changed_by_line_is_written_anew(forge: LocalForge, issue_file: Path):
    issue_file.write_text("---\n{title: Log in,\n state: open, estimate: 3 days}\n---\nBody\n")
    forge.edit_issue(3, state="closed")
    issue = forge.read_issue(3)
    assert issue
    assert (issue.title, issue.state, issue.body) == ("Log in", "closed", "Body")
    assert "estimate" in issue_file.read_text()


@pytest.mark.parametrize(
    "text", ["# Log in\n\nAs a user", "\ufeff# Log in\r\n\r\nAs a user\r\n", "---\n---\n# Log in\n"]
)
def test_a_file_without_fields_is_an_open_issue_named_by_its_first_line(forge: LocalForge, issue_file: Path, text: str):
    issue_file.write_bytes(text.encode())
    issue = forge.read_issue(3)
    assert (issue.title, issue.state, issue.labels, issue.author) == ("Log in", "open", (), "irontree")
    assert "\r" not in issue.body


def test_broken_front_matter_names_the_file_and_the_line(forge: LocalForge, issue_file: Path):
    issue_file.write_text("---\ntitle: [\n---\nBody\n")
    with pytest.raises(RemoteFailed, match=r"0003\.md, line \d") as failed:
        forge.read_issue(3)
    assert "0003.md" in failed.value.remedy


def test_a_file_that_is_no_text_is_named(forge: LocalForge, issue_file: Path):
    issue_file.write_bytes(b"\xff\xfe")
    with pytest.raises(RemoteFailed, match=r"0003\.md is not UTF-8"):
        forge.read_issue(3)


def test_other_files_in_the_folder_are_passed_over(forge: LocalForge, issue_file: Path):
    for name in ("README.md", "3.md", "0003.md~", ".0004.md.swp", "00003.md", "\N{ARABIC-INDIC DIGIT FIVE}.md"):
        (issue_file.parent / name).write_text("irontree:x")
    assert [issue.number for issue in forge.find_issues("The body, with  two spaces.")] == [3]
    assert forge.create_issue("Next", "").number == 4


def test_the_number_of_a_deleted_issue_is_never_given_again(forge: LocalForge, folder: Path):
    forge.create_issue("First", "")
    (folder / "issues" / "0001.md").unlink()
    assert forge.create_issue("Second", "").number == 2


def test_the_number_of_a_deleted_comment_is_never_given_again(forge: LocalForge, folder: Path):
    forge.create_issue("First", "")
    first = forge.post_comment(1, "x")
    (folder / "issues" / "0001" / "comments" / "0001.md").unlink()
    assert forge.post_comment(1, "y").id != first.id


def test_a_comment_that_a_person_typed_is_a_comment(forge: LocalForge, issue_file: Path):
    comments = issue_file.parent / "0003" / "comments"
    comments.mkdir(parents=True)
    (comments / "0001.md").write_text("Looks good to me.\n")
    (comments / "0002.md").write_text("---\nauthor: mallory\n---\nMe too.\n")
    assert [(c.body, c.author, c.ours) for c in forge.comments(3)] == [
        ("Looks good to me.", "irontree", True),
        ("Me too.", "mallory", False),
    ]


def test_labels_that_a_person_described_stay_as_they_are(forge: LocalForge, folder: Path):
    folder.mkdir()
    (folder / "labels.yml").write_text("# ours\nbug: {color: FF0000}")
    forge.ensure_labels([Label("bug", "000000"), Label("stage:run", "1D76DB", "approved")])
    assert (folder / "labels.yml").read_text() == (
        '# ours\nbug: {color: FF0000}\n"stage:run":\n  color: "1D76DB"\n  description: approved\n'
    )


def test_setting_what_is_set_writes_nothing(forge: LocalForge, issue_file: Path):
    before = issue_file.stat().st_mtime_ns, issue_file.stat().st_ino
    forge.set_labels(3, add=["bug"], remove=["gone"])
    assert (issue_file.stat().st_mtime_ns, issue_file.stat().st_ino) == before


def test_a_half_written_file_of_a_killed_writer_is_not_seen(forge: LocalForge, issue_file: Path):
    issue_file.with_name(".0003.md.new").write_text("---\ntitle: ha")
    issue_file.with_name(".0004.md.new").write_text("---\ntitle: ha")
    assert forge.read_issue(3).title == "Log in"
    assert forge.create_issue("Next", "").number == 4


def write_much(folder: Path, name: str) -> None:
    forge = open_forge(folder)
    for index in range(10):
        forge.create_issue(f"{name} {index}", "")
        forge.post_comment(1, f"{name} {index}")
        forge.set_labels(1, add=[f"{name}-{index}"])


def test_writers_at_the_same_time_lose_nothing(forge: LocalForge, folder: Path):
    forge.create_issue("First", "")
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=write_much, args=(folder, name)) for name in ("a", "b", "c")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert sorted(path.name for path in (folder / "issues").glob("*.md")) == [f"{n:04d}.md" for n in range(1, 32)]
    assert len(forge.comments(1)) == len(forge.read_issue(1).labels) == 30


def test_a_number_that_the_log_knows_is_given_to_no_new_issue_even_if_all_issues_are_gone(tmp_path):
    settings = ForgeSettings(tmp_path, "irontree", Noon(), read_mapping, write_mapping, taken=lambda: (2, 7))
    assert LocalForge(settings).create_issue("New", "", ()).number == 8
