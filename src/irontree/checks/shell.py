"""The repository's own checks, run by the shell in a workspace."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from irontree.checks.foreign import foreign_sources
from irontree.checks.versions import read_versions, tools_called
from irontree.domain.container import ContainerSpec
from irontree.domain.results import CheckResult, truncate
from irontree.ports import Cancellation, Progress
from irontree.processes import SHELL, Children, Limits, scrubbed_environment

_VERSION_SECONDS = 10


class ShellCheckRunner:
    """The port `CheckRunner` for shell commands; *environment* is the caller's."""

    def __init__(self, children: Children, environment: Mapping[str, str], *, contained: bool = False) -> None:
        self._children = children
        self._environment = environment
        self._contained = contained

    def within(self, container: ContainerSpec | None) -> ShellCheckRunner:
        """The same, in such a container."""
        return ShellCheckRunner(self._children.within(container), self._environment, contained=container is not None)

    def run(
        self,
        name: str,
        command: str,
        *,
        workspace: Path,
        seconds: int,
        variables: Mapping[str, str],
        cancel: Cancellation,
        progress: Progress,
    ) -> CheckResult:
        """Run *command* by `sh -c` to its end or limit; all its processes are gone when this returns.

        Its environment is scrubbed (no PYTHONPATH, no GIT_*), and has *variables* and what keeps side effects of
        one workspace apart from another's.
        """
        done = self._children.run(
            [SHELL, "-c", command],
            cwd=workspace,
            environment={**self._scrubbed(), **variables, **_apart(workspace)},
            limits=Limits(seconds, cancel=cancel),
            on_line=_listener(progress),
        )
        return CheckResult(
            name=name,
            command=command,
            ended="timeout" if done.ended == "stalled" else done.ended,
            exit_code=done.exit_code,
            seconds=round(done.seconds, 3),
            output=truncate(done.output),
            output_digest=done.output_digest,
        )

    def versions(self, commands: Sequence[str], *, workspace: Path) -> Mapping[str, str]:
        """The versions of the system, git, Python and the well-known tools that *commands* call, as found there."""
        environment = self._scrubbed()

        def ask(words: tuple[str, ...]) -> str:
            done = self._children.run(words, cwd=workspace, environment=environment, limits=Limits(_VERSION_SECONDS))
            return done.output if done.ok else ""

        path = environment.get("PATH")
        has = (lambda _: True) if self._contained else (lambda tool: shutil.which(tool, path=path) is not None)
        return read_versions(tools_called(commands), has, ask)

    def foreign_sources(self, workspace: Path, user_root: Path) -> tuple[str, ...]:
        """Signs that checks would test the user's checkout instead of *workspace*, in words (ruling R4)."""
        return foreign_sources(workspace, user_root, self._scrubbed())

    def _scrubbed(self) -> dict[str, str]:
        return scrubbed_environment(self._environment)


def _apart(workspace: Path) -> dict[str, str]:
    """Names by which checks keep containers, ports and databases of two workspaces apart."""
    digest = hashlib.sha256(str(workspace).encode()).hexdigest()[:12]
    return {"IRONTREE_WORKSPACE": str(workspace), "COMPOSE_PROJECT_NAME": f"irontree-{digest}"}


def _listener(progress: Progress) -> Callable[[bytes], None]:
    def hear(line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()
        if text:
            progress.note(text)

    return hear
