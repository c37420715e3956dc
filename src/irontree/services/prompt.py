"""What a coding agent is told about one attempt."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.state import TaskState
from irontree.services.history import failure_of
from irontree.services.views import PromptView


def prompt_for(app: App, node: PlanNode, plan: Plan, state: TaskState) -> str:
    """The task, its criteria and checks, and the failure context of the attempt before (protocol, phase 4)."""
    commands = [check.run for check in plan.policy.checks] + list(node.verification)
    view = PromptView(
        number=state.issue_number,
        node=node,
        attempt=state.attempt_count,
        attempts=state.total_attempts,
        commands=tuple(dict.fromkeys(commands)),
        failure=failure_of(app, app.log.read(state.issue_number), state),
        continues=state.has_code,
    )
    return app.renderer.render("prompts/run.md", prompt=view)
