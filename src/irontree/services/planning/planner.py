"""A planner: the coding agent turns a free-form text into a requirement document (protocol, phase 1).

What it writes is a draft like a person's: read by the same reader, shown and approved as any other. Nothing it says is
executed before that. It works in a private copy of the repository, and what it changes there is thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from irontree.app import App
from irontree.domain.plan import ExecutionPolicy
from irontree.domain.spec import MAX_BYTES, Requirements, read_requirements
from irontree.errors import Cancelled, RequirementsRefused
from irontree.ports import AgentResult, AgentTask
from irontree.services.execution.recovery import settle_leftovers
from irontree.services.execution.transcripts import how_it_ended, read_answer
from irontree.services.projections.views import PlanPromptView
from irontree.services.world import read_world

ROUNDS: Final = 3
DRAFT_FILE: Final = "draft.md"


@dataclass(frozen=True, slots=True)
class Draft:
    """A document that can be approved, as the planner wrote it, and after how many rounds."""

    text: str
    requirements: Requirements
    rounds: int


def plan_document(app: App, text: str, name: str, example: str) -> Draft:
    """Have *text*, which people know as *name*, turned into a requirement document; *example* shows the format.

    An answer that cannot be read is sent back with its problems, three rounds in all. The caller holds the driver
    lock. Raises RequirementsRefused with the problems of the last answer, ConfigRefused, EnvironmentRefused, Cancelled.
    """
    settle_leftovers(app)
    policy = app.policy(None)
    base, known = app.repository.base(policy.publish), read_world(app).known_issues
    folder = app.repository.root / ".mino" / "reports" / "plans" / app.clock.now().strftime("%Y%m%dT%H%M%SZ")
    problems: tuple[str, ...] = ()
    for number in range(1, ROUNDS + 1):
        place = folder / str(number)
        result = _ask(app, policy, base, place, PlanPromptView(text, example, _checks(policy), str(place), problems))
        found = _read(place / DRAFT_FILE, name, known, result)
        if isinstance(found, Requirements):
            return Draft(found.source, found, number)
        problems = found
    raise RequirementsRefused(
        problems, remedy=f"look at {folder}, say more in {name}, or write the document yourself: irontree example"
    )


def _ask(app: App, policy: ExecutionPolicy, base: str, place: Path, view: PlanPromptView) -> AgentResult:
    app.progress.note("the agent plans")
    workspace = app.repository.workspace("run", policy.workspace)
    workspace.prepare(base, cancel=app.cancel)
    result = app.agent(policy.agent).attempt(
        AgentTask(
            issue_number=0,
            task_key="plan",
            attempt=int(place.name),
            prompt=app.renderer.render("prompts/plan.md", plan=view),
            workspace=workspace.path,
            transcript=place,
            variables={"IRONTREE_DRAFT_FILE": str(place / DRAFT_FILE)},
        ),
        cancel=app.cancel,
        progress=app.progress,
    )
    if result.ended == "cancelled":
        raise Cancelled("planning was stopped")
    return result


def _checks(policy: ExecutionPolicy) -> tuple[str, ...]:
    return tuple(check.name for check in policy.checks)


def _read(path: Path, name: str, known: Mapping[int, str], result: AgentResult) -> Requirements | tuple[str, ...]:
    """The document in the draft file, or why there is none."""
    data = read_answer(path, MAX_BYTES)
    if data is None:
        return (f"no document was written to {DRAFT_FILE} ({how_it_ended(result)})",)
    try:
        return read_requirements(data, name, known_issues=known)
    except RequirementsRefused as refused:
        return refused.problems
