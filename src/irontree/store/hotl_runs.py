"""The runs of `hotl-rt` in `.hotl`: the state, which is the truth about a run, and the report made from it.

A command reads, decides and acts without a lock, so that a check may call `hotl-rt` itself. To record, it takes the
lock of the folder and reads again: nothing that another command wrote meanwhile is lost (docs/hotl.md).
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from irontree.domain.workflow.checkout import HOME, REPORTS
from irontree.domain.workflow.reading import MOST_BYTES as READ_BYTES
from irontree.domain.workflow.report import report
from irontree.domain.workflow.run import DRIVEN, DRIVER, Change, Damaged, Run, run_as_json, run_from_json, run_id_of
from irontree.domain.workflow.workflow import slug_of
from irontree.errors import EnvironmentRefused, LogDamaged, Refused, in_words
from irontree.files import Disk, disk_errors, is_leftover, locked, read_beneath, read_bytes

if TYPE_CHECKING:
    from irontree.domain.workflow.compile import Ticked

STATES: Final = f"{HOME}/state"
PREPARED: Final = f"{HOME}/prepared"
IGNORED: Final = b"*\n"
MOST_BYTES: Final = 64 * 1024 * 1024


def to_json(data: object) -> str:
    """JSON as upstream's files have it: two spaces, and every character as it is."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


class HotlRuns:
    """The runs whose state is below *folder*; *disk* takes the steps of each write."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or Disk()

    @property
    def states(self) -> tuple[Path, ...]:
        """The state files, in the order of their names."""
        return tuple(sorted((self._folder / STATES).glob("*.json")))

    def state_file(self, run_id: str) -> Path | None:
        """The state of that run; None if there is none."""
        if not run_id or "/" in run_id or run_id.startswith("."):
            return None
        path = self._folder / STATES / f"{run_id}.json"
        return path if path.is_file() else None

    def choose(self, run_id: str) -> Path:
        """The state of that run, or of the only one if none is named; never the newest. Raises Refused."""
        if run_id:
            found = self.state_file(run_id)
            if found is None:
                raise Refused(f"No HOTL run found for run_id: {run_id}")
            return found
        states = self.states
        if not states:
            raise Refused(f"No active HOTL run found in {STATES}/")
        if len(states) > 1:
            options = "Select one with --run-id <run-id> or HOTL_RUN_ID."
            what = f"Multiple HOTL runs found in {STATES}/. {options}"
            raise Refused("\n".join((what, *map(self._listed, states))))
        return states[0]

    def _listed(self, path: Path) -> str:
        try:
            run = self.read(path)
        except LogDamaged:
            return f"  - {path.stem} [damaged]"
        return f"  - {run.run_id} [{run.status}] workflow={run.workflow_path}"

    def read(self, path: Path) -> Run:
        """The run in that file. Raises LogDamaged, which names the file and what to do."""
        try:
            data = json.loads((read_bytes(path, MOST_BYTES) or b"").decode("utf-8", "surrogateescape"))
            return run_from_json(data)
        except (ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, Damaged) else f"it is no JSON ({error})"
            raise LogDamaged(
                f"The state {path} is damaged: {why}",
                remedy="Put it right or restore a copy of it. If there is none, move it away and begin a new run: "
                "hotl-rt init",
            ) from error

    def begin(self, make: Callable[[], Run]) -> Run:
        """Record a new run, whose id *make* gives; it is asked again while the id is taken."""
        with self._locked():
            self._hide()
            run = make()
            while self.state_file(run.run_id):
                run = make()
            self._write(self._folder / STATES / f"{run.run_id}.json", run, ())
        return run

    def remember(self, prepared: Mapping[str, Any]) -> None:
        """Keep what `prepare` has printed of a workflow for the run that begins here. Raises EnvironmentRefused."""
        with self._locked():
            self._hide()
            self._disk.write_durably(self._prepared(prepared["workflow_path"]), _bytes(to_json(prepared)))

    def prepared(self, workflow_path: str) -> dict[str, str]:
        """What was kept of that workflow, as far as it is text; empty if that is nothing, or cannot be read."""
        place = self._prepared(workflow_path)
        try:
            kept = json.loads(b"" if place.is_symlink() else read_bytes(place, READ_BYTES) or b"")
        except (ValueError, RecursionError):
            return {}
        if not isinstance(kept, dict) or kept.get("workflow_path") != workflow_path:
            return {}
        return {key: value for key, value in kept.items() if isinstance(value, str)}

    def _prepared(self, workflow_path: str) -> Path:
        return self._folder / PREPARED / f"{slug_of(workflow_path)}.json"

    def change(self, path: Path, decide: Callable[[Run], Change]) -> Change:
        """Record what *decide* makes of the run as it is then. Raises Refused, also for a run that Iron Tree drives."""
        with self._locked():
            run = self.read(path)
            require_own(run)
            change = decide(run)
            self._write(path, change.run, change.log)
        return change

    def show(self, run: Run, log: Sequence[str]) -> None:
        """Show a run that Iron Tree drives as it is now, with its event log; an id that another run has is not taken.

        Raises EnvironmentRefused.
        """
        with self._locked():
            self._hide()
            begun = datetime.fromisoformat(run.started_at)
            while not self._is_ours(run):
                begun += timedelta(seconds=1)
                run_id = run_id_of(run.workflow_slug, begun)
                named = run.report_path.replace(f"{run.run_id}.md", f"{run_id}.md")
                run = replace(run, run_id=run_id, report_path=named)
            self._write(self._folder / STATES / f"{run.run_id}.json", run, log, anew=True)

    def tick(self, path: str, mark: Callable[[str], Ticked | None]) -> tuple[int, ...]:
        """Write what *mark* makes of the file *path* of the folder, atomically and durably: it is the author's.

        A file that is not there, leads elsewhere, has two names, may not be written or is no text is left alone; its
        mode stays. What a kill leaves behind is below `.hotl`, where git does not see it. Returns the steps whose tick
        was set back. Raises EnvironmentRefused.
        """
        place = self._folder / path
        with self._locked():
            data = read_beneath(self._folder, path, READ_BYTES + 1) or b""
            try:
                text = data.decode("utf-8")
            except UnicodeDecodeError:
                return ()
            ticked = mark(text) if 0 < len(data) <= READ_BYTES else None
            if ticked and ticked.text != text:
                with disk_errors(place):
                    found = place.stat()
                    if not found.st_mode & stat.S_IWUSR or found.st_nlink > 1:
                        return ()
                    temporary = self._disk.write_temporary(self._folder / HOME / "ticked", ticked.text.encode())
                    temporary.chmod(stat.S_IMODE(found.st_mode))
                    self._disk.rename(temporary, place)
                    self._disk.sync_folder(place.parent)
        return ticked.set_back if ticked else ()

    def _is_ours(self, run: Run) -> bool:
        """Whether no other run has that id."""
        path = self.state_file(run.run_id)
        if path is None:
            return True
        try:
            there = self.read(path)
        except LogDamaged:
            return False
        return (there.more.get(DRIVER), there.workflow_path) == (run.more.get(DRIVER), run.workflow_path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        for name in (HOME, STATES, REPORTS, PREPARED, f"{HOME}/.gitignore", f"{STATES}/.lock"):
            if (place := self._folder / name).is_symlink():
                raise EnvironmentRefused(
                    f"{place} is a link: what is written there would be written elsewhere",
                    remedy="remove it, and from git if it is there; it is made anew",
                )
        with disk_errors(self._folder / STATES), locked(self._folder / STATES / ".lock"):
            for name in (HOME, STATES, REPORTS, PREPARED):
                for left in (self._folder / name).glob(".*"):
                    if is_leftover(left.name):  # of a writer that was killed: nobody else writes while this is locked
                        left.unlink()
            yield

    def _hide(self) -> None:
        """Have git ignore the folder: it is no part of the work."""
        ignore = self._folder / HOME / ".gitignore"
        if not ignore.exists():
            self._disk.write_durably(ignore, IGNORED)

    def _write(self, path: Path, run: Run, log: Sequence[str], *, anew: bool = False) -> None:
        """The state first: a report without the last line is only less, one with a line too many would lie.

        The event log goes on where it ended, or begins *anew*.
        """
        self._disk.write_durably(path, _bytes(to_json(run_as_json(run))))
        shown = self._report(path, run)
        kept = b"" if anew or shown.is_symlink() else read_bytes(shown, MOST_BYTES) or b""
        before = kept.decode("utf-8", "replace")
        self._disk.write_durably(shown, _bytes(report(run, before, log)))

    def _report(self, state: Path, run: Run) -> Path:
        """Where the report is; an execution root that is not there is not made.

        An agent can write the state: whatever that names, the report is among the reports, and named as the state is.
        """
        root = self._folder / run.execution_root
        named, own = self._folder / run.report_path, f"{state.stem}.md"
        among = os.path.normpath(named) == os.path.normpath(root / REPORTS / own)
        return named if among and root.is_dir() else self._folder / REPORTS / own


def require_own(run: Run) -> None:
    """Raises Refused for a run that Iron Tree drives: its log is the truth, and this file only shows it."""
    if run.more.get(DRIVER) == DRIVEN:
        raise Refused(
            f"Iron Tree drives the run {run.run_id}: hotl-rt only shows it",
            remedy="`irontree status` says where it stands, and `irontree answer` takes your decision",
        )


def located(folder: Path, state_keys: tuple[str, ...], tell: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """These keys of every run below *folder*, with its file and *folder*; *tell* hears of damaged ones."""
    runs = HotlRuns(folder)
    for path in runs.states:
        try:
            kept = run_as_json(runs.read(path))
        except LogDamaged as error:
            tell(f"left out: {in_words(error)}")
            continue
        yield {key: kept[key] for key in state_keys} | {"state_file": str(path), "run_root": str(folder)}


def _bytes(text: str) -> bytes:
    """In UTF-8; what is no character (of a file name that is no text) as the escape that JSON has for it."""
    return text.encode("utf-8", "backslashreplace")
