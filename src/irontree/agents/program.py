"""A program as a coding agent: how it is called, watched, read and stopped, whichever program it is.

What it gets, beside a scrubbed environment and the variables that the plan allows by name:

=========================  ==========================================================================
``IRONTREE_PROMPT_FILE``   the prompt as a file, outside the workspace; also ``{prompt_file}`` in the command
``IRONTREE_SUMMARY_FILE``  where it may leave its last words
``IRONTREE_WORKSPACE``     the workspace, its current folder
``IRONTREE_TASK_KEY``      also ``{task_key}``
``IRONTREE_ISSUE``         also ``{issue}``
``IRONTREE_ATTEMPT``       also ``{attempt}``
=========================  ==========================================================================

Its exit code is noted and decides nothing: agent programs exit 0 on a refused log-in (docs/explanation/done.md).
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from irontree.agents.presets import PRESETS
from irontree.agents.presets.preset import UNKNOWN, Preset
from irontree.agents.reading import AgentReading, UsageMeter
from irontree.agents.registry import as_called
from irontree.agents.transcript import OutputReader, Surroundings, Transcript, begin, filled
from irontree.app import SystemClock
from irontree.domain.agents import AgentSpec
from irontree.domain.attempt import Claim
from irontree.errors import ConfigRefused, EnvironmentRefused
from irontree.ports import AgentResult, AgentTask, Cancellation, Progress
from irontree.processes.children import ChildProcesses, Completed
from irontree.processes.containers import scrubbed_environment
from irontree.processes.family import ProcessLimits
from irontree.processes.running import capture

SUMMARY_CHARACTERS = 500
STATUS_SECONDS: Final = 20


class ProgramAgent:
    """The port `CodingAgent` for a program that takes the prompt on stdin or as a file, and runs to its end."""

    def __init__(
        self,
        spec: AgentSpec,
        children: ChildProcesses,
        environment: Mapping[str, str],
        preset: Preset,
        command: tuple[str, ...],
    ) -> None:
        """Run *command*, and understand it as *preset* says; *environment* is the caller's."""
        self._spec = spec
        self._children = children
        self._surroundings = Surroundings(spec, environment, preset.settings)
        self._preset = preset
        self._command = command

    def no_access(self) -> str | None:
        """Nothing: any program can be behind a command."""
        return None

    def attempt(self, task: AgentTask, *, cancel: Cancellation, progress: Progress) -> AgentResult:
        """Run the program once; all its processes are gone when this returns. Its transcript is in `task.transcript`.

        Files there: `prompt.md`, `output.log`, `result.json`, and `summary.txt` if the program wrote one.
        """
        with begin(task) as transcript:
            with transcript.open_output() as log:
                output = OutputReader(log, progress, self._preset.tell, self._surroundings, self._preset.add)
                meter = UsageMeter(task.allowance, cancel, lambda: output.usage)
                done = self._children.within(self._spec.place, transcript.shared).run(
                    filled(self._command, task, transcript.prompt_file),
                    cwd=task.workspace,
                    environment=self._surroundings.variables(task, transcript),
                    limits=ProcessLimits(self._spec.wall_seconds, self._spec.stall_seconds, meter),
                    stdin=task.prompt.encode(),
                    on_line=output.hear,
                )
                reading = self._preset.read(output.lines(), SystemClock().now())
                if done.ok and (trouble := self._sandbox_trouble(output.lines())):
                    reading = replace(reading, failure="own_sandbox", claim=Claim(False, "own sandbox", trouble))
            result = self._observed(done, transcript, reading, output.told)
            result = replace(result, ended="over_budget") if meter.exceeded and result.ended == "cancelled" else result
            transcript.conclude(self._command, result)
            return result

    def _sandbox_trouble(self, lines: Iterable[str]) -> str:
        """What its own sandbox says that does not work here, if nothing that it did shows that it does."""
        check = self._preset.sandbox_check
        if check is None or self._spec.place.confined or any(sign in line for line in lines for sign in check.works):
            return ""
        program = self._spec.command or (self._preset.program,)
        environment = self._surroundings.scrubbed()
        try:
            done = capture((*program, *check.words), cwd=Path("/"), environment=environment, seconds=STATUS_SECONDS)
        except EnvironmentRefused:
            return ""
        said = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()
        return (said or [f"exit code {done.exit_code}"])[-1] if done.exit_code else ""

    def _observed(
        self, done: Completed, transcript: Transcript, reading: AgentReading, told: Iterable[str]
    ) -> AgentResult:
        said = "\n".join(told) if done.ended != "not_started" else done.output
        words = transcript.last_words(self._surroundings.without_secrets).decode("utf-8", "replace").strip()
        claim = reading.claim or (Claim(None, "summary", words) if words else None)
        return AgentResult(
            ended=done.ended,
            exit_code=done.exit_code,
            seconds=round(done.seconds, 3),
            output_tail=said,
            claim=replace(claim, words=claim.words.strip()[:SUMMARY_CHARACTERS]) if claim else None,
            failure=reading.failure or self._preset.exits.get(done.exit_code or 0),
            retry_at=reading.retry_at,
            usage=reading.usage,
            session=reading.session,
            denied=reading.denied,
        )


# --- Any program as a coding agent


class CommandAgent(ProgramAgent):
    """The port `CodingAgent` for a command line of which nothing is known."""

    def __init__(self, spec: AgentSpec, children: ChildProcesses, environment: Mapping[str, str]) -> None:
        """Run the words of `spec.command`; *environment* is the caller's. Raises ConfigRefused if there are none."""
        if not spec.command:
            raise ConfigRefused("agent.command is empty", remedy="name a program in agent.command in .mino/config.yml")
        super().__init__(spec, children, environment, UNKNOWN, spec.command)


# --- An agent program that is known here: the adapter named after it


class KnownAgent(ProgramAgent):
    """The port `CodingAgent` for the preset that `spec.adapter` names."""

    def __init__(self, spec: AgentSpec, children: ChildProcesses, environment: Mapping[str, str]) -> None:
        """Call it as it was approved, and read it as the preset says; *environment* is the caller's."""
        super().__init__(spec, children, environment, PRESETS[spec.adapter], spec.called or as_called(spec).called)
        self._caller = environment

    def no_access(self) -> str | None:
        """Ask the program, if there is neither a key nor a log-in to be seen: some keep theirs out of sight.

        What this machine knows says nothing of a container.
        """
        spec, preset, caller = self._spec, self._preset, self._caller
        status, home = preset.status, Path(caller.get("HOME", "~")).expanduser()
        if status is None or spec.place.container:
            return None
        if preset.signed_in_here(caller, spec.environment) or status.elsewhere(home, spec.arguments):
            return None
        program = self._found()
        if program is None:
            return None
        environment = {**scrubbed_environment(caller, spec.environment), **preset.settings}
        try:
            said = capture([program, *status.words], cwd=Path("/"), environment=environment, seconds=STATUS_SECONDS)
        except EnvironmentRefused:  # it does not answer: the attempt will tell
            return None
        denied = status.denies((said.stdout + said.stderr).decode("utf-8", "replace"))
        return f"`{shlex.join((preset.program, *status.words))}` says that nobody is logged in" if denied else None

    def _found(self) -> str | None:
        """The program, where it is one word: more of them may record a session, or replay one."""
        words = self._spec.command or (self._preset.program,)
        return shutil.which(words[0], path=self._caller.get("PATH", os.defpath)) if len(words) == 1 else None
