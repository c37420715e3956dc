"""Commands started anew each time, as bars d (seconds) and f (peak memory) compare them."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.logs import lay_out_log
from benchmarks.programs import HERE, IRONTREE, Usage, launch
from irontree.store.layout import Layout

ISSUES = 6


def show_help() -> Usage:
    """`irontree --help`."""
    return launch([IRONTREE, "--help"])


def bare_help() -> Usage:
    """What any command pays that knows its options and can draw."""
    return launch([sys.executable, "-c", "import argparse, rich.console"])


@dataclass(frozen=True, slots=True)
class SmallLog:
    """A repository with six finished issues."""

    layout: Layout

    @classmethod
    def lay_out(cls, folder: Path) -> SmallLog:
        """Make it in *folder*."""
        return cls(Layout(lay_out_log(folder, ISSUES).repository.root))

    def status(self) -> Usage:
        """`irontree status`, without the cache that an earlier command left."""
        shutil.rmtree(self.layout.cache, ignore_errors=True)
        return launch([IRONTREE, "-C", str(self.layout.root), "status"])

    def bare(self) -> Usage:
        """The event models declared, and the files opened."""
        return launch([sys.executable, str(HERE / "baselines" / "declare_models.py"), str(self.layout.events)])
