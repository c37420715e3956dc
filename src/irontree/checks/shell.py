"""Run the repository's own checks by the shell in a workspace, and read the versions of the tools they call.

Only well-known tools are asked, by options known to be harmless: an unknown program may do anything with `--version`.

An editable install in the Python that the checks find leads every import back to the user's checkout, so the checks
would test the wrong code. Only places that are cheap to read are searched for such installs.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from irontree.checks.browser import LOOK_SECONDS, look_command, look_needs
from irontree.checks.looking import look_at
from irontree.domain.checks import CANNOT_TELL, CheckEnd, CheckResult, result_of
from irontree.domain.places import OPEN, PlaceSpec
from irontree.domain.plan import Shell
from irontree.domain.text import shown_name
from irontree.domain.workflow.step import Artifact, Browser, Command
from irontree.domain.workflow.verify import Outcome
from irontree.files import ScratchFolder, read_beneath, read_bytes
from irontree.ports import Cancellation, Progress
from irontree.processes.children import ChildProcesses, Unrecorded
from irontree.processes.containers import scrubbed_environment
from irontree.processes.family import SHELL, ProcessLimits

# For tools that do not know `--version`.
_ASKED: Final[dict[str, tuple[str, ...]]] = {"go": ("go", "version"), "java": ("java", "-version")}
_KNOWN: Final = frozenset(
    {
        *("git", "python", "python3", "pytest", "uv", "tox", "nox", "ruff", "mypy", "poetry", "hatch", "pre-commit"),
        *("node", "npm", "pnpm", "yarn", "bun", "deno", "tsc", "eslint", "cargo", "rustc", "go", "make", "just"),
        *("cmake", "ctest", "ninja", "java", "mvn", "ruby", "bundle", "php", "composer", "dotnet", "swift", "docker"),
    }
)
_BEHIND: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "tsc", "eslint"), ("node",)),
    **dict.fromkeys(("make", "just", "pytest", "tox", "nox", "mypy", "pre-commit"), ("python3",)),
    "cargo": ("rustc",),
}
"""Further tools that matter: those that a called tool runs, or is likely to run."""
_CALLED = re.compile(r"(?:^|&&|\|\||[;|&(\n])\s*(?:\w+=\S*\s+)*(?:(?:exec|time|env|sudo)\s+)*([\w./+-]+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")

Ask = Callable[[tuple[str, ...]], str]
"""A function that gives the output of a command; empty if it fails."""


def tools_called(commands: Iterable[str]) -> tuple[str, ...]:
    """The well-known tools that shell commands call, in order, each followed by its further tools."""
    called = (match[1].rpartition("/")[2] for command in commands for match in _CALLED.finditer(command))
    known = (name for name in called if name in _KNOWN)
    return tuple(dict.fromkeys(tool for name in known for tool in (name, *_BEHIND.get(name, ()))))


def read_versions(tools: Iterable[str], has: Callable[[str], bool], ask: Ask) -> dict[str, str]:
    """The system, and the version of each tool that may be there (*has*) and reports one."""
    return {"system": f"{platform.system()} {platform.machine()}", **dict(_versions(tools, has, ask))}


def _versions(tools: Iterable[str], has: Callable[[str], bool], ask: Ask) -> Iterator[tuple[str, str]]:
    for tool in tools:
        if has(tool) and (number := _NUMBER.search(ask(_ASKED.get(tool, (tool, "--version"))))):
            yield ("python" if tool == "python3" else tool), number[0]


# --- Whether the checks would test the user's checkout instead of the workspace (R4)


_SEARCH_PATHS = ("PYTHONPATH", "NODE_PATH", "RUBYLIB", "CLASSPATH")
_SITES = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "lib/python3/dist-packages")
_OWN_ENVIRONMENTS = (".venv", "venv")
_RECORD_BYTES: Final = 64 * 1024


def foreign_sources(workspace: Path, user_root: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """One sentence per sign found; *environment* is that of the checks."""
    signs = [*_by_variables(user_root, environment)]
    for site in _sites(workspace, environment):
        signs += _by_editable_installs(site, user_root)
    return tuple(dict.fromkeys(signs))


def _by_variables(user_root: Path, environment: Mapping[str, str]) -> Iterator[str]:
    for name in _SEARCH_PATHS:
        for entry in filter(None, environment.get(name, "").split(os.pathsep)):
            if _is_inside(Path(entry), user_root):
                yield f"{name} leads to your checkout ({entry}): the checks may test it instead of the workspace"


def _sites(workspace: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """The site-packages of the Python that the checks find, and of virtual environments in the workspace."""
    found = (shutil.which(name, path=environment.get("PATH", os.defpath)) for name in ("python", "python3"))
    prefixes = [Path(python).parent.parent for python in found if python]
    prefixes += [workspace / name for name in _OWN_ENVIRONMENTS]
    for prefix in dict.fromkeys(prefixes):
        for pattern in _SITES:
            yield from sorted(prefix.glob(pattern))


def _by_editable_installs(site: Path, user_root: Path) -> Iterator[str]:
    """Find editable installs by the installer's record (PEP 610), and by path files for tools that leave none."""
    for record in sorted(site.glob("*.dist-info/direct_url.json")):
        if _is_inside(_editable_target(_said(record.parent, record.name)), user_root):
            package = shown_name(record.parent.name.partition("-")[0])
            yield f"{package} is installed from your checkout (editable, in {site}): the checks may test it instead"
    for path_file in sorted(site.glob("*.pth")):
        lines = _said(site, path_file.name).splitlines()
        if any(_is_inside(Path(line.strip()), user_root) for line in lines if line.startswith("/")):
            name = shown_name(str(path_file))
            yield f"{name} leads to your checkout: the checks may test it instead of the workspace"


def _said(folder: Path, name: str) -> str:
    """The text of that file; it may be a check that left it, so nothing is waited for, and nothing followed."""
    return (read_beneath(folder, name, _RECORD_BYTES) or b"").decode("utf-8", "replace")


def _editable_target(record: str) -> Path | None:
    try:
        content = json.loads(record)
        editable = content["dir_info"]["editable"]
        return Path(unquote(urlsplit(str(content["url"])).path)) if editable else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _is_inside(path: Path | None, folder: Path) -> bool:
    try:
        return path is not None and path.is_absolute() and path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, or no name at all
        return False


# --- Running the checks


_VERSION_SECONDS = 10
_BY_BASH: Final = 'command -v bash >/dev/null 2>&1 && exec bash -c "$1"; exec "$0" -c "$1"'


class ShellCheckRunner:
    """The port `CheckRunner` for shell commands; *environment* is the caller's."""

    def __init__(self, children: ChildProcesses, environment: Mapping[str, str], *, place: PlaceSpec = OPEN) -> None:
        self._children = children
        self._environment = environment
        self._place = place

    def within(self, place: PlaceSpec) -> ShellCheckRunner:
        """The same runner in such a place."""
        return ShellCheckRunner(self._children.within(place), self._environment, place=place)

    def run(
        self,
        check: Shell | Command,
        *,
        workspace: Path,
        seconds: int,
        variables: Mapping[str, str],
        cancel: Cancellation,
        progress: Progress,
    ) -> CheckResult:
        """Run the command by `sh -c` to its end or limit; all its processes are gone when this returns.

        That of a workflow file is run by bash, where there is one in that place.

        Its environment is scrubbed (no PYTHONPATH, no GIT_*), and has *variables* and what keeps side effects of
        one workspace apart from another's.
        """
        done = self._children.run(
            [SHELL, "-c", *((_BY_BASH, SHELL) if isinstance(check, Command) else ()), check.run],
            cwd=workspace,
            environment={**self._scrubbed(), **variables, **_apart(workspace)},
            limits=ProcessLimits(seconds, cancel=cancel),
            on_line=_listener(progress),
        )
        return result_of(
            check,
            "timeout" if done.ended == "stalled" else done.ended,
            done.exit_code,
            seconds=done.seconds,
            output=done.output,
            output_digest=done.output_digest,
        )

    def look_at(self, check: Artifact, *, workspace: Path) -> CheckResult:
        """Whether the workspace has what the check asserts, in upstream's words; nothing is run or followed."""
        return look_at(check, workspace)

    def show(
        self, check: Browser, *, workspace: Path, shot: Path, cancel: Cancellation, progress: Progress
    ) -> CheckResult | None:
        """What a person is shown of the page, gathered where checks run; in a container there is nothing of ours."""
        command = () if self._place.container else look_command(check.url, shot)
        if not command:
            return None
        place = self._place.model_copy(update={"read": (*self._place.read, *look_needs())})
        done = self._children.within(place).run(
            command,
            cwd=workspace,
            environment=self._scrubbed(),
            limits=ProcessLimits(LOOK_SECONDS, cancel=cancel),
            on_line=_listener(progress),
        )
        failed = "" if done.ok else f"\n{check.url} could not be looked at ({done.ended})"
        ended: CheckEnd = "cancelled" if done.ended == "cancelled" else "exited"
        output = f"{done.output.rstrip()}{failed}".strip()
        return result_of(check, ended, CANNOT_TELL, seconds=done.seconds, output=output)

    def versions(self, commands: Sequence[str], *, workspace: Path) -> Mapping[str, str]:
        """The versions of the system, git, Python and the well-known tools that *commands* call, as found there."""
        environment = self._scrubbed()

        def ask(words: tuple[str, ...]) -> str:
            done = self._children.run(
                words, cwd=workspace, environment=environment, limits=ProcessLimits(_VERSION_SECONDS)
            )
            return done.output if done.ok else ""

        path = environment.get("PATH")
        has = (lambda _: True) if self._place.container else (lambda tool: shutil.which(tool, path=path) is not None)
        return read_versions(tools_called(commands), has, ask)

    def foreign_sources(self, workspace: Path, user_root: Path) -> tuple[str, ...]:
        """Signs that checks would test the user's checkout instead of *workspace*, in words (R4)."""
        return foreign_sources(workspace, user_root, self._scrubbed())

    def _scrubbed(self) -> dict[str, str]:
        return scrubbed_environment(self._environment)


def _apart(workspace: Path) -> dict[str, str]:
    """Variables by which checks can keep containers, ports and databases of two workspaces apart."""
    digest = hashlib.sha256(str(workspace).encode()).hexdigest()[:12]
    return {"IRONTREE_WORKSPACE": str(workspace), "COMPOSE_PROJECT_NAME": f"irontree-{digest}"}


def _listener(progress: Progress) -> Callable[[bytes], None]:
    def hear(line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()
        if text:
            progress.note(text)

    return hear


# --- A command whose stdout and stderr are kept apart


_APART_SECONDS: Final = 24 * 60 * 60
_APART_BYTES: Final = 256 * 1024
_APART: Final = 'exec "$1" -c "$2" >"$3" 2>"$4"'


def run_apart(command: str, folder: Path, environment: Mapping[str, str]) -> Outcome:
    """Run the check of a step in *folder* as `hotl-rt` does: by bash where there is one, in the caller's environment.

    Each stream goes to a file of its own, so that a daemon which keeps one open is not waited for; it is left running.
    """
    shell = shutil.which("bash", path=environment.get("PATH", os.defpath)) or SHELL
    with ScratchFolder("check") as scratch:
        streams = [scratch.path / name for name in ("stdout", "stderr")]
        done = ChildProcesses(Unrecorded()).run(
            [SHELL, "-c", _APART, SHELL, shell, command, *map(str, streams)],
            cwd=folder,
            environment=environment,
            limits=ProcessLimits(_APART_SECONDS),
            leave_daemons=True,
        )
        stdout, stderr = ((read_bytes(path, _APART_BYTES) or b"").decode("utf-8", "replace") for path in streams)
    if done.ended != "exited":
        stderr += f"\nthe command did not end: {done.ended}"
    return Outcome("pass" if done.ok else "fail", stdout, stderr)
