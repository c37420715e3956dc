"""What a coding agent is told about one attempt."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from irontree.app import App
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.state import TaskState
from irontree.domain.verdict import commands_for
from irontree.services.projections.failures import failure_of
from irontree.services.projections.views import PromptView, QuoteView, ReviewPromptView


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
