"""What agents are asked: the prompt of an attempt, and questions about a commit that are answered in a file.

It works in a workspace where nothing else happens, so what it leaves there reaches no attempt and no check. The answer
file is in that workspace too, because an agent may be kept from writing anywhere else.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from irontree.app import App
from irontree.domain.attempt import AttemptEvidence, AttemptOutcome, how_it_ended, stopped_by
from irontree.domain.budgets import Allowance
from irontree.domain.checks import commands_for
from irontree.domain.plan import AgentSpec, Plan, PlanNode, WorkspacePolicy
from irontree.domain.state import TaskState
from irontree.errors import Cancelled
from irontree.ports import AgentResult, AgentTask
from irontree.services.views.failures import failure_of
from irontree.services.views.values import PromptView, QuoteView, ReviewPromptView

# --- An agent is asked a question about a commit, and answers in a file: reviewers and planners


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What is asked of which agent, at which commit. `prompt` is told where the answer goes; `limit` is in bytes."""

    name: str
    agent: AgentSpec
    workspace: WorkspacePolicy
    sha: str
    prompt: Callable[[Path], str]
    answer_file: str
    variable: str
    """Names the answer file in the agent's environment."""
    transcript: Path
    limit: int
    task_key: str = ""
    issue_number: int = 0
    attempt: int = 1
    allowance: Allowance = field(default_factory=Allowance)
    """What is left for it of the budgets."""


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


def ask_agent(app: App, request: AgentRequest) -> AgentAnswer:
    """Have the agent answer once. Raises Cancelled when asked to stop, EnvironmentRefused without a workspace."""
    workspace = app.repository.workspace("review", request.workspace)
    workspace.prepare(request.sha, cancel=app.cancel)
    path = workspace.path / request.answer_file
    _remove(path)  # git may ignore it, and then it is still that of somebody before
    spec, allowance = request.agent, request.allowance
    spec = spec.model_copy(update={"wall_seconds": allowance.seconds(spec.wall_seconds)})
    result = app.agent(spec).attempt(
        AgentTask(
            issue_number=request.issue_number,
            task_key=request.task_key,
            attempt=request.attempt,
            prompt=request.prompt(path),
            workspace=workspace.path,
            transcript=request.transcript,
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


# --- What a coding agent is told about one attempt


def prompt_for(
    app: App, node: PlanNode, plan: Plan, state: TaskState, present: Collection[str], *, goes_on: bool = False
) -> str:
    """The task, its criteria and checks, and the failure context of the attempt before (protocol, phase 4).

    *present* are the names at the top of the workspace; *goes_on*: what a cut-off attempt had done is there too.
    """
    view = PromptView(
        number=state.issue_number,
        node=node,
        attempt=state.attempt_count,
        attempts=state.total_attempts,
        commands=tuple(check.run for check in commands_for(node, plan.policy, present)),
        failure=failure_of(app, app.log.read(state.issue_number), state),
        continues=state.has_code and not goes_on,
        goes_on=goes_on,
        quotes=QuoteView.of([node]),
    )
    return app.renderer.render("prompts/run.md", prompt=view)


def review_prompt(app: App, node: PlanNode, state: TaskState, verdict_file: Path, problems: tuple[str, ...]) -> str:
    """The change, its criteria, and the form of the answer; *problems* are those of the last one (ruling R18)."""
    view = ReviewPromptView(
        number=state.issue_number,
        node=node,
        base=state.base_sha or "",
        anchor=state.commit or "",
        verdict_file=str(verdict_file),
        problems=problems,
        quotes=QuoteView.of([node]),
    )
    return app.renderer.render("prompts/review.md", review=view)
