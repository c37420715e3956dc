"""The repositories of a user: one file each, found again by id and by path."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.errors import EnvironmentRefused
from irontree.store.registry import Registered, RepositoryRegistry

ONE, TWO = "0123456789ab", "ba9876543210"


@pytest.fixture
def registry(tmp_path) -> RepositoryRegistry:
    return RepositoryRegistry(tmp_path / "state" / "repositories")


def test_what_was_added_is_there_by_path_for_whoever_reads_next(registry):
    registry.add(TWO, Path("/srv/a"))
    registry.add(ONE, Path("/srv/b"))
    assert RepositoryRegistry(registry.folder).all() == (
        Registered(TWO, Path("/srv/a")),
        Registered(ONE, Path("/srv/b")),
    )


def test_a_repository_that_moved_is_noted_where_it_is_now(registry):
    registry.add(ONE, Path("/srv/old"))
    registry.add(ONE, Path("/srv/new"))
    assert registry.all() == (Registered(ONE, Path("/srv/new")),)


def test_what_is_removed_was_known_once(registry):
    registry.add(ONE, Path("/srv/a"))
    assert registry.remove(ONE)
    assert not registry.remove(ONE)
    assert registry.all() == ()


def test_before_the_first_there_are_none_and_no_folder_is_made(registry):
    assert registry.all() == ()
    assert not registry.folder.exists()


def test_files_that_are_no_repositories_are_left_alone(registry):
    registry.add(ONE, Path("/srv/a"))
    (registry.folder / ".leftover.tmp").write_text("x")
    assert [known.id for known in registry.all()] == [ONE]


def test_what_cannot_be_a_repository_hides_none_that_is(registry):
    """A link that leads nowhere, a folder; and the line end that an editor adds is no part of a path."""
    registry.add(ONE, Path("/srv/a"))
    (registry.folder / TWO).symlink_to("/nowhere")
    (registry.folder / "abcdefabcdef").mkdir()
    (registry.folder / "000000000000").write_text("/srv/by-hand\n")
    assert [known.root for known in registry.all()] == [Path("/srv/a"), Path("/srv/by-hand")]


def test_a_folder_that_cannot_be_made_says_which(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentRefused, match="file"):
        RepositoryRegistry(tmp_path / "file" / "repositories").add(ONE, Path("/srv/a"))


def test_a_disk_that_refuses_to_list_them_says_which_folder(tmp_path):
    with pytest.raises(EnvironmentRefused, match="too-long"):
        RepositoryRegistry(tmp_path / ("too-long" * 100)).all()


def test_a_list_that_is_away_is_none_and_no_empty_one(registry):
    assert registry.listed() is None
    registry.add(ONE, Path("/srv/a"))
    registry.remove(ONE)
    assert registry.listed() == ()
