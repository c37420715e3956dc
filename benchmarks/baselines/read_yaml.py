"""Read all event files of a log with PyYAML's C loader: what `bar_c_replay` is compared with.

Does: list the streams, read each file, parse it with `yaml.CSafeLoader`.

Does not: keep scalars as text, refuse aliases, tags or duplicate keys, validate events, check sequences, replay, or
keep what it found for the next time.
"""

from __future__ import annotations

from pathlib import Path

import yaml


def read_events(events: Path) -> int:
    """How many files there are; *events* is the folder of all streams."""
    count = 0
    for stream in sorted(events.iterdir()):
        for file in sorted(stream.iterdir()):
            yaml.load(file.read_bytes(), Loader=yaml.CSafeLoader)
            count += 1
    return count
