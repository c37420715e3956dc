"""A planner: the coding agent turns a free-form text into a requirement document (protocol, phase 1).

Its draft is treated like a person's: the same reader reads it, and it is shown and approved before anything in it is
executed. The agent works in a private copy of the repository, and its changes there are discarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from irontree.app import App
from irontree.domain.attempt import AttemptOutcome
from irontree.domain.plan import ExecutionPolicy
from irontree.domain.review import InvalidAnswer
from irontree.domain.spec import MAX_BYTES, Requirements, read_requirements
from irontree.domain.task_types import FEATURE
from irontree.errors import EnvironmentRefused, RequirementsRefused
from irontree.services.loops.funds import require_funds_to_plan
from irontree.services.record import planning_folder, read_world
from irontree.services.work.agent_requests import AgentAnswer, AgentRequest, ask_agent

DRAFT_FILE: Final = ".irontree-draft.md"


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """A document that can be approved, as the planner wrote it, and the number of rounds that it took."""

    requirements: Requirements
    rounds: int


def plan_document(app: App, text: str, name: str, example: str) -> PlannedDocument:
    """Have an agent turn *text*, known to users as *name*, into a requirement document; *example* shows the format.

    An unreadable answer is sent back with its problems, for three rounds in all. The caller holds the driver lock and
    has settled interrupted attempts. Raises RequirementsRefused with the problems of the last answer, NotEligible if no
    budget is left, ConfigRefused, EnvironmentRefused, Cancelled.
    """
    policy = app.policy(None)
    world = read_world(app)
    base, known = app.repository.base(policy.publish), world.known_issues
    folder = planning_folder(app)
    asked = ask_agent(
        app,
        _agent_request(app, policy, base, folder, (text, example)),
        lambda answer: _read(answer, name, known),
        lambda: require_funds_to_plan(app, world, policy.budgets),
    )
    if isinstance(asked.found, Requirements):
        return PlannedDocument(asked.found, asked.rounds)
    if isinstance(asked.found, AttemptOutcome):
        raise EnvironmentRefused(f"the agent could not plan: {asked.found.reason}", remedy="plan again later")
    raise RequirementsRefused(
        asked.found.problems,
        remedy=f"look at {folder}, say more in {name}, or write the document yourself: irontree example",
    )


def _agent_request(
    app: App, policy: ExecutionPolicy, base: str, transcripts: Path, told: tuple[str, str]
) -> AgentRequest:
    text, example = told
    checks = tuple(check.name for check in policy.checks)
    return AgentRequest(
        name="planning",
        note="the agent plans",
        agent=policy.author_for(FEATURE.name),
        workspace=policy.workspace,
        sha=base,
        published=base,
        prompt=lambda path, problems: app.renderer.render(
            "prompts/plan.md", text=text, example=example, checks=checks, draft_file=str(path), problems=problems
        ),
        answer_file=DRAFT_FILE,
        variable="IRONTREE_DRAFT_FILE",
        transcripts=transcripts,
        limit=MAX_BYTES,
        task_key="plan",
    )


def _read(answer: AgentAnswer, name: str, known: Mapping[int, str]) -> Requirements | InvalidAnswer:
    """The document in the draft file, or why there is none."""
    if answer.content is None:
        return InvalidAnswer((f"no document was written to {DRAFT_FILE}: the agent {answer.ended}",))
    try:
        return read_requirements(answer.content, name, known_issues=known)
    except RequirementsRefused as refused:
        return InvalidAnswer(tuple(refused.problems))
