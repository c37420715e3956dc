"""Files with one value each: plans, check results, briefs and reports, ledgers of effects (R6, R9)."""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final, TypeVar

from irontree.domain.checks import CheckReport
from irontree.domain.ids import digest_of, filed_as, revision_in
from irontree.domain.plan import Plan
from irontree.domain.timestamps import moment_in_utc
from irontree.domain.values import Value
from irontree.errors import LogDamaged
from irontree.files import (
    RESTORED_SUFFIX,
    Disk,
    disk_errors,
    is_abandoned,
    read_bytes,
    remove_abandoned_scratch,
    replace,
)
from irontree.ports import EffectLedger, Projection
from irontree.processes.handing import folder_of_sockets
from irontree.store.codec import EVENT_BYTES, read_mapping, typed, write_mapping
from irontree.store.layout import Layout
from irontree.store.locks import exclusive
from irontree.store.sealing import KEY_BYTES, is_sealed, not_ours, sealed, unsealed, whole_key

V = TypeVar("V", bound=Value)


def encode_value(value: Value) -> bytes:
    """The file's bytes, keys in the model's order; equal values have equal bytes."""
    return write_mapping(value.model_dump(mode="json")).encode()


def decode_value(model: type[V], data: bytes, path: str, *, limit: int, remedy: str) -> V:
    """The value in *data*; raises LogDamaged with *remedy* if it is not a *model*."""
    try:
        mapping = read_mapping(data, path, limit=limit)
    except LogDamaged as error:
        raise LogDamaged(error.message, remedy=remedy) from error
    return typed(model, mapping, path, remedy=remedy)


class _InRepository:
    """What is kept in files of one repository; *root* is its main worktree."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self._layout = Layout(root)
        self._disk = disk or Disk()


# --- Approved plans in `.mino/plans/` (R6): with the events, the truth. The first text with a revision is in
# `{revision}.yml`; another one that has the same revision is in `{digest}.yml`.


# The source is in it, some ten thousand nodes too.
PLAN_BYTES = 64 * 1024 * 1024
_NAME = re.compile(r"[0-9a-f]{8}(?:[0-9a-f]{56})?")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class FilePlanStore(_InRepository):
    """The port `PlanStore` on files."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        super().__init__(root, disk)
        self._loaded: dict[str, tuple[tuple[int, int, int] | None, Plan | None]] = {}

    def revisions(self) -> tuple[str, ...]:
        """What plans in force are filed under, oldest approval first; those that cannot be read before all others."""
        found = (path.stem for path in self._layout.plans.glob("*.yml") if _NAME.fullmatch(path.stem))
        return tuple(sorted(found, key=lambda revision: (self._approved_at(revision), revision)))

    def load(self, revision: str) -> Plan | None:
        """The plan in force for that digest (64 hex, any case), or the first one for that revision (8 hex).

        None if there is none. Raises LogDamaged if its file cannot be read or is another text's.
        """
        wanted = revision.lower()
        if not _NAME.fullmatch(wanted):
            return None
        label = revision_in(wanted)
        found = self._filed(wanted)
        if found or wanted == label:
            return found
        first = self._filed(label)
        return first if first and digest_of(first) == wanted else None

    def _filed(self, wanted: str) -> Plan | None:
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
        if revision not in {plan.spec_revision, digest_of(plan)}:
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
        """Write the plan durably; an earlier one of the same text is first kept as `{revision}.{n}.yml`."""
        data = encode_value(plan)
        with exclusive(self._layout.append_lock):
            name = self._name_for(plan)
            path = self._path(name)
            before = read_bytes(path, PLAN_BYTES)
            if before == data:
                return
            if before is not None:
                self._keep(name, before)
            self._disk.write_durably(path, data)

    def _name_for(self, plan: Plan) -> str:
        try:
            first = self._filed(plan.spec_revision)
        except LogDamaged:  # what cannot be read is kept beside the plan that takes its place
            first = None
        return filed_as(plan, first)

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
    return moment_in_utc(plan.in_force_since) or _LONG_AGO


# --- Check results by commit, `.mino/reports/issue-{N}/{anchor}.yml`: durable before publication


# Output is truncated by lines, and a line has no limit.
RESULTS_BYTES = 64 * 1024 * 1024
_ANCHOR = re.compile(r"[0-9a-f]{7,64}|not_applicable")
_REMEDY = "verify again: the checks run anew"


class FileResultStore(_InRepository):
    """The port `ResultStore` on files, each sealed with a key that no workspace sees (R18).

    *key* is the file that holds it, in the user's state folder; without that file, what has no seal was written by a
    version that did not seal, and is believed. A key that is not whole is none, and is made anew.
    """

    def __init__(self, root: Path, key: Path, disk: Disk | None = None) -> None:
        super().__init__(root, disk)
        self._key = key

    def load(self, issue_number: int, anchor: str) -> CheckReport | None:
        """The stored results at that commit; None if there are none.

        Raises LogDamaged if they cannot be read or do not carry our seal: somebody else wrote them.
        """
        path = self._path(issue_number, anchor)
        data = read_bytes(path, RESULTS_BYTES) if _ANCHOR.fullmatch(anchor) else None
        if data is None:
            return None
        shown, key = self._layout.shown(path), whole_key(self._key)
        report, seal = _unsealed(data, shown)
        if (report.issue_number, report.anchor) != (issue_number, anchor):
            raise LogDamaged(f"{shown} is about issue-{report.issue_number} at {report.anchor}", remedy=_REMEDY)
        is_ours = is_sealed(report, seal, key) if key else not (seal or self._key.exists())
        if not is_ours:
            raise not_ours(shown, _REMEDY)
        return report

    def save(self, report: CheckReport) -> None:
        """Write the results durably, in place of earlier ones at that commit."""
        self._put(report, self.begin_sealing())

    def begin_sealing(self) -> bytes:
        """Make the key if there is none, and seal what an earlier version stored: before a program of an agent runs.

        Returns the key. Raises EnvironmentRefused where none can be kept.
        """
        if key := whole_key(self._key):
            return key
        with exclusive(self._layout.append_lock):
            if key := whole_key(self._key):  # another process was faster
                return key
            key, is_first = secrets.token_bytes(KEY_BYTES), not self._key.exists()
            self._seal_all(key, lambda seal: is_first and not seal)
            self._disk.write_durably(self._key, key)
        return key

    def vouch(self) -> int:
        """Seal all results that are there, whoever wrote them: the user trusts them. Raises EnvironmentRefused."""
        key = self.begin_sealing()
        with exclusive(self._layout.append_lock):
            return self._seal_all(key, lambda _: True)

    def _seal_all(self, key: bytes, due: Callable[[str], bool]) -> int:
        found = 0
        for path in self._layout.state.glob("reports/*/*.yml"):
            with suppress(LogDamaged):
                report, seal = _unsealed(read_bytes(path, RESULTS_BYTES) or b"", self._layout.shown(path))
                if due(seal):
                    self._put(report, key)
                    found += 1
        return found

    def _put(self, report: CheckReport, key: bytes) -> None:
        self._disk.write_durably(self._path(report.issue_number, report.anchor), sealed(report, key))

    def _path(self, issue_number: int, anchor: str) -> Path:
        return self._layout.reports(issue_number) / f"{anchor}.yml"


def _unsealed(data: bytes, path: str) -> tuple[CheckReport, str]:
    return unsealed(CheckReport, data, path, limit=RESULTS_BYTES, remedy=_REMEDY)


# --- Briefs and reports under `.mino/`


TEXT_BYTES = 4 * 1024 * 1024


def projection_path(layout: Layout, what: Projection, issue_number: int) -> Path:
    """Where the brief or the report of one issue is."""
    return layout.brief(issue_number) if what == "brief" else layout.reports(issue_number) / "report.md"


class FileProjections(_InRepository):
    """The port `Projections` on files."""

    def write(self, what: Projection, issue_number: int, text: str) -> Path:
        """Write it in one step."""
        path = projection_path(self._layout, what, issue_number)
        replace(path, text.encode())
        return path

    def read(self, what: Projection, issue_number: int) -> str | None:
        """The text as it is; None without one."""
        data = read_bytes(projection_path(self._layout, what, issue_number), TEXT_BYTES)
        return None if data is None else data.decode("utf-8", "replace")

    def path(self, what: Projection, issue_number: int) -> str:
        """Where it is, as `.mino/…`."""
        return self._layout.shown(projection_path(self._layout, what, issue_number))


# --- The ledger of effects done, `.mino/deliveries/issue-{N}` (R9)


class FileDeliveries(_InRepository):
    """The port `Deliveries` on files."""

    def load(self, issue_number: int) -> EffectLedger:
        """The ledger; at 0 for an issue never delivered, and when the file is damaged.

        It is not synced, so a power loss may damage it. Delivering again is safe: effects are idempotent.
        """
        path = self._layout.delivery(issue_number)
        data = read_bytes(path, EVENT_BYTES)
        if data is None:
            return EffectLedger()
        try:
            return typed(EffectLedger, read_mapping(data, str(path), limit=EVENT_BYTES), str(path))
        except LogDamaged:
            return EffectLedger()

    def save(self, issue_number: int, ledger: EffectLedger) -> None:
        """Store the ledger."""
        replace(self._layout.delivery(issue_number), write_mapping(asdict(ledger)).encode())


# --- Leftovers of crashes and caches under `.mino/` (protocol, repair)


_PLACES: Final = (".*", "*/.*", "*/*/.*", "*/*/*/.*")
"""Where temporaries of ours can be; further down is what agents left, as deep as they like."""


class FileUpkeep(_InRepository):
    """The port `Upkeep` on files; *temporary* is the folder of temporary files, by default those of this system."""

    def __init__(self, root: Path, temporary: Path | None = None) -> None:
        super().__init__(root)
        self._temporary = {temporary} if temporary else {Path(tempfile.gettempdir()), folder_of_sockets()}

    def remove_leftovers(self) -> int:
        """Remove temporaries of processes that are gone, and half-restored streams, which the append lock guards.

        Scratch folders whose makers are gone are removed too.
        """
        with exclusive(self._layout.append_lock), disk_errors(self._layout.state):
            found = [path for place in _PLACES for path in self._layout.state.glob(place) if _is_left(path)]
            for path in found:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        return len(found) + sum(map(remove_abandoned_scratch, self._temporary))

    def drop_caches(self) -> None:
        """Remove `.mino/.cache`."""
        shutil.rmtree(self._layout.cache, ignore_errors=True)


def _is_left(path: Path) -> bool:
    return is_abandoned(path.name) or (path.is_dir() and path.name.endswith(RESTORED_SUFFIX))
