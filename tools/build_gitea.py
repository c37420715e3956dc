"""Build Gitea from its Go module for `make test-forges`, once for each version: `python -m tools.build_gitea 1.24.6 …`.

A version that cannot be built here is named with the reason, and the tests skip it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.gitea.real import BUILDS, VERSIONS, program_of, source_link

MODULE = "code.gitea.io/gitea"
TAGS = "sqlite sqlite_unlock_notify"


def main(versions: list[str]) -> int:
    """Build those that are not there yet; what cannot be built is named, and no error."""
    for version in versions:
        if source_link(version).exists() and program_of(version).exists():
            continue
        if reason := build(version):
            print(f"Gitea {version} is skipped: {reason}")
    return 0


def build(version: str) -> str:
    """Build it, which takes some minutes the first time; why it cannot be built, or nothing."""
    if shutil.which("go") is None:
        return "Go is not installed"
    asked = subprocess.run(
        ["go", "mod", "download", "-json", f"{MODULE}@v{version}"], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        return f"the module {MODULE}@v{version} cannot be had: {asked.stdout}{asked.stderr}"
    source, program = Path(json.loads(asked.stdout)["Dir"]), program_of(version)
    if not program.exists() and (said := _compile(source, program, version)):
        return said
    source_link(version).unlink(missing_ok=True)
    source_link(version).symlink_to(source)
    return ""


def _compile(source: Path, program: Path, version: str) -> str:
    print(f"building Gitea {version} into {BUILDS}, some minutes", flush=True)
    program.parent.mkdir(parents=True, exist_ok=True)
    fresh = program.with_suffix(".new")
    flags = f'-X main.Version={version} -X "main.Tags={TAGS}"'
    line = ["go", "build", "-tags", TAGS, "-ldflags", flags, "-o", str(fresh), "."]
    built = subprocess.run(line, cwd=source, capture_output=True, text=True, check=False)
    if built.returncode:
        return f"it does not build: {built.stderr[-600:]}"
    fresh.replace(program)
    return ""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or [*VERSIONS]))
