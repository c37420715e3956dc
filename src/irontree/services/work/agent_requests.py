"""Requests to agents about a commit, answered in a file.

The agent works in a workspace of its own, so nothing that it leaves there reaches an attempt or a check. The answer
file is in that workspace too, because an agent may be unable to write anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from irontree.app import App
from irontree.domain.agents import AgentSpec
from irontree.domain.attempt import AttemptEvidence, AttemptOutcome, Usage, how_it_ended, stopped_by
from irontree.domain.budgets import Allowance
from irontree.domain.plan import WorkspacePolicy
from irontree.domain.review import InvalidAnswer
from irontree.domain.spec import MAX_BYTES
from irontree.errors import Cancelled
from irontree.files import disk_errors, read_beneath, remove_beneath
from irontree.ports import AgentResult, AgentTask

ROUNDS: Final = 3
T = TypeVar("T")


class RequestForm(NamedTuple):
    """What all requests of a kind have in common."""

    template: str
    """Of the prompt. It is rendered with `answer_file` and with the `problems` of the previous answer, too."""
    answer: str
    """What the answer is called."""
    agent: str
    """What the agent is called."""
    answer_file: str
    variable: str
    """The environment variable that gives the agent the path of the answer file."""
    limit: int
    """The maximum size of an answer in bytes."""


REVIEW: Final = RequestForm(
    "prompts/review.md", "verdict", "the reviewer", ".irontree-verdict.json", "IRONTREE_VERDICT_FILE", 256 * 1024
)
PLAN: Final = RequestForm(
    "prompts/plan.md", "document", "the agent", ".irontree-draft.md", "IRONTREE_DRAFT_FILE", MAX_BYTES
)
MENTION: Final = RequestForm(
    "prompts/mention.md", "answer", "the agent", ".irontree-answer.md", "IRONTREE_ANSWER_FILE", 64 * 1024
)
DISCUSSION: Final = RequestForm(
    "prompts/discussion.md", "answer", "the agent", ".irontree-answer.json", "IRONTREE_ANSWER_FILE", 64 * 1024
)
ROUND: Final = RequestForm(
    "prompts/round.md", "answer", "the lead", ".irontree-round.json", "IRONTREE_ROUND_FILE", 64 * 1024
)


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What is asked of which agent, at which commit."""

    form: RequestForm
    name: str
    note: str
    """The progress message for a watching user."""
    agent: AgentSpec
    workspace: WorkspacePolicy
    sha: str
    published: str
    """The commit of the target that *sha* stands on."""
    values: Mapping[str, object]
    """Those of the template."""
    transcripts: Path
    """A folder with a subfolder for each round."""
    task_key: str = ""
    issue_number: int = 0
    attempt: int = 1


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
    app: App, request: AgentRequest, read: Callable[[bytes], T | InvalidAnswer], allow: Callable[[], Allowance]
) -> Asked[T]:
    """Ask the agent until *read* can read its answer, at most three times, each time with the problems of the last one.

    *allow* returns before each round what the budgets leave; whatever it raises ends the asking. Raises Cancelled when
    asked to stop, EnvironmentRefused without a workspace.
    """
    problems: tuple[str, ...] = ()
    seconds, usage, number = 0.0, Usage(0, 0, 0.0), 0
    while True:
        number += 1
        content, result = _ask_once(app, request, allow(), number, problems)
        seconds, usage = seconds + result.seconds, usage.plus(result.usage)
        found = _found(request.form, content, result, read)
        if not isinstance(found, InvalidAnswer) or number == ROUNDS:
            return Asked(found, result, number, seconds, usage)
        problems = found.problems


def _found(
    form: RequestForm, content: bytes | None, result: AgentResult, read: Callable[[bytes], T | InvalidAnswer]
) -> T | AttemptOutcome | InvalidAnswer:
    seen = AttemptEvidence(result.ended, result.exit_code, result.claim, result.failure)
    if stopped := stopped_by(seen):
        return stopped
    if content is None:
        where = f"{form.answer_file}, as a plain file of at most {form.limit:,} bytes"
        return InvalidAnswer((f"no {form.answer} was written to {where}: {form.agent} {how_it_ended(seen)}",))
    return read(content)


def _ask_once(
    app: App, request: AgentRequest, allowance: Allowance, number: int, problems: tuple[str, ...]
) -> tuple[bytes | None, AgentResult]:
    """The content of the answer file, or None, and how the agent ended."""
    app.progress.note(request.note)
    form, workspace = request.form, app.repository.workspace("review", request.workspace)
    workspace.prepare(request.sha, published=request.published, cancel=app.cancel)
    path = workspace.path / form.answer_file
    with disk_errors(path):  # git may ignore it, and an earlier request's file is still there then
        remove_beneath(workspace.path, form.answer_file)
    limited = request.agent.model_copy(update={"wall_seconds": allowance.seconds(request.agent.wall_seconds)})
    result = app.agent(limited).attempt(
        AgentTask(
            issue_number=request.issue_number,
            task_key=request.task_key,
            attempt=request.attempt,
            prompt=app.renderer.render(form.template, answer_file=str(path), problems=problems, **request.values),
            workspace=workspace.path,
            transcript=request.transcripts / str(number),
            variables={form.variable: str(path)},
            allowance=allowance,
        ),
        cancel=app.cancel,
        progress=app.progress,
    )
    if result.ended == "cancelled":
        raise Cancelled(f"{request.name} was stopped")
    return _read(workspace.path, form.answer_file, form.limit), result


def _read(folder: Path, name: str, limit: int) -> bytes | None:
    """A regular file of at most *limit* bytes; None for a link in its path, a pipe or a larger file."""
    data = read_beneath(folder, name, limit + 1)
    return None if data is None or len(data) > limit else data
