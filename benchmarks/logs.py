"""Logs of made-up histories: eight events an issue, one plan and one finished loop over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.projects import lay_out
from irontree.app import App
from irontree.domain.digests import event_digest
from irontree.domain.events import ISSUE_EVENTS, IssueEvent
from irontree.domain.plan import Plan
from irontree.services.loops import loop as loops
from irontree.services.loops.choice import loop_for
from irontree.services.proposals.sources import propose
from irontree.store.layout import Layout
from irontree.store.streams import ISSUE_FORM
from tests.support.approving import write_plan

EVENTS_PER_ISSUE: Final = 8
_CODE: Final = {"code_ref": "c" * 40}
_ANCHOR: Final = {"verify_anchor_sha": "c" * 40}
_LOCAL: Final = {"code_publication_state": "local_only"}
_OUT: Final = {"code_publication_state": "published"}
_HISTORY: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("task_published", {"attempt_count": 0, "next_stage": "run", "workflow_entry_state": "ready_to_start"}),
    ("run_started", {"attempt_count": 1}),
    ("run_completed", {"attempt_count": 1, **_CODE, **_LOCAL}),
    ("verify_failed_retryable", {"attempt_count": 1, **_ANCHOR, **_LOCAL}),
    ("run_started", {"attempt_count": 2}),
    ("run_completed", {"attempt_count": 2, **_CODE, **_LOCAL}),
    ("verify_passed", {"attempt_count": 2, **_CODE, **_ANCHOR, **_OUT, "report_path": ".mino/reports/report.md"}),
    ("checkup_done", {"attempt_count": 2, **_CODE, **_OUT, "completion_basis": "verified"}),
)
_META: Final = {"time": "2026-04-22T14:32:11Z", "actor": "benchmark", "base_sha": "b" * 40, "token": "t" * 16}


def lay_out_log(folder: Path, issues: int) -> App:
    """A repository whose log holds *issues* finished issues. Nothing of it is synced: it is only to be read."""
    app = lay_out(folder, "project")
    document = app.repository.root / "requirements.md"
    document.write_text("# Work\n" + "".join(_section(number) for number in range(1, issues + 1)), encoding="utf-8")
    proposal = propose(app, document)
    plan = write_plan(app, proposal, proposal.name, "benchmark")
    for number, node in enumerate(plan.nodes, start=1):
        _write_stream(Layout(app.repository.root).stream(number), _history(plan, node.task_key, number))
    app.repository.mark_history()
    loops.complete(app, loop_for(app, plan, document.name).id)
    return app


def _section(number: int) -> str:
    return f"\n## Task {number}\n\nWrite file {number}.\n\n- [ ] The file is there `$ test -f {number}.txt`\n"


def _history(plan: Plan, task_key: str, number: int) -> Iterator[IssueEvent]:
    for sequence, (name, values) in enumerate(_HISTORY, start=1):
        yield ISSUE_EVENTS[name](
            task_key=task_key,
            issue_number=number,
            spec_revision=plan.spec_revision,
            approved_revision=plan.spec_revision,
            sequence=sequence,
            max_retry_count=plan.policy.max_retry_count,
            **values,
        )


def _write_stream(folder: Path, history: Iterator[IssueEvent]) -> None:
    folder.mkdir(parents=True)
    previous: str | None = None
    for event in history:
        meta = _META | {"previous": previous}
        (folder / ISSUE_FORM.file_name(event)).write_bytes(ISSUE_FORM.encode(event, meta))
        previous = event_digest(event)
