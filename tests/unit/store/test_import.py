"""What of an archive is written, what here is replaced, and when nothing is touched (R21)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from irontree.errors import Refused
from irontree.store.archive import (
    BUNDLE,
    Archive,
    Manifest,
    entry_of,
    files_to_pack,
    plan_import,
    read_archive,
    write_archive,
)
from irontree.store.layout import Layout, create
from irontree.store.streams import ISSUE_FORM
from tests.support.disk import Stopped, StoppingDisk
from tests.support.store import passed, published, started

STREAM = "events/issue-12"


def put(root: Path, path: str, data: bytes = b"x: 1\n") -> Path:
    target = root / ".mino" / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return target


def put_event(root: Path, event, folder: str = STREAM) -> Path:
    return put(root, f"{folder}/{ISSUE_FORM.file_name(event)}", ISSUE_FORM.encode(event, {}))


def packed(root: Path) -> Archive:
    layout, bundle = Layout(root), root / BUNDLE
    bundle.write_bytes(b"git objects")
    sources = {BUNDLE: bundle, **dict(files_to_pack(layout))}
    manifest = Manifest(
        version=1,
        program="1",
        workspace_id="0" * 12,
        home="host:/old",
        exported_at="2026-01-01T00:00:00Z",
        branch=None,
        tip=None,
        events={},
        refs={},
        files=tuple(entry_of(name, path) for name, path in sources.items()),
    )
    target = root.with_suffix(".tar")
    target.unlink(missing_ok=True)
    write_archive(target, manifest, sources)
    return read_archive(target)


@pytest.fixture
def old(tmp_path) -> Path:
    create(tmp_path / "old")
    put_event(tmp_path / "old", published())
    put_event(tmp_path / "old", started())
    put(tmp_path / "old", "forge/issues/.last", b"7\n")
    return tmp_path / "old"


@pytest.fixture
def new(tmp_path, old) -> Path:
    """A copy of the old home, as it was once imported here."""
    shutil.copytree(old, tmp_path / "new")
    return tmp_path / "new"


def files(root: Path) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in files_to_pack(Layout(root))}


def test_locks_caches_and_half_written_files_stay_behind(old):
    for path in ("run.lock", "loops/active.lock", "loops/.lease", ".cache/x", ".append", "events/issue-12/.a.tmp"):
        put(old, path)
    assert files(old).keys() == {
        ".mino/forge/issues/.last",
        ".mino/events/issue-12/0001-task-published.yml",
        ".mino/events/issue-12/0002-run-started.yml",
    }


def test_a_link_is_not_packed(old):
    (old / ".mino/reports").mkdir()
    (old / ".mino/reports/x").symlink_to("/etc/passwd")
    with pytest.raises(Refused, match="no plain file"):
        files(old)


def test_a_name_that_no_import_would_take_is_not_packed(old):
    put(old, "forge/a\nb")
    with pytest.raises(Refused, match="not every file system takes that name"):
        files(old)


def test_an_archive_of_a_newer_version_asks_for_an_upgrade(old, tmp_path):
    manifest = packed(old).manifest.model_copy(update={"version": 99, "files": ()})
    with pytest.raises(Refused, match="another version than 1") as refused:
        write_archive(tmp_path / "newer.tar", manifest, {})
    assert refused.value.remedy.startswith("upgrade irontree")


def test_an_archive_of_which_a_disk_could_not_keep_every_file_is_refused(old, tmp_path):
    sources = {BUNDLE: put(old, "x"), ".mino/forge/A": put(old, "y"), ".mino/forge/a": put(old, "z")}
    entries = tuple(entry_of(name, path) for name, path in sources.items())
    manifest = packed(old).manifest.model_copy(update={"files": entries})
    with pytest.raises(Refused, match="cannot both be files on every disk"):
        write_archive(tmp_path / "clash.tar", manifest, sources)


def test_a_log_that_went_on_elsewhere_is_taken_back(old, new):
    put_event(old, passed(sequence=3))
    put(old, "forge/issues/.last", b"9\n")
    plan_import(packed(old), Layout(new)).carry_out()
    assert files(new) == files(old)


def test_a_log_that_went_on_here_is_not_touched(old, new):
    put_event(new, passed(sequence=3))
    with pytest.raises(Refused, match=r"0003-verify-passed\.yml"):
        plan_import(packed(old), Layout(new))


def test_the_same_event_with_another_content_is_another_log(old, new):
    put_event(new, started(attempt_count=3))
    with pytest.raises(Refused, match="holds what is not in"):
        plan_import(packed(old), Layout(new))


def test_a_stream_that_was_archived_elsewhere_makes_room_for_the_new_one(old, new):
    shutil.move(old / ".mino" / STREAM, old / ".mino/archive/issue-12-rev-aaaaaaaa/events")
    put_event(old, published(spec_revision="bbbbbbbb"))
    plan_import(packed(old), Layout(new)).carry_out()
    assert files(new) == files(old)


def test_an_approved_plan_of_this_place_alone_is_not_lost(old, new):
    put(new, "plans/aaaaaaaa.yml", b"mine\n")
    with pytest.raises(Refused, match=r"plans/aaaaaaaa\.yml"):
        plan_import(packed(old), Layout(new))


def test_a_plan_that_was_approved_anew_elsewhere_is_the_earlier_content_there(old, new):
    put(new, "plans/aaaaaaaa.yml", b"first\n")
    put(old, "plans/aaaaaaaa.1.yml", b"first\n")
    put(old, "plans/aaaaaaaa.yml", b"second\n")
    plan_import(packed(old), Layout(new)).carry_out()
    assert files(new) == files(old)


def test_the_disk_may_stop_at_any_step_and_the_same_again_ends_in_the_same_files(old, tmp_path):
    shutil.move(old / ".mino" / STREAM, old / ".mino/archive/issue-12-rev-aaaaaaaa/events")
    put_event(old, published(spec_revision="bbbbbbbb"))
    archive, step, stopped = packed(old), 0, True
    while stopped:
        root = tmp_path / f"new-{step}"
        create(root)
        put_event(root, published())
        try:
            plan_import(archive, Layout(root)).carry_out(StoppingDisk(step, stop))
            stopped = False
        except Stopped:
            plan_import(archive, Layout(root)).carry_out()
        assert files(root) == files(old), step
        step += 1
    assert step > 10


def stop() -> None:
    raise Stopped


def test_a_file_that_changes_while_it_is_packed_is_noticed_and_no_archive_is_left(old, tmp_path):
    sources = {BUNDLE: put(old, "x"), **dict(files_to_pack(Layout(old)))}
    entries = tuple(entry_of(name, path) for name, path in sources.items())
    manifest = packed(old).manifest.model_copy(update={"files": entries})
    put(old, "forge/issues/.last", b"8\n")
    with pytest.raises(Refused, match="is not the file that its manifest names"):
        write_archive(tmp_path / "torn.tar", manifest, sources)
    assert not list(tmp_path.glob("*torn*"))
