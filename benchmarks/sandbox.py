"""A home of its own for everything that is measured: no settings of the user's, nothing left behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Names by which the caller's shell, hooks or desktop would reach into a measurement.
_FOREIGN = ("GIT_", "PREFECT_", "IRONTREE_", "XDG_", "PYTHON")
_GIT_CONFIG = """\
[user]
\tname = Benchmark
\temail = benchmark@example.org
[init]
\tdefaultBranch = main
"""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is to be measured, where (*folder* is temporary), and who is told of each pair done."""

    pairs: int
    quick: bool
    folder: Path
    watch: Callable[[str, int], None]

    def watching(self, name: str) -> Callable[[int], None]:
        """Say how far the comparison *name* is."""
        return lambda done: self.watch(name, done)


def enter(folder: Path) -> None:
    """Make *folder* the home of this process and of all that it starts, for good."""
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
        del os.environ[name]
    home = folder / "home"
    home.mkdir(parents=True)
    (home / ".gitconfig").write_text(_GIT_CONFIG, encoding="utf-8")
    os.environ |= {
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_STATE_HOME": str(home / "state"),
    }


def git(folder: Path, *words: str) -> str:
    """What git prints; raises CalledProcessError unless it ends with 0."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def new_repository(folder: Path, name: str) -> Path:
    """A clone *name* with one commit on `main`, and its bare remote `{name}.git` beside it."""
    clone, remote = folder / name, folder / f"{name}.git"
    git(folder, "init", "--quiet", "--bare", "--template=", str(remote))
    git(folder, "init", "--quiet", "--template=", str(clone))
    git(clone, "remote", "add", "origin", str(remote))
    (clone / "README.md").write_text("# A project\n", encoding="utf-8")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message=Begin")
    git(clone, "push", "--quiet", "origin", "main")
    return clone
