"""A disk that stops in the middle of its work, at any step a test names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from irontree.files import Disk


class Stopped(BaseException):
    """The writer is gone; no `except Exception` may tidy up after it."""


class StoppingDisk(Disk):
    """Calls *stop* before its step number *last* (counted from 0) is taken; half of the bytes count as a step too."""

    def __init__(self, last: int, stop: Callable[[], None]) -> None:
        self._left = last
        self._stop = stop

    def _step(self) -> None:
        if self._left == 0:
            self._stop()
        self._left -= 1

    def make_folder(self, folder: Path) -> None:
        self._step()
        super().make_folder(folder)

    def write_temporary(self, path: Path, data: bytes) -> Path:
        self._step()
        temporary = super().write_temporary(path, data[: len(data) // 2])
        self._step()
        temporary.unlink()
        return super().write_temporary(path, data)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def sync_folder(self, folder: Path) -> None:
        self._step()
        super().sync_folder(folder)


def stopping_at(step: int) -> StoppingDisk:
    """A disk that raises Stopped before that step."""

    def stop() -> None:
        raise Stopped

    return StoppingDisk(step, stop)
