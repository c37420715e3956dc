"""Fetch what others publish about their APIs into build/descriptions/: tests hold our doubles to it.

Each is one file of an npm package, by name and version. Without npm or a network nothing is fetched, nothing fails,
and the tests that need a file say that they were skipped. Nothing of it is ever committed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "build" / "descriptions"
FILES = {
    "github-openapi-23.0.2.json": ("@octokit/openapi@23.0.2", "generated/api.github.com.json"),
    "github-webhooks-7.6.1.json": ("@octokit/webhooks-examples@7.6.1", "api.github.com/index.json"),
}
SECONDS = 60


def fetch(package: str, member: str, target: Path) -> str:
    """Take one file out of a package; returns why not, or nothing."""
    if not shutil.which("npm"):
        return "npm is not there"
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        folder = Path(name)
        words = ["npm", "pack", "--ignore-scripts", "--silent", "--pack-destination", str(folder), package]
        try:
            subprocess.run(words, cwd=folder, capture_output=True, check=True, timeout=SECONDS)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            return f"npm did not get it: {error}"
        with tarfile.open(next(folder.glob("*.tgz"))) as archive:
            source = archive.extractfile(f"package/{member}")
            if source is None:
                return f"{member} is no file of {package}"
            (folder / "whole").write_bytes(source.read())
        (folder / "whole").replace(target)
    return ""


def main() -> None:
    """Fetch what is missing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (package, member) in FILES.items():
        if not (FOLDER / name).is_file() and (reason := fetch(package, member, FOLDER / name)):
            print(f"{name}: {reason}; the tests that need it will be skipped", file=sys.stderr)


if __name__ == "__main__":
    main()
