"""What we write is for this user alone, whatever the umask and whatever an earlier version left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from irontree.files import Disk, close_all, close_folder, locked, overwrite, replace
from irontree.flows.server.connection import ServerState
from irontree.store.layout import create


@pytest.fixture(autouse=True)
def _generous() -> Iterator[None]:
    """The umask that takes nothing from anybody."""
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.lstat().st_mode & 0o077]


def write_everything(root: Path) -> None:
    Disk().write_durably(root / "durable" / "deep" / "file", b"x")
    replace(root / "replaced" / "file", b"x")
    overwrite(root / "replaced" / "small", b"x")
    with locked(root / "locked" / "file"):
        pass
    ServerState(root / "server" / "prefect-3")


def test_every_way_to_write_leaves_files_and_folders_of_one_user(tmp_path):
    write_everything(tmp_path)
    assert open_to_others(tmp_path) == []


def test_what_belongs_to_the_repository_has_the_modes_of_its_user(tmp_path):
    layout = create(tmp_path)
    assert layout.state.stat().st_mode & 0o777 == 0o700
    assert (layout.state / ".gitignore").stat().st_mode & 0o777 == 0o666
    layout.config.write_text("a: 1\n")
    layout.config.chmod(0o640)
    Disk().write_durably(layout.config, b"a: 2\n")
    assert layout.config.stat().st_mode & 0o777 == 0o640


def test_what_an_earlier_version_left_is_closed_and_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("x")
    left = tmp_path / "left"
    (left / "deep").mkdir(parents=True)
    (left / "deep" / "file").write_text("x")
    (left / "link").symlink_to(outside)
    close_all(left)
    assert open_to_others(left) == ["link"]
    assert outside.stat().st_mode & 0o777 == 0o666
    left.chmod(0o755)
    close_folder(left)
    close_folder(tmp_path / "none")
    assert left.stat().st_mode & 0o777 == 0o700
