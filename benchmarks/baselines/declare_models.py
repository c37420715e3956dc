"""Declare the event models and open the files of a log: what `irontree status` is compared with (bars d and f).

Does: import the module that declares the protocol's events, nothing else of the program; read each event file of the
log whose folder is the argument.

Does not: parse, validate, replay, look at plans, loops, locks or git, or print anything.
"""

from __future__ import annotations

import sys
from pathlib import Path

from irontree.domain import events


def main(folder: Path) -> None:
    """Read all files."""
    sizes = [len(file.read_bytes()) for stream in folder.iterdir() for file in stream.iterdir()]
    if not (sizes and events.ISSUE_EVENTS):
        sys.exit("there is nothing to open")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
