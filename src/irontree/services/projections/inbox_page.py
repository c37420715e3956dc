"""The page of all that waits for a person in the repositories that are served together (`irontree inbox`)."""

from __future__ import annotations

from collections.abc import Sequence

from irontree.ports import Renderer
from irontree.services.inbox import Waiting, oldest_first
from irontree.services.projections.page_views import InboxRowView, InboxView


def inbox_text(renderer: Renderer, found: Sequence[Waiting], host: str) -> str:
    """Markdown; *host* is where commands answer them."""
    view = InboxView(host, tuple(_row(one) for one in oldest_first(found)))
    return renderer.render("artifacts/inbox.md", inbox=view)


def _row(one: Waiting) -> InboxRowView:
    asked = one.question
    what = f"{asked.what}: {asked.detail}" if asked.detail else asked.what
    return InboxRowView(
        one.repository, asked.about, what, one.since or "", form=one.form_url or "", address=one.issue_url or ""
    )
