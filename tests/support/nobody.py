"""What a user without rights may do: root may do everything, so its tests see no permission fault."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

NOBODY = 65534
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become another user, to whom permissions are refused: run it as root"
)


def as_nobody(act: Callable[[Path], None], *groups: int) -> None:
    """Run *act* in a process of a user without rights, who is in *groups*, in a folder of its own.

    Fails with what failed there. What it imports has to be imported by then: that user may not be able to read the
    environment.
    """
    folder = Path(tempfile.mkdtemp(prefix="irontree-nobody-", dir="/tmp"))
    shutil.copyfile(os.environ["GIT_CONFIG_GLOBAL"], folder / ".gitconfig")
    for path in (folder, folder / ".gitconfig"):
        os.chown(path, NOBODY, NOBODY)
    reading, writing = os.pipe()
    try:
        child = os.fork()
        if child == 0:
            _live(act, folder, writing, groups)
        os.close(writing)
        with os.fdopen(reading) as answer:
            said = answer.read()
        os.waitpid(child, 0)
    finally:
        shutil.rmtree(folder)
    assert said == "done", said


def _live(act: Callable[[Path], None], folder: Path, writing: int, groups: tuple[int, ...]) -> None:
    said = ""
    try:
        os.setgroups(groups)
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.chdir(folder)
        os.environ |= {"HOME": str(folder), "GIT_CONFIG_GLOBAL": str(folder / ".gitconfig")}
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        act(folder)
        said = "done"
    except BaseException:  # noqa: BLE001 - the one boundary of this process
        said = traceback.format_exc()
    finally:
        with os.fdopen(writing, "w") as answer:
            answer.write(said)
        os._exit(0)
