"""The verification report a person reads (protocol, Verification Report; contract 6.A, 6.C, 6.D)."""

from __future__ import annotations

from pathlib import PurePosixPath

from irontree.app import App
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.results import CheckReport
from irontree.domain.state import TaskState
from irontree.domain.verdict import coverage
from irontree.services.views import ReportView

_CHECK_FILES = ("makefile", "package.json", "pyproject.toml", "setup.cfg", "tox.ini", "conftest.py", "cargo.toml")


def changed_files(app: App, state: TaskState) -> tuple[str, ...]:
    """What the task's commit changed; nothing where there is none."""
    if not (state.has_code and state.base_sha and state.commit):
        return ()
    return app.repository.changed_files(state.base_sha, state.commit)


def newest_results(app: App, state: TaskState) -> CheckReport | None:
    """What the checks said at the newest commit, or about what was completed; of an older commit it says nothing."""
    about_it = state.anchor == state.commit or not state.has_code or state.completion_basis is not None
    return app.results.load(state.issue_number, state.anchor) if state.anchor and about_it else None


def check_defining(app: App, state: TaskState) -> tuple[str, ...]:
    """Say so when the task changed files that define its own checks (ruling R18)."""
    changed = [path for path in changed_files(app, state) if PurePosixPath(path).name.lower() in _CHECK_FILES]
    return (f"this task changed files that define its own checks: {', '.join(changed)}",) if changed else ()


def write_report(
    app: App,
    state: TaskState,
    plan: Plan,
    node: PlanNode,
    report: CheckReport,
    outcome: str,
    reasons: tuple[str, ...],
    *,
    note: str = "",
) -> str:
    """Write the report of this verification; its path relative to the repository, as the event names it."""
    view = ReportView(
        number=state.issue_number,
        title=node.title,
        anchor=report.anchor,
        outcome=outcome,
        date=app.stamp(),
        environment=report.versions,
        results=report.results,
        coverage=coverage(node, plan.policy),
        findings=(*reasons, *check_defining(app, state), *report.warnings),
        recipe=plan.policy.workspace.setup,
        note=note,
    )
    path = app.projections.write_report(state.issue_number, app.renderer.render("reports/report.md", report=view))
    return path.relative_to(app.repository.root).as_posix()
