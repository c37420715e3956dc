"""`irontree agents [list | record DIR -- COMMAND | replay DIR | retry KEY]`: coding agents, recordings, requests."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from irontree.agents.recordings import Recording, record, replay
from irontree.cli.context import Context, Verb
from irontree.cli.output import Cell, Table, TextLines, next_commands
from irontree.cli.parser import JSON, OK, UsageError, argument, command_line
from irontree.errors import ConfigRefused, EnvironmentRefused
from irontree.processes.running import capture

if TYPE_CHECKING:  # `replay` is an agent, which is started for each attempt, and needs to know of no other
    from irontree.agents.presets.preset import Preset
    from irontree.app import App

VERSION_SECONDS: Final = 20
_VERSION: Final = re.compile(r"\d+\.\d+(?:[.+-]\w+)*")


@dataclass(frozen=True, slots=True)
class AgentInstallation:
    """One known agent. *path* is `None` if it is not installed here, *version* if it does not report one."""

    preset: Preset
    path: str | None
    version: str | None
    access: bool | None
    """Whether a key or log-in was found without calling the service; `None` if that cannot be determined."""


def look_for_all(environment: Mapping[str, str]) -> tuple[AgentInstallation, ...]:
    """Every known agent, in the table's order; installed ones are asked for their version."""
    from irontree.agents.presets import PRESETS

    with ThreadPoolExecutor() as pool:  # each takes a second to start
        return tuple(pool.map(lambda preset: _look_for(preset, environment), PRESETS.values()))


def _look_for(preset: Preset, environment: Mapping[str, str]) -> AgentInstallation:
    from irontree.processes.containers import scrubbed_environment

    path = shutil.which(preset.program, path=environment.get("PATH", os.defpath))
    version = _version(path, {**scrubbed_environment(environment), **preset.settings}) if path else None
    return AgentInstallation(preset, path, version, preset.signed_in_here(environment, preset.variables))


def _version(path: str, environment: Mapping[str, str]) -> str | None:
    try:
        said = capture([path, "--version"], cwd=Path("/"), environment=environment, seconds=VERSION_SECONDS).stdout
    except EnvironmentRefused:
        return None
    found = _VERSION.search(said.decode("utf-8", "replace"))
    return found[0] if found else None


def installed(programs: Collection[str]) -> tuple[Preset, ...]:
    """The known agents among *programs* (names on PATH), in the table's order."""
    from irontree.agents.presets import PRESETS

    return tuple(preset for preset in PRESETS.values() if preset.program in programs)


# --- `irontree agents [list | record DIR -- COMMAND | replay DIR | retry KEY]`


_EPILOG: Final = """\
irontree agents record ~/recordings -- claude -p --permission-mode acceptEdits
irontree agents replay ~/recordings
irontree agents retry mention-C123-tester

record and replay are for agent.command in .mino/config.yml: docs/agents.md
"""
_ACCESS: Final[Mapping[bool | None, str]] = {True: "has a key or a log-in", False: "none found", None: "cannot be told"}


def run(context: Context) -> int:
    """List the agents; record or replay the attempt that the environment names; or have a member asked again."""
    options = context.options
    if options.action == "list":
        return _list(context, look_for_all(os.environ))
    if options.action == "retry":
        return _retry(context, context.open())
    recordings = _recordings(options.what)
    if options.action == "record":
        return _record(recordings, context, os.environ)

    return replay(recordings, options.pace, os.environ, context.folder)


def _list(context: Context, programs: Sequence[AgentInstallation]) -> int:
    context.console.show(
        lambda: {"agents": [_as_json(program) for program in programs]},
        [Table(("AGENT", "VERSION", "ACCESS", "PROGRAM"), tuple(map(_row, programs)))],
    )
    return 0


def _row(program: AgentInstallation) -> tuple[Cell | str, ...]:
    name = program.preset.name
    if program.path is None:
        return (Cell(name, "faint"), Cell("not installed", "faint"), "", Cell(program.preset.program, "faint"))
    return (Cell(name, "good"), program.version or "unknown", _ACCESS[program.access], program.path)


def _as_json(program: AgentInstallation) -> dict[str, Any]:
    return {
        "adapter": program.preset.name,
        "program": program.preset.program,
        "path": program.path,
        "version": program.version,
        "access": program.access,
        "log_in": program.preset.log_in or None,
    }


def _retry(context: Context, app: App) -> int:
    """Have what failed asked again, by whatever serves the repository."""
    from irontree.domain.agent_requests import again
    from irontree.services.work.standing import require_request

    if context.options.what is None:
        raise UsageError("name the request: irontree agents retry KEY (`irontree status` lists them)")
    request = again(require_request(app, context.options.what), app.stamp())
    app.agent_requests.save(request)
    app.repository.back_up()
    said = f"{request.member} is asked again below #{request.issue_number} as soon as somebody serves this repository."
    shown = (TextLines((said,)), *next_commands("irontree serve"))
    context.console.show(lambda: {"key": request.key, "state": request.state}, shown)
    return OK


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
    if not context.options.command:
        raise UsageError("name the program to record: irontree agents record DIR -- COMMAND")
    task_key, attempt = environment.get("IRONTREE_TASK_KEY"), environment.get("IRONTREE_ATTEMPT", "")
    if not task_key or not attempt.isdecimal():
        raise ConfigRefused(
            "IRONTREE_TASK_KEY and IRONTREE_ATTEMPT say what is recorded; nobody has set them",
            remedy="put this command into agent.command in .mino/config.yml, or set both to record by hand",
        )
    return record(Recording(recordings / task_key, int(attempt)), context.options.command, environment, context.folder)


VERBS: Final = {
    "agents": Verb(
        run,
        argument(
            "action",
            choices=("list", "record", "replay", "retry"),
            nargs="?",
            default="list",
            help="which agents are known and installed (default); be an agent that records another one, or replays it; "
            "have a member of the team asked again that gave no answer",
        ),
        argument("what", metavar="DIR|KEY", nargs="?", help="where recordings are, as an absolute path; which request"),
        argument("--pace", type=float, default=0.0, metavar="SECONDS", help="replay: take that long, to be watched"),
        command_line,
        JSON,
        epilog=_EPILOG,
    )
}
