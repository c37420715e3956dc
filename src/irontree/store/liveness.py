"""Whether a process of this host lives: for files of others, where no kernel lock can say it (ruling R3)."""

from __future__ import annotations

import os


def lives(pid: int) -> bool:
    """Whether there is a process with that number, whoever it belongs to."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
