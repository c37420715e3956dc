"""What reads or writes where an agent can write opens one folder after another, and follows no link (R4)."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from irontree.agents.transcript import SUMMARY_BYTES, Transcript
from irontree.app import Preferences
from irontree.domain.settings import Automations
from irontree.files import ScratchFolder, folder_beneath, make_anew, read_beneath, remove, remove_beneath, write_beneath
from irontree.ports import AgentTask
from irontree.services.consistency.reconcile import drop_old_transcripts
from irontree.services.record import transcript_folder
from tests.support.world import GREETING, MANUAL_TASK, TickingClock, accepts, make_scene, prepared


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A folder that an agent can write, and one that is none of its business."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
    (outside / "file").write_text("precious")
    return inside, outside


def lead_out(inside: Path, outside: Path, how: str) -> str:
    """The path of a file in *inside* that leads to `file` in *outside*."""
    if how == "file":
        (inside / "name").symlink_to(outside / "file")
        return "name"
    if how == "folder":
        (inside / "folder").symlink_to(outside)
        return "folder/file"
    (inside / "deep").mkdir()
    (inside / "deep" / "folder").symlink_to(outside)
    return "deep/folder/file"


WAYS = pytest.mark.parametrize("how", ["file", "folder", "deep"])


@WAYS
def test_nothing_is_read_through_a_link(places, how):
    assert read_beneath(places[0], lead_out(*places, how), 100) is None


@WAYS
def test_nothing_is_written_or_removed_through_a_link(places, how):
    inside, outside = places
    path = lead_out(inside, outside, how)
    if how == "file":
        write_beneath(inside, path, b"ours")
        assert (inside / path).read_bytes() == b"ours"
    else:
        with pytest.raises(OSError):  # noqa: PT011 - systems name it differently
            write_beneath(inside, path, b"ours")
    remove_beneath(inside, path)
    assert (outside / "file").read_text() == "precious"


@pytest.mark.parametrize("path", ["../outside/file", "a/../../outside/file", "", ".", "a/.."])
def test_no_path_leads_above_the_folder(places, path):
    (places[0] / "a").mkdir()
    assert read_beneath(places[0], path, 100) is None
    with pytest.raises(OSError):  # noqa: PT011 - as above
        write_beneath(places[0], path, b"ours")
    assert (places[1] / "file").read_text() == "precious"


def test_what_is_no_file_has_no_content_and_is_not_waited_for(places):
    inside, _ = places
    os.mkfifo(inside / "pipe")
    (inside / "folder").mkdir()
    (inside / "device").symlink_to("/dev/zero")
    assert [read_beneath(inside, name, 100) for name in ("pipe", "folder", "device", "none")] == [None] * 4


def test_no_more_is_read_than_the_limit(places):
    assert read_beneath(places[1], "file", 3) == b"pre"


def test_a_folder_that_became_a_link_is_not_opened(places):
    inside, outside = places
    (inside / "folder").symlink_to(outside)
    with pytest.raises(OSError), folder_beneath(inside / "folder"):  # noqa: PT011 - as above
        pass


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "file"])
def test_a_folder_that_is_made_anew_is_no_other_one(places, kind):
    inside, outside = places
    folder = inside / "attempt-0002"
    match kind:
        case "link":
            folder.symlink_to(outside)
        case "dangling link":
            folder.symlink_to(outside / "none")
        case "folder":
            folder.mkdir()
            (folder / "result.json").symlink_to(outside / "file")
        case "file":
            folder.write_text("precious")
    make_anew(folder)
    assert (folder.is_symlink(), [*folder.iterdir()]) == (False, [])
    assert len([*inside.iterdir()]) == 2, "what was there has another name"
    assert [path.name for path in outside.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder of links", "long"])
def test_the_summary_of_an_agent_is_a_file_of_its_own(places, tmp_path, kind):
    inside, outside = places
    transcript = Transcript(AgentTask(1, "key", 1, "prompt", inside, tmp_path / "transcript"), tmp_path / "shared")
    summary = transcript.summary_file
    match kind:
        case "link":
            summary.symlink_to(outside / "file")
        case "pipe":
            os.mkfifo(summary)
        case "folder of links":
            summary.parent.rename(tmp_path / "away")
            summary.parent.symlink_to(outside)
            (outside / summary.name).write_text("precious")
        case "long":
            summary.write_bytes(b"x " * SUMMARY_BYTES)
    kept = b"x " * (SUMMARY_BYTES // 2) if kind == "long" else b""
    assert transcript.last_words(bytes) == kept
    assert read_beneath(tmp_path / "transcript", summary.name, 2 * SUMMARY_BYTES) == (kept or None)


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A folder with 1,500 others, one in another, of which its owner may change none."""
    top = descriptor = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        if descriptor != top:
            os.fchmod(descriptor, 0o500)
            os.close(descriptor)
        descriptor = below
    os.symlink("/etc", "link", dir_fd=descriptor)
    for open_one in (descriptor, top):
        os.close(open_one)
    return tmp_path / "d"


def remove_with_scratch(folder: Path) -> None:
    """Remove it with a scratch folder that it is in, as an agent may leave it."""
    with ScratchFolder("agent", folder.parent) as scratch, suppress(FileNotFoundError):
        folder.rename(scratch.path / "shared")
    assert not scratch.path.exists()


REMOVALS = [remove, lambda folder: remove_beneath(folder.parent, folder.name), remove_with_scratch]


@pytest.mark.parametrize("removed", REMOVALS)
def test_folders_without_end_that_nobody_may_change_are_removed(deep, removed):
    removed(deep)
    assert not deep.exists()
    removed(deep)


def test_what_leads_elsewhere_from_a_transcript_is_no_transcript(tmp_path):
    """The janitor removes old ones."""
    scene = make_scene(tmp_path)
    scene.drive(scene.start(MANUAL_TASK), prepared(accepts()))
    folder = transcript_folder(scene.app, scene.state(GREETING))
    folder.mkdir(parents=True)
    (outside := tmp_path / "outside").mkdir()
    (outside / "prompt.md").write_text("precious")
    (folder / "attempt-0009").symlink_to(outside)
    settings = Preferences(automations=Automations(keep_transcripts_days=1))
    later = TickingClock(scene.app.clock.now() + timedelta(days=9))
    assert drop_old_transcripts(replace(scene.app, clock=later, preferences=lambda: settings)) == ()
    assert (outside / "prompt.md").read_text() == "precious"
