"""Any program as a coding agent: prompt on stdin and as a file, work in the current folder.

What the program gets, beside a scrubbed environment and the variables that the plan allows by name:

=========================  ==========================================================================
``IRONTREE_PROMPT_FILE``   the prompt as a file, outside the workspace; also ``{prompt_file}`` in the command
``IRONTREE_SUMMARY_FILE``  where it may leave its last words
``IRONTREE_WORKSPACE``     the workspace, its current folder
``IRONTREE_TASK_KEY``      also ``{task_key}``
``IRONTREE_ISSUE``         also ``{issue}``
``IRONTREE_ATTEMPT``       also ``{attempt}``
=========================  ==========================================================================

Its exit code is noted and decides nothing: agent programs exit 0 on a refused log-in (product claim 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from irontree.agents.transcript import Surroundings, Transcript, filled
from irontree.domain.attempt import Claim
from irontree.domain.plan import AgentSpec
from irontree.errors import ConfigRefused
from irontree.ports import AgentResult, AgentTask, Cancellation, Progress
from irontree.processes import Children, Completed, Limits

TAIL_LINES = 20
SUMMARY_CHARACTERS = 500
SUMMARY_BYTES = 64 * 1024


class CommandAgent:
    """The port `CodingAgent` for a command line."""

    def __init__(self, spec: AgentSpec, children: Children, environment: Mapping[str, str]) -> None:
        """Run the words of `spec.command`; *environment* is the caller's. Raises ConfigRefused if there are none."""
        if not spec.command:
            raise ConfigRefused("agent.command is empty", remedy="name a program in agent.command in .mino/config.yml")
        self._spec = spec
        self._children = children
        self._surroundings = Surroundings(spec, environment)

    def attempt(self, task: AgentTask, *, cancel: Cancellation, progress: Progress) -> AgentResult:
        """Run the program once; all its processes are gone when this returns. Its transcript is in `task.transcript`.

        Files there: `prompt.md`, `output.log`, `result.json`, and `summary.txt` if the program wrote one.
        """
        transcript = Transcript(task)
        with transcript.open_output() as log:
            done = self._children.run(
                filled(self._spec.command, task, transcript.prompt_file),
                cwd=task.workspace,
                environment=self._surroundings.variables(task, transcript),
                limits=Limits(self._spec.wall_seconds, self._spec.stall_seconds, cancel),
                stdin=task.prompt.encode(),
                on_line=self._surroundings.listener(log, progress),
            )
        result = self._observed(done, transcript)
        transcript.conclude(self._spec.command, result)
        return result

    def _observed(self, done: Completed, transcript: Transcript) -> AgentResult:
        hidden = self._surroundings.without_secrets
        output = hidden(done.output.encode()).decode()
        words = hidden(_last_words(transcript.summary_file)).decode("utf-8", "replace")
        words = words.strip()[:SUMMARY_CHARACTERS]
        return AgentResult(
            ended=done.ended,
            exit_code=done.exit_code,
            seconds=round(done.seconds, 3),
            output_tail="\n".join(output.splitlines()[-TAIL_LINES:]),
            claim=Claim(None, "summary", words) if words else None,
        )


def _last_words(path: Path) -> bytes:
    """What the program left as its summary: the beginning of a plain file, nothing of a pipe or a device."""
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(SUMMARY_BYTES)
    return b""
