"""Approved plans, `.mino/plans/{revision}.yml` (ruling R6): with the events, the truth."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from irontree.domain.plan import Plan
from irontree.errors import LogDamaged
from irontree.store.documents import decode_value, encode_value
from irontree.store.files import Disk, disk_errors, read_bytes
from irontree.store.layout import Layout
from irontree.store.locks import exclusive

# The source is in it, some ten thousand nodes too.
PLAN_BYTES = 64 * 1024 * 1024
_REVISION = re.compile(r"[0-9a-f]{8}")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class FilePlanStore:
    """The port `PlanStore` on the files of one repository; *root* is its main worktree."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self._layout = Layout(root)
        self._disk = disk or Disk()
        self._loaded: dict[str, tuple[tuple[int, int, int] | None, Plan | None]] = {}

    def revisions(self) -> tuple[str, ...]:
        """Spec revisions with a plan in force, oldest approval first; those that cannot be read before all others."""
        found = (path.stem for path in self._layout.plans.glob("*.yml") if _REVISION.fullmatch(path.stem))
        return tuple(sorted(found, key=lambda revision: (self._approved_at(revision), revision)))

    def load(self, revision: str) -> Plan | None:
        """The plan in force for that revision (8 hex, any case); None if there is none.

        Raises LogDamaged if its file cannot be read or is another revision's.
        """
        wanted = revision.lower()
        if not _REVISION.fullmatch(wanted):
            return None
        facts = self._facts(wanted)
        known, plan = self._loaded.get(wanted, (None, None))
        if facts != known:
            plan = self._read(wanted)
            self._loaded[wanted] = (facts, plan)
        return plan

    def _read(self, revision: str) -> Plan | None:
        path = self._path(revision)
        data = read_bytes(path, PLAN_BYTES)
        if data is None:
            return None
        name = self._layout.shown(path)
        remedy = f"move {name} away and restore it: irontree init --from-backup"
        plan = decode_value(Plan, data, name, limit=PLAN_BYTES, remedy=remedy)
        if plan.spec_revision != revision:
            raise LogDamaged(f"{name}: is the plan of {plan.spec_revision}", remedy=remedy)
        return plan

    def _facts(self, revision: str) -> tuple[int, int, int] | None:
        """What changes with the file: a plan can be large, and every step asks for all of them."""
        path = self._path(revision)
        with disk_errors(path):
            try:
                stat = path.stat()
            except FileNotFoundError:
                return None
        return stat.st_ino, stat.st_size, stat.st_mtime_ns

    def save(self, plan: Plan) -> None:
        """Write the plan durably; other content under its revision is first kept as `{revision}.{n}.yml`."""
        data = encode_value(plan)
        with exclusive(self._layout.append_lock):
            path = self._path(plan.spec_revision)
            before = read_bytes(path, PLAN_BYTES)
            if before == data:
                return
            if before is not None:
                self._keep(plan.spec_revision, before)
            self._disk.write_durably(path, data)

    def _keep(self, revision: str, data: bytes) -> None:
        """Copy, not move: there is a plan in force at every instant. A copy from before a crash is found again."""
        for turn in count(1):
            path = self._layout.plans / f"{revision}.{turn}.yml"
            kept = read_bytes(path, PLAN_BYTES)
            if kept is None:
                self._disk.write_durably(path, data)
            if kept in {None, data}:
                return

    def _approved_at(self, revision: str) -> datetime:
        try:
            plan = self.load(revision)
        except LogDamaged:
            return _LONG_AGO
        return approved_at(plan) if plan else _LONG_AGO

    def _path(self, revision: str) -> Path:
        return self._layout.plans / f"{revision}.yml"


def approved_at(plan: Plan) -> datetime:
    """When the plan was approved, or else taken in; long ago if it does not say so in ISO 8601."""
    try:
        return datetime.fromisoformat(plan.in_force_since).astimezone(UTC)
    except ValueError:
        return _LONG_AGO
