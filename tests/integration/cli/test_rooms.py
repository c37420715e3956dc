"""What a command loads, by the rooms of ours that it enters: bar (d) of the benchmarks rests on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOMS = """
import sys
from irontree.cli.main import main
code = main(sys.argv[1:])
rooms = {".".join(name.split(".")[:3]) for name in sys.modules if name.startswith("irontree.")}
print(code, *sorted(rooms), file=sys.stderr)
"""
WORKSHOPS = {
    *("irontree.agents", "irontree.checks", "irontree.config", "irontree.forges", "irontree.rendering"),
    *("irontree.bootstrap.equipment", "irontree.domain.requirements", "irontree.domain.settings"),
    *("irontree.ports.forge", "irontree.ports.pull_requests", "irontree.ports.repository", "irontree.ports.work"),
    *("irontree.repository.publication", "irontree.repository.workspace"),
    *("irontree.services.consistency", "irontree.services.delivery", "irontree.services.execution"),
    *("irontree.services.planning", "irontree.services.projections"),
}
"""Where work is done; who looks whether there is any enters none of them."""


def rooms_of(*words: str, cwd: Path) -> set[str]:
    """The rooms of ours that a command enters which is started anew, where nothing speaks of a Prefect server."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-c", ROOMS, *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True, env=environment)
    code, *rooms = done.stderr.splitlines()[-1].split()
    assert code == "0"
    return set(rooms)


def test_a_look_at_the_log_enters_no_room_where_work_is_done(shell):
    """What `status` does not show, it does not load (bar d of the benchmarks)."""
    shell("run", "1")
    entered = rooms_of("status", cwd=shell.root)
    assert "irontree.services.world" in entered
    assert entered & WORKSHOPS == set()


def test_help_enters_no_room_but_that_of_the_command_line(shell):
    entered = rooms_of("--help", cwd=shell.root)
    assert {room.split(".")[1] for room in entered} == {"cli", "errors"}
