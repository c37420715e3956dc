"""Install one real agent program into build/agents/, for the tests of `make test` that call it.

Given is an npm package with its version: one that is small, and speaks the Agent Client Protocol too. Without npm or a
network nothing is installed, nothing fails, and those tests are skipped with the reason. `make test-agents` has all.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "build" / "agents"
SECONDS = 120


def install(package: str) -> str:
    """Install it; returns why not, or nothing."""
    if not shutil.which("npm"):
        return "npm is not there"
    FOLDER.mkdir(parents=True, exist_ok=True)
    words = [
        "npm",
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--fetch-retries=1",
        "--prefix",
        str(FOLDER),
    ]
    try:
        subprocess.run([*words, package], cwd=FOLDER, capture_output=True, check=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        return f"npm did not get it: {error}"
    return ""


def main(package: str, program: str) -> None:
    """Install *package*, unless its *program* is there."""
    if not (FOLDER / "node_modules" / ".bin" / program).exists() and (reason := install(package)):
        print(f"{package}: {reason}; the tests of a real agent program will be skipped", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
