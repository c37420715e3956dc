"""A planner: the coding agent turns a free-form text into a requirement document (protocol, phase 1).

Its draft is treated like a person's: the same reader reads it, and it is shown and approved before anything in it is
executed. The agent works in a private copy of the repository, and its changes there are discarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from irontree.app import App
from irontree.domain.attempt import AttemptOutcome
from irontree.domain.plan import ExecutionPolicy
from irontree.domain.review import InvalidAnswer
from irontree.domain.spec import Requirements, read_requirements
from irontree.domain.task_types import FEATURE
from irontree.errors import EnvironmentRefused, RequirementsRefused
from irontree.services.loops.funds import require_funds_of_today
from irontree.services.record import planning_folder, read_world
from irontree.services.work.agent_requests import PLAN, AgentRequest, ask_agent


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
        _agent_request(policy, base, folder, (text, example)),
        lambda content: _read(content, name, known),
        lambda: require_funds_of_today(app, world, policy.budgets, "plan"),
    )
    if isinstance(asked.found, Requirements):
        return PlannedDocument(asked.found, asked.rounds)
    if isinstance(asked.found, AttemptOutcome):
        raise EnvironmentRefused(f"the agent could not plan: {asked.found.reason}", remedy="plan again later")
    raise RequirementsRefused(
        asked.found.problems,
        remedy=f"look at {folder}, say more in {name}, or write the document yourself: irontree example",
    )


def _agent_request(policy: ExecutionPolicy, base: str, transcripts: Path, told: tuple[str, str]) -> AgentRequest:
    text, example = told
    checks = tuple(check.name for check in policy.checks)
    return AgentRequest(
        form=PLAN,
        name="planning",
        note="the agent plans",
        agent=policy.author_for(FEATURE.name),
        workspace=policy.workspace,
        sha=base,
        published=base,
        values={"text": text, "example": example, "checks": checks},
        transcripts=transcripts,
        task_key="plan",
    )


def _read(content: bytes, name: str, known: Mapping[int, str]) -> Requirements | InvalidAnswer:
    """The document in the draft file, or why there is none."""
    try:
        return read_requirements(content, name, known_issues=known)
    except RequirementsRefused as refused:
        return InvalidAnswer(tuple(refused.problems))
