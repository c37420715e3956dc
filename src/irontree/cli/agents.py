"""`irontree agents [list | record DIR -- COMMAND | replay DIR]`: coding agents, and their sessions as recordings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from irontree.cli.agent_programs import Program, look_for_all
from irontree.cli.blocks import Cell, Table
from irontree.cli.context import Context
from irontree.cli.parser import UsageError, add_command, add_json
from irontree.errors import ConfigRefused

_EPILOG: Final = """\
irontree agents record ~/recordings -- claude -p --permission-mode acceptEdits
irontree agents replay ~/recordings

record and replay are for agent.command in .mino/config.yml: docs/agents.md
"""
_ACCESS: Final[Mapping[bool | None, str]] = {True: "has a key or a log-in", False: "none found", None: "cannot be told"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take what to do, the folder of recordings, and the program that is recorded."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument(
        "action",
        choices=("list", "record", "replay"),
        nargs="?",
        default="list",
        help="which agents are known and installed (default); be an agent that records another one, or replays it",
    )
    parser.add_argument("recordings", metavar="DIR", nargs="?", help="where recordings are, as an absolute path")
    parser.add_argument(
        "--pace", type=float, default=0.0, metavar="SECONDS", help="replay: take that long, to be watched"
    )
    add_command(parser)
    add_json(parser)


def run(context: Context) -> int:
    """List the agents; or be one: record or replay the attempt that the environment names, with its exit code."""
    options = context.options
    if options.action == "list":
        return _list(context, look_for_all(os.environ))
    recordings = _recordings(options.recordings)
    if options.action == "record":
        return _record(recordings, context, os.environ)
    from irontree.agents.replay import replay

    return replay(recordings, options.pace, os.environ, context.folder)


def _list(context: Context, programs: Sequence[Program]) -> int:
    context.console.show(
        lambda: {"agents": [_as_json(program) for program in programs]},
        [Table(("AGENT", "VERSION", "ACCESS", "PROGRAM"), tuple(map(_row, programs)))],
    )
    return 0


def _row(program: Program) -> tuple[Cell | str, ...]:
    name = program.preset.name
    if program.path is None:
        return (Cell(name, "faint"), Cell("not installed", "faint"), "", Cell(program.preset.program, "faint"))
    return (Cell(name, "good"), program.version or "unknown", _ACCESS[program.access], program.path)


def _as_json(program: Program) -> dict[str, Any]:
    return {
        "adapter": program.preset.name,
        "program": program.preset.program,
        "path": program.path,
        "version": program.version,
        "access": program.access,
        "log_in": program.preset.log_in or None,
    }


def _recordings(named: str | None) -> Path:
    if named is None:
        raise UsageError("name the folder of recordings: irontree agents record DIR -- COMMAND")
    recordings = Path(named).expanduser()
    if not recordings.is_absolute():
        raise ConfigRefused(
            f"{recordings} would be looked for in the workspace of each attempt",
            remedy="name the folder of recordings from / or ~",
        )
    return recordings


def _record(recordings: Path, context: Context, environment: Mapping[str, str]) -> int:
    from irontree.agents.recording import record
    from irontree.agents.tape import Recording

    if not context.options.command:
        raise UsageError("name the program to record: irontree agents record DIR -- COMMAND")
    task_key, attempt = environment.get("IRONTREE_TASK_KEY"), environment.get("IRONTREE_ATTEMPT", "")
    if not task_key or not attempt.isdecimal():
        raise ConfigRefused(
            "IRONTREE_TASK_KEY and IRONTREE_ATTEMPT say what is recorded; nobody has set them",
            remedy="put this command into agent.command in .mino/config.yml, or set both to record by hand",
        )
    return record(Recording(recordings / task_key, int(attempt)), context.options.command, environment, context.folder)
