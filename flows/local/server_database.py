"""The private server's database, copied from a migrated template: migrations would take most of its start."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from irontree.errors import ServerUnavailable
from irontree.flows.local import background
from irontree.flows.local.settings import local_environment

NO_SERVER = "http://127.0.0.1:9/api"
"""An address for settings that need one where nothing is asked."""


def ensure(home: Path) -> None:
    """Have `prefect.db` in *home*: what is there stays; otherwise a copy of the template. Deleting it loses nothing.

    Raises ServerUnavailable for a file that is no database, or one of another Prefect version.
    """
    template, database = build_template(home), home / "prefect.db"
    if database.exists():
        _check(database, template)
        return
    for leftover in [*home.glob("prefect.db-*"), home / "memo_store.toml"]:  # of the database that was deleted
        leftover.unlink(missing_ok=True)
    draft = home / "new.db"
    shutil.copyfile(template, draft)
    draft.replace(database)


def _check(database: Path, template: Path) -> None:
    remedy = "Delete it: it holds nothing that is not in .mino/ too, but for the pages of past runs."
    try:
        found = _revision(database)
    except sqlite3.DatabaseError as error:
        raise ServerUnavailable(f"{database} is damaged: {error}.", remedy=remedy) from error
    if found != _revision(template):
        raise ServerUnavailable(f"{database} is of another Prefect version (revision {found}).", remedy=remedy)


def _revision(database: Path) -> str:
    """The migration that the database is at."""
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(found[0]) if found else "none"


def build_template(home: Path) -> Path:
    """Have `template.db`, an empty migrated database of the installed Prefect version, in *home*; returns its path.

    Raises ServerUnavailable when Prefect cannot make one.
    """
    home.mkdir(parents=True, exist_ok=True)
    template = home / "template.db"
    with (home / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            _migrate(home, home / "draft.db")
            _in_one_file(home / "draft.db", template)
    return template


def _migrate(home: Path, database: Path) -> None:
    _forget(database)
    log = home / "template.log"
    environment = local_environment(os.environ, home, NO_SERVER) | {
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{database}"
    }
    upgrade = ["server", "database", "upgrade", "--yes"]
    with background.start("prefect", upgrade, environment=environment, home=home, log=log) as program:
        pass
    if program.returncode:
        raise ServerUnavailable(
            f"Prefect could not make its database (exit code {program.returncode}):\n{background.tail(log)}",
            remedy=f"The whole output is in {log}.",
        )


def _in_one_file(source: Path, target: Path) -> None:
    """SQLite keeps recent writes in a second file; its own backup brings both together."""
    draft = target.with_suffix(".tmp")
    _forget(draft)
    with closing(sqlite3.connect(source)) as original, closing(sqlite3.connect(draft)) as copy:
        original.backup(copy)
    draft.replace(target)
    _forget(source)


def _forget(database: Path) -> None:
    for file in database.parent.glob(f"{database.name}*"):
        file.unlink()
