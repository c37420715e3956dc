"""The private server's database: copied from a migrated template, and set aside where it cannot be used."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from irontree.errors import ServerUnavailable
from irontree.files import locked, remove, swap
from irontree.flows.server.connection import local_environment
from irontree.flows.server.programs import start, tail

TEMPLATE = "template.db"
NO_SERVER = "http://127.0.0.1:9/api"
"""A placeholder for settings that need an address although no request is made."""


CHECKED_WHOLE = 64 * 1024 * 1024
"""Bytes of a database that is read through at a start: 0.2 s; of a larger one, what is read first."""
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""What SQLite says of a file that is none of ours; the last, of one that lacks a table."""


def ensure(folder: Path) -> str:
    """Ensure `prefect.db` in *folder*: an existing one is kept, else the template is copied.

    One that is damaged, or of another Prefect version, is set aside; returns what was done about it, in a sentence.
    Nothing of ours is lost: runs are made again from the logs. Raises ServerUnavailable without a template, and for a
    database that cannot be read now.
    """
    template, database, aside = build_template(folder), folder / "prefect.db", folder / "prefect.db.aside"
    there = os.path.lexists(database)
    trouble = database_trouble(database) or _misfit(database, template) if there else ""
    if there and not trouble:
        return ""
    if there:
        remove(aside)
        database.rename(aside)
    for leftover in [*folder.glob("prefect.db-*"), folder / "memo_store.toml"]:  # from a database that is gone
        remove(leftover)
    swap(database, template.read_bytes())
    if not there:
        return ""
    return (
        f"Prefect's database {trouble}: it is set aside as {aside}, and there is a new one. "
        "Nothing is lost but the pages of past runs."
    )


def database_trouble(database: Path, *, whole: bool = True) -> str:
    """What is wrong with a SQLite file, of which *whole* reads all; empty if it can be used, or cannot be read now."""
    if not database.is_file():
        return "is no file"
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=0)) as connection:
            connection.execute("SELECT version_num FROM alembic_version").fetchone()
            if whole and database.stat().st_size <= CHECKED_WHOLE:
                (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                return "" if found == "ok" else "is damaged"
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        return f"is damaged ({error})" if code in _DAMAGE else ""
    return ""


def _misfit(database: Path, template: Path) -> str:
    found = _revision(database)
    return "" if found == _revision(template) else f"is of another Prefect version (revision {found})"


def _revision(database: Path) -> str:
    """The database's migration revision; raises ServerUnavailable if it is locked, or cannot be opened."""
    try:
        with closing(sqlite3.connect(database)) as connection:
            found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.OperationalError as error:
        raise ServerUnavailable(
            f"Prefect's database {database} cannot be read: {error}.",
            remedy="End the programs that have it open, and see that you may read and write it and its folder.",
        ) from error
    return str(found[0]) if found else "none"


def build_template(folder: Path) -> Path:
    """Create `template.db`, an empty migrated database of the installed Prefect version, in *folder*; returns its path.

    Raises ServerUnavailable if Prefect cannot create one.
    """
    template = folder / TEMPLATE
    with locked(folder / "template.lock"):
        if database_trouble(template):
            remove(template)
            _migrate(folder, draft := folder / "draft.db")
            with closing(sqlite3.connect(draft)) as database:  # in one file: SQLite keeps recent writes in a second one
                database.execute("PRAGMA journal_mode=DELETE")
            draft.replace(template)
    return template


def _migrate(folder: Path, database: Path) -> None:
    for leftover in folder.glob(f"{database.name}*"):
        leftover.unlink()
    log = folder / "template.log"
    environment = local_environment(os.environ, folder, NO_SERVER) | {
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{database}"
    }
    upgrade = ["server", "database", "upgrade", "--yes"]
    with start("prefect", upgrade, environment=environment, folder=folder, log=log) as program:
        pass
    if program.returncode:
        raise ServerUnavailable(
            f"Prefect could not make its database (exit code {program.returncode}):\n{tail(log)}",
            remedy=f"The whole output is in {log}.",
        )


def identity(path: Path) -> tuple[int, int] | None:
    """Which file is there under that name; None for none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
