"""The page of one issue's run: where it stands, its links, its open question and what happened to it so far."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.state import TaskState
from irontree.services.overview import title_of
from irontree.services.projections.history import request_url_of, time_of
from irontree.services.projections.links import links_for
from irontree.services.projections.narrate import say_issue_event
from irontree.services.projections.page_views import HappenedView, StoryView
from irontree.services.world import read_world


def story_text(app: App, issue_number: int, *, question: str = "", report: str = "") -> str:
    """Markdown; *question* is the text of the form that is open, *report* where the newest report is shown."""
    world = read_world(app)
    state, stream, links = world.state(issue_number), app.log.read(issue_number), links_for(app)
    view = StoryView(
        number=issue_number,
        title=title_of(world, state.task_key),
        state=state.phase,
        attempts=f"{state.attempt_count} of {state.total_attempts}" if state.runs_started else "",
        happened=tuple(HappenedView(time_of(record), say_issue_event(record)) for record in stream.records),
        question=question,
        address=links.to_issue(issue_number),
        commit=(state.commit or "") if state.has_code else "",
        commit_address=links.to_commit(state.commit) if _is_published(state) else "",
        request=request_url_of(stream),
        report=report if state.report_path else "",
    )
    return app.renderer.render("artifacts/issue.md", story=view)


def _is_published(state: TaskState) -> bool:
    return state.code_publication_state == "published"
