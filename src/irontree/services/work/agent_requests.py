"""What agents are asked: the prompt of an attempt, and questions about a commit that are answered in a file.

It works in a workspace where nothing else happens, so what it leaves there reaches no attempt and no check. The answer
file is in that workspace too, because an agent may be kept from writing anywhere else.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from irontree.app import App
from irontree.domain.attempt import AttemptEvidence, AttemptOutcome, Usage, how_it_ended, stopped_by
from irontree.domain.budgets import Allowance
from irontree.domain.plan import AgentSpec, WorkspacePolicy
from irontree.domain.review import InvalidAnswer
from irontree.errors import Cancelled
from irontree.ports import AgentResult, AgentTask

ROUNDS: Final = 3
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What is asked of which agent, at which commit; `limit` is the size of an answer in bytes."""

    name: str
    note: str
    """What a person who watches is told."""
    agent: AgentSpec
    workspace: WorkspacePolicy
    sha: str
    prompt: Callable[[Path, tuple[str, ...]], str]
    """Is told where the answer goes, and what was wrong with the one before."""
    answer_file: str
    variable: str
    """Names the answer file in the agent's environment."""
    transcripts: Path
    """A folder; each round has its own in it."""
    limit: int
    task_key: str = ""
    issue_number: int = 0
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What came back: the file's content, or None and how the agent ended."""

    content: bytes | None
    result: AgentResult

    @property
    def stopped(self) -> AttemptOutcome | None:
        """What kept the agent from answering at all; None if it could have."""
        return stopped_by(self._seen)

    @property
    def ended(self) -> str:
        """How it ended, in words."""
        return how_it_ended(self._seen)

    @property
    def _seen(self) -> AttemptEvidence:
        result = self.result
        return AttemptEvidence(result.ended, result.exit_code, result.claim, result.failure)


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """What came of asking: what was read, or what kept the agent from answering, or what is wrong with its last answer.

    *seconds* and *usage* are those of all rounds, *last* is the last one's result.
    """

    found: T | AttemptOutcome | InvalidAnswer
    last: AgentResult
    rounds: int
    seconds: float
    usage: Usage


def ask_agent(
    app: App, request: AgentRequest, read: Callable[[AgentAnswer], T | InvalidAnswer], allow: Callable[[], Allowance]
) -> Asked[T]:
    """Have the agent answer until the answer can be read: three times at most, told what was wrong with the last.

    *allow* says before each round what is left of the budgets, and what it raises ends the asking. Raises Cancelled
    when asked to stop, EnvironmentRefused without a workspace.
    """
    problems: tuple[str, ...] = ()
    seconds, usage, number = 0.0, Usage(0, 0, 0.0), 0
    while True:
        number += 1
        answer = _ask_once(app, request, allow(), number, problems)
        seconds, usage = seconds + answer.result.seconds, usage.plus(answer.result.usage)
        found = answer.stopped or read(answer)
        if not isinstance(found, InvalidAnswer) or number == ROUNDS:
            return Asked(found, answer.result, number, seconds, usage)
        problems = found.problems


def _ask_once(
    app: App, request: AgentRequest, allowance: Allowance, number: int, problems: tuple[str, ...]
) -> AgentAnswer:
    app.progress.note(request.note)
    workspace = app.repository.workspace("review", request.workspace)
    workspace.prepare(request.sha, cancel=app.cancel)
    path = workspace.path / request.answer_file
    _remove(path)  # git may ignore it, and then that of an earlier request is still there
    limited = request.agent.model_copy(update={"wall_seconds": allowance.seconds(request.agent.wall_seconds)})
    result = app.agent(limited).attempt(
        AgentTask(
            issue_number=request.issue_number,
            task_key=request.task_key,
            attempt=request.attempt,
            prompt=request.prompt(path, problems),
            workspace=workspace.path,
            transcript=request.transcripts / str(number),
            variables={request.variable: str(path)},
            allowance=allowance,
        ),
        cancel=app.cancel,
        progress=app.progress,
    )
    if result.ended == "cancelled":
        raise Cancelled(f"{request.name} was stopped")
    return AgentAnswer(_read(path, request.limit), result)


def _read(path: Path, limit: int) -> bytes | None:
    """A plain file of at most *limit* bytes; None for a link, a pipe, or too much."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > limit:
            return None
        return path.read_bytes()
    except OSError:
        return None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
