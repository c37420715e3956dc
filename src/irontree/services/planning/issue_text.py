"""The body of a published issue, and the line by which it is found again (ruling R8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from irontree.app import App
from irontree.domain.plan import Plan, PlanNode
from irontree.services.delivery.closing import close_on_done
from irontree.services.projections.views import IssueView, StatusView

_KEY_MARK: Final = "<!-- irontree:task-key "
_DOCUMENT_MARK: Final = "<!-- irontree:document "


def key_marker(task_key: str) -> str:
    """A hidden line of its own that holds the task key."""
    return f"{_KEY_MARK}{task_key} -->"


def document_marker(spec_path: str) -> str:
    """A hidden line of its own that names the document a task is from: another's may have a task of the same key."""
    return f"{_DOCUMENT_MARK}{quote(spec_path)} -->"


def marked_document(body: str) -> str | None:
    """The document that the issue with this text was made from; None if it does not say."""
    lines = (line.strip() for line in body.split("\n"))
    found = next((line for line in lines if line.startswith(_DOCUMENT_MARK)), None)
    return unquote(found.removeprefix(_DOCUMENT_MARK).removesuffix(" -->")) if found else None


def has_key_marker(body: str) -> bool:
    """Whether the issue with this text was made from a document, whatever its key."""
    return _KEY_MARK in body


def issue_body(app: App, plan: Plan, node: PlanNode, numbers: Mapping[str, int]) -> str:
    """The stable metadata and text of a task; parents and dependencies by number where they have one in *numbers*."""
    view = IssueView(
        node=node,
        status=_first_status(plan, node),
        close_on_done=close_on_done(app, node),
        marker=f"{key_marker(node.task_key)}\n{document_marker(plan.spec_path)}",
        parent=_locator(numbers, node.parent) if node.parent else None,
        depends_on=tuple(_locator(numbers, key) for key in node.depends_on),
    )
    return app.renderer.render("issues/body.md", issue=view)


def _locator(numbers: Mapping[str, int], task_key: str) -> str:
    return f"#{numbers[task_key]}" if task_key in numbers else task_key


def _first_status(plan: Plan, node: PlanNode) -> StatusView:
    container = node.executability == "container"
    return StatusView(
        spec_revision=plan.spec_revision,
        approved_revision=plan.spec_revision,
        approval_state="approved",
        current_stage="definition",
        next_stage="decompose" if container else "run",
        workflow_entry_state="needs_breakdown" if container else "ready_to_start",
        attempt_count=0,
        max_retry_count=plan.policy.max_retry_count,
        code_publication_state="not_applicable",
    )
