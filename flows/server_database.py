"""The private server's database, copied from a migrated template: migrations would take most of its start."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from irontree.errors import ServerUnavailable
from irontree.flows import background
from irontree.flows.settings import local_environment

NO_SERVER = "http://127.0.0.1:9/api"
"""An address for settings that need one where nothing is asked."""


def ensure(home: Path) -> None:
    """Have `prefect.db` in *home*: what is there stays; otherwise a copy of the template. Deleting it loses nothing."""
    database = home / "prefect.db"
    if database.exists():
        return
    build_template(home)
    for leftover in [*home.glob("prefect.db-*"), home / "memo_store.toml"]:  # of the database that was deleted
        leftover.unlink(missing_ok=True)
    draft = home / "new.db"
    shutil.copyfile(home / "template.db", draft)
    draft.replace(database)


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
