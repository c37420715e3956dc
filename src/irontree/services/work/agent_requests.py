"""Requests to agents about a commit, answered in a file.

The agent works in a workspace of its own, so nothing that it leaves there reaches an attempt or a check. The answer
file is in that workspace too, because an agent may be unable to write anywhere else.
"""

from __future__ import annotations

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
from irontree.files import disk_errors, read_beneath, remove_beneath
from irontree.ports import AgentResult, AgentTask

ROUNDS: Final = 3
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What is asked of which agent, at which commit; `limit` is the maximum size of an answer in bytes."""

    name: str
    note: str
    """The progress message for a watching user."""
    agent: AgentSpec
    workspace: WorkspacePolicy
    sha: str
    published: str
    """The commit of the target that *sha* stands on."""
    prompt: Callable[[Path, tuple[str, ...]], str]
    """Makes the prompt from the path of the answer file and the problems of the previous answer."""
    answer_file: str
    variable: str
    """The environment variable that gives the agent the path of the answer file."""
    transcripts: Path
    """A folder with a subfolder for each round."""
    limit: int
    task_key: str = ""
    issue_number: int = 0
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """The content of the answer file, or None, and how the agent ended."""

    content: bytes | None
    result: AgentResult

    @property
    def stopped(self) -> AttemptOutcome | None:
        """What kept the agent from answering at all; None if nothing did."""
        return stopped_by(self._seen)

    @property
    def ended(self) -> str:
        """How the agent ended, as text."""
        return how_it_ended(self._seen)

    @property
    def _seen(self) -> AttemptEvidence:
        result = self.result
        return AttemptEvidence(result.ended, result.exit_code, result.claim, result.failure)


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """The answer as read, or what kept the agent from answering, or the problems of its last answer.

    *seconds* and *usage* cover all rounds; *last* is the result of the last one.
    """

    found: T | AttemptOutcome | InvalidAnswer
    last: AgentResult
    rounds: int
    seconds: float
    usage: Usage


def ask_agent(
    app: App, request: AgentRequest, read: Callable[[AgentAnswer], T | InvalidAnswer], allow: Callable[[], Allowance]
) -> Asked[T]:
    """Ask the agent until its answer can be read, at most three times, each time with the problems of the last answer.

    *allow* returns before each round what the budgets leave; whatever it raises ends the asking. Raises Cancelled when
    asked to stop, EnvironmentRefused without a workspace.
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
    workspace.prepare(request.sha, published=request.published, cancel=app.cancel)
    path = workspace.path / request.answer_file
    with disk_errors(path):  # git may ignore it, and an earlier request's file is still there then
        remove_beneath(workspace.path, request.answer_file)
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
    return AgentAnswer(_read(workspace.path, request.answer_file, request.limit), result)


def _read(folder: Path, name: str, limit: int) -> bytes | None:
    """A regular file of at most *limit* bytes; None for a link in its path, a pipe or a larger file."""
    data = read_beneath(folder, name, limit + 1)
    return None if data is None or len(data) > limit else data
