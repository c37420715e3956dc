"""The private server's database: kept if it can be used, else set aside, and a new one made from the template."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from irontree.errors import ServerUnavailable
from irontree.flows.server.database import database_trouble, ensure, identity


def a_database(path: Path, revision: str = "this", rows: int = 1000) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE alembic_version (version_num)")
        connection.execute("INSERT INTO alembic_version VALUES (?)", [revision])
        connection.execute("CREATE TABLE runs (name)")
        connection.executemany("INSERT INTO runs VALUES (?)", [[f"run {row}"] for row in range(rows)])
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    a_database(tmp_path / "template.db", rows=0)
    return tmp_path


def in_the_middle(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:8192] + os.urandom(4096) + data[12288:])


def as_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").touch()


DAMAGE = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "random bytes": lambda path: path.write_bytes(os.urandom(20_000)),
    "random bytes in the middle": in_the_middle,
    "zero length": lambda path: path.write_bytes(b""),
    "a folder": as_a_folder,
    "a link to nowhere": lambda path: (path.unlink(), path.symlink_to("/nowhere")),
    "of another version": lambda path: (path.unlink(), a_database(path, "older")),
}


@pytest.mark.parametrize("harm", DAMAGE.values(), ids=DAMAGE)
def test_what_cannot_be_used_is_set_aside_and_said(folder, harm):
    database = a_database(folder / "prefect.db")
    (folder / "prefect.db-wal").write_bytes(b"of the old one")
    harm(database)
    said = ensure(folder)
    assert f"it is set aside as {folder / 'prefect.db.aside'}" in said
    assert os.path.lexists(folder / "prefect.db.aside")
    assert database.read_bytes() == (folder / "template.db").read_bytes()
    assert not (folder / "prefect.db-wal").exists()
    assert ensure(folder) == ""


def test_a_second_one_takes_the_place_of_the_first_that_was_set_aside(folder):
    for content in (b"one", b"two"):
        (folder / "prefect.db").write_bytes(content)
        ensure(folder)
    assert (folder / "prefect.db.aside").read_bytes() == b"two"


def test_a_good_one_is_kept_and_a_missing_one_is_made_without_a_word(folder):
    assert ensure(folder) == ""
    with closing(sqlite3.connect(folder / "prefect.db")) as connection, connection:
        connection.execute("INSERT INTO runs VALUES ('kept')")
    before = (folder / "prefect.db").read_bytes()
    assert ensure(folder) == ""
    assert (folder / "prefect.db").read_bytes() == before


def test_one_that_is_only_locked_is_not_damaged(folder):
    database = a_database(folder / "prefect.db")
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert database_trouble(database) == ""


def test_one_that_cannot_be_opened_is_named_and_left_alone(folder):
    database = a_database(folder / "prefect.db")
    (folder / "prefect.db-journal").mkdir()
    before = database.read_bytes()
    with pytest.raises(ServerUnavailable, match=f"{database} cannot be read: "):
        ensure(folder)
    assert database.read_bytes() == before


def test_another_file_under_the_name_is_another_database(folder):
    database = a_database(folder / "prefect.db")
    before = identity(database)
    assert before == identity(database)
    database.rename(folder / "away")
    assert identity(database) is None
    a_database(database)
    assert identity(database) not in {None, before}
