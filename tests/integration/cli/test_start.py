"""What a command that only looks loads: bar (d) of the benchmarks rests on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOADED = """
import sys
from irontree.cli.main import main
code = main(sys.argv[1:])
print(code, *sorted(name for name in sys.modules if "." not in name), file=sys.stderr)
"""
HEAVY = {"acp", "git", "github", "httpx", "jinja2", "markdown_it", "prefect", "rich", "sqlalchemy"}


@pytest.mark.parametrize("words", [["--help"], ["status"], ["status", "--loops"], ["show", "1"]])
def test_who_only_looks_loads_no_heavy_library(shell, words):
    """Where nothing speaks of a Prefect server."""
    shell("run", "1")
    assert loaded_by(*words, cwd=shell.root) & HEAVY == set()


def loaded_by(*words: str, cwd: Path) -> set[str]:
    """The packages that a command loads which is started anew."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-c", LOADED, *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True, env=environment)
    code, *packages = done.stderr.splitlines()[-1].split()
    assert code == "0"
    return set(packages)
