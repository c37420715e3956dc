"""`irontree agents list | record DIR -- COMMAND | replay DIR`: coding agents, and their sessions as recordings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from irontree.cli.context import Context
from irontree.cli.parser import UsageError, add_command
from irontree.errors import ConfigRefused

_EPILOG = """\
irontree agents record ~/recordings -- claude -p --permission-mode acceptEdits
irontree agents replay ~/recordings

record and replay are for agent.command in .mino/config.yml: docs/agents.md
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take what to do, the folder of recordings, and the program that is recorded."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("action", choices=("record", "replay"), help="what to do")
    parser.add_argument("recordings", metavar="DIR", help="where recordings are, as an absolute path")
    parser.add_argument(
        "--pace", type=float, default=0.0, metavar="SECONDS", help="replay: take that long, to be watched"
    )
    add_command(parser)


def run(context: Context) -> int:
    """Be the agent: record or replay the attempt that the environment names; the program's exit code."""
    from irontree.agents.replay import replay

    recordings = Path(context.options.recordings).expanduser()
    if not recordings.is_absolute():
        raise ConfigRefused(
            f"{recordings} would be looked for in the workspace of each attempt",
            remedy="name the folder of recordings from / or ~",
        )
    if context.options.action == "replay":
        return replay(recordings, context.options.pace, os.environ, context.folder)
    return _record(recordings, context, os.environ)


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
