"""Judge a file or folder that a step was to make: it is there, has a text, or holds a file of some name."""

from __future__ import annotations

import stat
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from irontree.domain.workflow.verify import ArtifactCheck, Outcome

_CHUNK: Final = 1024 * 1024


def judge_artifact(check: ArtifactCheck, root: Path) -> Outcome:
    """What *check* comes to in the folder *root*, in upstream's words; a fault in what it asks for is a block.

    A path that leads out of *root*, by a link too, is one: what is there is none of the step's work.
    """
    if check.fault:
        return Outcome("block", reason=check.fault)
    path, place = check.path, root / check.path
    if not _is_within(place, root):
        return Outcome("block", reason=f"artifact path is outside the execution root: {path}")
    try:
        return _judged(check, place)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return Outcome("fail", stderr=f"artifact cannot be read: {path}: {why}")


def _is_within(place: Path, root: Path) -> bool:
    try:
        return place.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, or no name at all
        return False


def _judged(check: ArtifactCheck, place: Path) -> Outcome:
    path, value = check.path, check.value or ""
    match check.kind:
        case "exists":
            found = place.exists()
            return _outcome(f"artifact exists: {path}" if found else "", f"artifact missing: {path}")
        case "contains":
            if not place.is_file():
                return Outcome("fail", stderr=f"artifact missing: {path}")
            passed = f"artifact contains expected text: {path}" if _contains(place, value.encode()) else ""
            return _outcome(passed, f"artifact missing expected text in {path}")
        case _:
            if not place.is_dir():
                return Outcome("fail", stderr=f"artifact directory missing: {path}")
            passed = f"artifact matches glob: {path}/{value}" if _holds(place, value) else ""
            return _outcome(passed, f"no artifact matches {value} in {path}")


def _outcome(passed: str, failed: str) -> Outcome:
    return Outcome("pass", stdout=passed) if passed else Outcome("fail", stderr=failed)


def _contains(place: Path, text: bytes) -> bool:
    """Read piece by piece: an artifact may be larger than the memory."""
    end = b""
    with place.open("rb") as file:
        while piece := file.read(_CHUNK):
            if text in end + piece:
                return True
            end = (end + piece)[-len(text) :]
    return False


def _holds(folder: Path, glob: str) -> bool:
    """Whether a regular file directly in the folder has such a name; a link is none."""
    return any(fnmatchcase(each.name, glob) and stat.S_ISREG(each.lstat().st_mode) for each in folder.iterdir())
