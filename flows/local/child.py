"""The frame of a process that serves deployments: its order, its life with its parent, its report."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from irontree.flows.local.background import keep_short
from irontree.flows.local.lifeline import RUNNER, end_with

Serve = Callable[[list[dict[str, Any]], int], Coroutine[Any, Any, None]]


def run_child(serve: Serve) -> None:
    """Serve what the order on stdin says until killed; the parent's pid is the first argument.

    The whole process group ends with the parent, and each flow process with us.
    """
    end_with(int(sys.argv[1]), lambda: os.killpg(0, signal.SIGKILL))
    os.environ[RUNNER] = str(os.getpid())
    order = json.load(sys.stdin)
    tempfile.tempdir = order["folder"]  # the scratch folder; the parent removes it
    keep_short(Path(order["log"]))
    asyncio.run(serve(order["deployments"], order["limit"]))


def report(deployments: Mapping[str, UUID]) -> None:
    """Tell the parent that we are ready; from here on stdout is the log, for the flow processes' output."""
    sys.stdout.write(json.dumps(deployments, default=str) + "\n")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
