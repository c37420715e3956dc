"""Which version of a lost file comes back, and where it may go."""

from __future__ import annotations

import pytest

from irontree.errors import LogDamaged
from irontree.store.archive import place_of, restore, sound_version
from irontree.store.streams import ISSUE_FORM
from tests.support.store import published

PLAN = ".mino/plans/aaaaaaaa.yml"


@pytest.mark.parametrize(
    "path",
    ["../x", ".mino/../x", "/etc/passwd", ".mino", ".mino//x", ".git/hooks/pre-commit", ".mino/./x", ".mino/a\0b"],
)
def test_a_path_out_of_the_state_folder_is_refused(tmp_path, path):
    with pytest.raises(LogDamaged, match="leads out of"):
        place_of(tmp_path, path)


def test_a_link_out_of_the_state_folder_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".mino").mkdir()
    (tmp_path / ".mino" / "events").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LogDamaged, match="a link leads out of"):
        place_of(tmp_path, ".mino/events/issue-1/0001-task-published.yml")


def test_nothing_is_written_if_one_path_is_bad(tmp_path):
    (tmp_path / ".mino").mkdir()
    with pytest.raises(LogDamaged):
        restore(tmp_path, {".mino/plans/a.yml": [b"a"], ".mino/../b.yml": [b"b"]})
    assert not (tmp_path / ".mino" / "plans").exists()


def test_what_is_there_is_not_touched(tmp_path):
    (tmp_path / ".mino" / "plans").mkdir(parents=True)
    (tmp_path / PLAN).write_bytes(b"newer")
    assert restore(tmp_path, {PLAN: [b"older"], ".mino/archive/issue-1-rev-a/brief.md": [b"brief"]}) == (
        ".mino/archive/issue-1-rev-a/brief.md",
    )
    assert (tmp_path / PLAN).read_bytes() == b"newer"


def test_of_versions_that_nobody_can_read_it_is_the_newest():
    assert sound_version(PLAN, [b"newer", b"older"]) == b"newer"


def test_an_unreadable_event_is_passed_over_if_another_version_can_be_read():
    event = ISSUE_FORM.encode(published(7), {})
    path = ".mino/events/issue-7/0001-task-published.yml"
    assert sound_version(path, [b"{{{", event]) == event
