"""Notes of verified work in the project's documents, a commit of their own on top of it (protocol, Promotion).

Verified is what stands below: the anchor and `code_ref` stay the checked commit, which the notes' commit contains. Both
go out in one push. A failure costs the notes and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from irontree.app import App
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.reply import Knowledge, decide_promotion, document_name, short_title
from irontree.domain.results import CheckReport
from irontree.domain.state import TaskState
from irontree.errors import EnvironmentRefused
from irontree.ports import CommitRefused, Committed, Document, Workspace
from irontree.services.execution.refs import docs_ref, docs_trailer, summary
from irontree.services.projections.report import changed_files
from irontree.services.projections.views import NotesView


@dataclass(frozen=True, slots=True)
class Promotion:
    """What became of the notes, and why. *tip* is what is published: the checked commit, or the notes' on top of it."""

    tip: str
    why: str
    document: str | None = None
    warning: str | None = None


def promote(app: App, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport) -> Promotion:
    """Commit notes on top of the commit that *report* is about, if there are any worth it. Publishes nothing.

    A commit made before a crash is found by its ref and used again: what has no ref was never published.
    """
    setup, changed = plan.policy.workspace.setup, changed_files(app, state)
    decision = decide_promotion(plan.policy.promotion.mode, Knowledge(node, setup, changed))
    if not decision.yes:
        return Promotion(report.anchor, decision.why)
    known = app.repository.read_ref(docs_ref(state, report.anchor))
    if known:
        return Promotion(known, decision.why, app.repository.changed_files(report.anchor, known)[0])
    try:
        return _committed(app, state, plan, node, report, decision.why)
    except EnvironmentRefused as error:
        return _without(report, decision.why, error.message)


def _committed(app: App, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport, why: str) -> Promotion:
    document = _document(app, state, plan, node, report)
    workspace = app.repository.workspace("run", plan.policy.workspace)
    title = summary(short_title(node.title))
    message = f"docs(issue-{state.issue_number}): {title} integration notes\n\n{docs_trailer(state)}\n"
    match workspace.commit_document(document, message, base=report.anchor):
        case Committed() as made:
            return _kept(app, state, report, workspace, made, why)
        case CommitRefused() as refused:
            return _without(report, why, f"git refused the commit: {refused.output.strip()}")
        case None:
            return _without(report, why, f"git sees no change in {document.path}; is the folder ignored?")


def _kept(
    app: App, state: TaskState, report: CheckReport, workspace: Workspace, made: Committed, why: str
) -> Promotion:
    app.repository.keep(made.sha, docs_ref(state, report.anchor), source=workspace)
    return Promotion(made.sha, why, made.files[0])


def _document(app: App, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport) -> Document:
    """The new document, or the one that is there with an update at its end: never overwritten.

    Text by somebody without write access stays on the issue (ruling R20).
    """
    path = f"{plan.policy.promotion.docs_path}/{document_name(node.title, state.issue_number)}"
    there = app.repository.document_at(report.anchor, path)
    notes = NotesView(
        number=state.issue_number,
        title=node.title,
        date=app.stamp()[:10],
        anchor=report.anchor,
        update=there is not None,
        environment=report.versions,
        setup=plan.policy.workspace.setup,
        checks=tuple(result.command for result in report.results if not result.review),
        criteria=() if node.outsider else tuple(criterion.text for criterion in node.criteria),
        files=changed_files(app, state),
    )
    text = app.renderer.render("reports/notes.md", notes=notes)
    return Document(there.path, f"{there.text.rstrip()}\n\n{text}") if there else Document(path, text)


def _without(report: CheckReport, why: str, problem: str) -> Promotion:
    return Promotion(report.anchor, why, warning=f"promotion_failed: {problem}")
