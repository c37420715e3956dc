"""What a flow run shows besides its log: the verification report, and the tree (design, section 6)."""

from __future__ import annotations

from prefect.artifacts import acreate_markdown_artifact

from irontree.app import App
from irontree.domain.state import TaskState


async def publish_report(app: App, state: TaskState) -> None:
    """Show the verification report of the issue, if there is one; a new version under the same key."""
    if state.report_path is None:
        return
    path = app.repository.root / state.report_path
    await acreate_markdown_artifact(
        path.read_text(encoding="utf-8"),
        key=f"irontree-{app.repository.id}-issue-{state.issue_number}-report",
        description=f"Verification report of issue #{state.issue_number}",
    )
