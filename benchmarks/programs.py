"""Programs that are measured from outside: cold starts and their peak memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
IRONTREE = str(Path(sys.executable).with_name("irontree"))


@dataclass(frozen=True, slots=True)
class Usage:
    """What one process took from its start to its end."""

    seconds: float
    megabytes: float


def launch(argv: Sequence[str], *, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> Usage:
    """Run a program (by its absolute path) in a process of its own; raises RuntimeError unless it ends with 0."""
    launcher = [sys.executable, "-I", "-S", str(HERE / "launch.py")]
    done = subprocess.run([*launcher, *argv], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    seconds, kibibytes, code = done.stdout.split()
    if code != "0":
        raise RuntimeError(f"{' '.join(argv)} ended with {code}:\n{done.stderr}")
    return Usage(float(seconds), int(kibibytes) / 1024)
