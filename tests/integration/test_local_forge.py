"""The files of the local forge: read and edited by people, written by several processes, cut off at any moment."""

from __future__ import annotations

import multiprocessing
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from irontree.errors import RemoteFailed
from irontree.forges import ForgeSettings
from irontree.forges.local import LocalForge
from irontree.ports import Label
from irontree.store.codec import read_mapping, write_mapping
from tests.support.lines import lines_run

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


def test_a_number_that_a_killed_writer_took_is_skipped(forge: LocalForge, folder: Path):
    """It was killed between the counter and the file."""
    forge.create_issue("First", "")
    (folder / "issues" / ".last").write_text("2\n")
    assert forge.create_issue("Third", "").number == 3


def test_a_file_that_somebody_wrote_since_ours_has_its_number(forge: LocalForge, folder: Path):
    forge.create_issue("First", "")
    time.sleep(0.02)  # a tick of the file system's clock
    (folder / "issues" / "0004.md").write_text("By hand")
    assert forge.create_issue("Next", "").number == 5


def test_publishing_reads_no_file_of_others_again_and_lists_the_folder_no_more(forge: LocalForge, folder: Path):
    """A listing, or a look at each file, for each new issue would take the square of their number."""
    few, many = (work_of_creating(open_forge(folder / str(size)), size) for size in (20, 80))
    assert many < 4.4 * few


def work_of_creating(forge: LocalForge, size: int) -> int:
    """Lines of our own code that run while so many issues are created, each after a look for a faster one."""

    def create() -> None:
        for number in range(1, size + 1):
            forge.create_issue("One", f"marker {number}")
            forge.find_issues_before(number, f"marker {number}")

    forge.find_issues("none")
    return lines_run(create)


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


def test_who_is_assigned_may_be_written_by_hand(folder: Path, forge: LocalForge):
    (folder / "issues").mkdir(parents=True)
    for number, typed in enumerate(("coder", "[coder, tester]", ""), start=1):
        (folder / "issues" / f"{number:04}.md").write_text(f"---\ntitle: It\nassignees: {typed}\n---\n")
    changed = forge.changed_since("2026-01-01T00:00:00Z")
    assert [one.issue.assignees for one in changed] == [("coder",), ("coder", "tester"), ()]


def test_a_request_in_a_file_is_merged_by_git_alone(forge: LocalForge, folder: Path):
    (folder / "pulls").mkdir(parents=True)
    (folder / "pulls" / "0001.md").write_text("---\ntitle: It\nhead: feature/it\nbase: main\n---\n")
    with pytest.raises(RemoteFailed, match="#1 is a file") as refused:
        forge.merge_pull_request(1, "a" * 40)
    assert refused.value.remedy == "git merge feature/it"
