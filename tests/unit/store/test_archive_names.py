"""What a file of an archive may be called, wherever it is taken in (R21)."""

from __future__ import annotations

import pytest

from irontree.store.archive import clash, is_place

EVENTS = ".mino/events/issue-1"


@pytest.mark.parametrize(
    "path",
    [
        *(".mino/config.yml", ".mino/forge/issues/.last", f"{EVENTS}/0001-task-published.yml"),
        *(".mino/forge/issues/ä ö.md", f".mino/forge/{'x' * 200}"),
    ],
)
def test_what_we_and_people_write_under_the_state_folder_is_taken(path):
    assert is_place(path)


@pytest.mark.parametrize(
    "path",
    [
        *(
            f"{EVENTS}/a\nb.yml",
            f"{EVENTS}/\x1b[2J.yml",
            f"{EVENTS}/a\x00",
            f"{EVENTS}/\u202eb.yml",
            f"{EVENTS}/\udcff",
        ),
        *(".mino/loops/active.lock", ".mino/loops/.lease", f"{EVENTS}/.a.yml.7-7.tmp", ".mino/forge/.lock"),
        *(f"{EVENTS}/{'x' * 201}", f"{EVENTS}/{'ä' * 101}", ".mino/forge/" + "a/" * 600 + "b"),
        *(".mino/run.lock", "README.md", ".mino/forge", ".mino/forge//x", ".mino/../x", ".mino/events/..\\x"),
    ],
)
def test_a_name_that_some_disk_or_terminal_stumbles_over_is_not(path):
    assert not is_place(path)


@pytest.mark.parametrize(
    "paths",
    [
        (".mino/forge/a", ".mino/forge/a/b"),
        (".mino/forge/a/b/c", ".mino/forge/a/b"),
        (".mino/forge/A.md", ".mino/forge/a.md"),
        (".mino/forge/\u00e4", ".mino/forge/a\u0308"),
        (".mino/forge/A", ".mino/forge/a/b"),
    ],
)
def test_two_paths_of_which_a_disk_may_keep_only_one_are_found(paths):
    assert set(clash((".mino/config.yml", *paths))) == set(paths)


def test_files_of_one_folder_do_not_clash():
    assert clash((".mino/forge/a", ".mino/forge/b", ".mino/forge/ab/a", ".mino/forge/ab/b")) is None
