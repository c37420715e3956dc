"""Lay build/links/irontree/ out as the installed package looks, for tools that read files and no import hooks."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PREFECT_LAYER = ("flows", "tasks", "blocks", "templates")


def link_tree(root: Path = ROOT) -> Path:
    """Make the tree of symbolic links anew; returns the folder to put on the tools' search path."""
    links = root / "build" / "links"
    shutil.rmtree(links, ignore_errors=True)
    package = links / "irontree"
    package.mkdir(parents=True)
    for source in [*(root / "src" / "irontree").iterdir(), *(root / name for name in PREFECT_LAYER)]:
        (package / source.name).symlink_to(source)
    return links


if __name__ == "__main__":
    print(link_tree())
