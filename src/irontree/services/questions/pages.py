"""The pages that users read: a question's form, what needs them, the story of an issue, the tree of tasks."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from irontree.app import App
from irontree.domain import typed
from irontree.domain.checks import EXCERPT_CHARACTERS, telling_lines
from irontree.domain.events import IssueEvent, Record
from irontree.domain.graph import Graph
from irontree.domain.halt import AGENT_ASKS, RED_BEFORE
from irontree.domain.pictures import NodeLook, svg
from irontree.domain.plan import Plan
from irontree.domain.requirements.markdown import parse
from irontree.domain.spec import changes_of
from irontree.domain.state import TaskState
from irontree.domain.values import short_sha
from irontree.errors import in_words
from irontree.ports import Links, Renderer
from irontree.services.loops.loop import cascade, left_out, read_loop
from irontree.services.proposals.again import UNREADABLE, propose_again
from irontree.services.proposals.approval import approval_view, before_words, lookalikes_in
from irontree.services.questions.listing import offered
from irontree.services.questions.questions import Question, gate_words
from irontree.services.record import World, read_world
from irontree.services.views.history import (
    denied_of,
    failure_of,
    last_words_of,
    links_for,
    place_of_issue,
    repeated_failures,
    request_url_of,
    say_issue_event,
    time_of,
)
from irontree.services.views.overview import IssueRow, named, overview_of, phase_words, state_words, title_of, waits_for
from irontree.services.views.report import check_defining, criteria_of, evidence_of, newest_results
from irontree.services.work.preflight import diff_of
from irontree.services.work.prompts import asked_by_agents

CHOICES: Final = "Your decision"
"""The title of the choices in the text of a question (`templates/layouts/parts.md`)."""
DECISIVE_LINES: Final = 5


def form_template(reason: str) -> str:
    """The template of the form for a halt reason."""
    return f"forms/{reason.replace('_', '-')}.md"


def question_text(app: App, question: Question) -> str:
    """The Markdown description of the question's form."""
    if question.issue_number is None:
        return _loop_text(app, question)
    return app.renderer.render(form_template(question.reason), form=issue_form(app, question))


class QuestionParts(NamedTuple):
    """The text of a question in parts: one screen to decide by, and what may be looked at besides."""

    lead: str
    """What is asked, why, what changed, and what each choice does."""
    details: Mapping[str, str]
    """The other sections, by their titles."""


def parts_of(text: str) -> QuestionParts:
    """Take the text of a question apart at its sections; what it quotes has none of its own."""
    lines = text.split("\n")
    cuts = [(each.start, each.title) for each in parse(lines).sections if each.level == 2]  # noqa: PLR2004 - `##`
    ends = [*(start for start, _ in cuts[1:]), len(lines)]
    sections = [(title, "\n".join(lines[start:end])) for (start, title), end in zip(cuts, ends, strict=True)]
    lead = "\n".join(lines[: cuts[0][0]] if cuts else lines)
    choices = "\n".join(text for title, text in sections if title == CHOICES)
    return QuestionParts(f"{lead}\n{choices}", {title: text for title, text in sections if title != CHOICES})


def issue_form(app: App, question: Question) -> dict[str, Any]:
    """What the form of an issue shows, by the names in its template."""
    world = read_world(app)
    state = world.state(question.number)
    stream, plan = app.log.read(state.issue_number), world.plans.get(state.task_key)
    record = stream.records[-1]
    report, failure = newest_results(app, state), failure_of(app, stream, state)
    asks_approval = question.reason == "reapproval_required"
    approving = _to_approve(app, world, plan) if plan and asks_approval else {}
    return {
        "number": state.issue_number,
        "title": title_of(world, state.task_key),
        "url": place_of_issue(app, state.issue_number)[1],
        # What is asked, and why.
        "what": question.rule.title,
        "reason": _reason(state, record) or (f"it failed at {failure.failed_check}" if failure else ""),
        "choices": offered(app, world, question),
        "answer": _answer_command(question),
        "remedy": record.told.remedy,
        "attempt": state.attempt_count,
        "attempts": state.total_attempts,
        "anchor": state.anchor,
        "publish": plan.policy.publish if plan else None,
        "coverage": criteria_of(app, state, plan, world.nodes[state.task_key]) if plan else (),
        "evidence": evidence_of(app, state),
        "failure": failure,
        "decisive": _decisive(record.told.output or (failure.output if failure else "")),
        "said": last_words_of(stream),
        "asked": asked_by_agents(stream)[-1] if state.blocking_check == AGENT_ASKS else None,
        "printed": record.told.output if state.blocking_check == RED_BEFORE else "",
        "denied": denied_of(stream),
        "attempts_alike": repeated_failures(app, stream, state),
        "report_path": state.report_path,
        # The pull request whose merge accepts the work.
        "request": record.told.request_url,
        # Who decides, if not everyone does.
        "gate": gate_words(app, world, replace(question, revision=approving.get("revision"))),
        **_NOTHING_TO_APPROVE,
        **approving,
        "warnings": (
            *approving.get("warnings", ()),
            *check_defining(app, state),
            *(report.warnings if report else ()),
            # Changes made on the forge that do not count.
            *(f"on the forge: {what}" for what in app.deliveries.load(state.issue_number).noticed),
            *((f"skipping this task also skips: {others}",) if (others := skipped_too(app, world, question)) else ()),
        ),
    }


def _decisive(output: str) -> str:
    """The last lines of what a check printed that name what failed."""
    return "\n".join(line[:EXCERPT_CHARACTERS] for line in telling_lines(output)[-DECISIVE_LINES:])


def skipped_too(app: App, world: World, question: Question) -> str:
    """The other tasks that a skip leaves out, shown before it is confirmed (R17); empty if there are none."""
    if question.loop_id is None or question.task_key is None:
        return ""
    affected = cascade(read_loop(app, question.loop_id), world, question.task_key)
    return ", ".join(named(world, key) for key in affected if key != question.task_key)


def _answer_command(question: Question) -> str:
    """The command that shows the same question on a terminal, and how to answer it."""
    return typed.answer(question.issue_number or question.loop_id)


def _reason(state: TaskState, record: Record[IssueEvent]) -> str:
    said = "; ".join(filter(None, record.told.why))
    return state.problem or said or record.told.note or state.blocking_check or ""


_NOTHING_TO_APPROVE: Final[Mapping[str, Any]] = {
    "revision": None,
    "diff": "",
    # What approving does to removed tasks, and to finished ones that changed.
    "before": (),
    # What changed since the last approval, one line each.
    "changes": (),
    # Everything that approving an adopted issue would approve.
    "approval": None,
}


def _to_approve(app: App, world: World, plan: Plan) -> dict[str, Any]:
    """What would be approved; if that cannot be read, a warning that says why."""
    try:
        now = propose_again(app, plan)
        return {
            "revision": now.name,
            "diff": diff_of(plan, now.draft.plans[0].plan.source, now.draft.policy),
            "before": before_words(world, now),
            "changes": changes_of(plan.nodes, now.draft.nodes),
            "warnings": () if plan.adoption else tuple(f"“{word}” holds {found}" for word, found in lookalikes_in(now)),
            "approval": approval_view(app, now, loop_mode=False) if plan.adoption else None,
        }
    except UNREADABLE as error:
        return {"warnings": (in_words(error),)}


def _loop_text(app: App, question: Question) -> str:
    loop, world = read_loop(app, question.loop_id or ""), read_world(app)
    states = [world.states[key] for key in loop.keys if key in world.states]
    return app.renderer.render(
        form_template(question.reason),
        loop_id=loop.id,
        reason=question.detail or question.rule.title,
        choices=question.rule.choices,
        answer=_answer_command(question),
        done=sum(1 for state in states if state.done),
        total=len(loop.keys),
        budget_used=loop.entity.budget_used,
        budget=loop.entity.budget_max_transitions,
        spent=question.budget,
        waiting=tuple(_waiting(world, loop.keys, state) for state in states if not state.done),
    )


def _waiting(world: World, in_loop: Collection[str], state: TaskState) -> dict[str, object]:
    waits = tuple(_waited_for(world, in_loop, key) for key in waits_for(world, state.task_key))
    return {
        "number": state.issue_number,
        "title": title_of(world, state.task_key),
        "phase": phase_words(world, state),
        "waits_for": waits,
    }


def _waited_for(world: World, in_loop: Collection[str], key: str) -> str:
    task = named(world, key)
    return task if key in in_loop else f"{task} (not in this loop)"


class OpenForm(NamedTuple):
    """A form that waits to be filled in, as the page *Needs you* lists it."""

    since: str
    repository: str
    about: str
    """The name of the run that asks."""
    asked: str
    url: str


def needs_you_text(renderer: Renderer, found: Sequence[OpenForm]) -> str:
    """The page *Needs you* in Markdown: every open question, oldest first."""
    return renderer.render("artifacts/needs-you.md", rows=sorted(found))


# --- The page of an issue's run


def story_text(app: App, issue_number: int, *, question: str = "", report: str = "") -> str:
    """An issue's page in Markdown; *question* is the text of its open form, *report* the address of the report."""
    world = read_world(app)
    state, stream, links = world.state(issue_number), app.log.read(issue_number), links_for(app)
    return app.renderer.render(
        "artifacts/issue.md",
        number=issue_number,
        title=title_of(world, state.task_key),
        state=state.phase,
        attempts=f"{state.attempt_count} of {state.total_attempts}" if state.runs_started else "",
        happened=tuple((time_of(record), say_issue_event(record)) for record in stream.records),
        question=question,
        address=links.issue(issue_number),
        commit=(state.commit or "") if state.has_code else "",
        commit_address=links.commit(state.commit) if state.code_publication_state == "published" else None,
        request=request_url_of(stream),
        report=report if state.report_path else "",
    )


# --- The tree of tasks


MOST_DRAWN: Final = 60
"""The maximum number of tasks in a picture: a larger one would be unreadable, and the rows show everything."""


def looks_of(world: World) -> dict[str, NodeLook]:
    """How a picture shows each task, by key: `#12 Title: state`; a task without an issue by its title alone."""
    return {key: NodeLook(_label(world, key), _tone(world, key)) for key in world.nodes}


def tree_text(app: App, loop_id: str, runs: Mapping[int, str]) -> str:
    """The page of a loop: its progress, a picture of its tasks, and for each task a row with links.

    *runs* maps issue numbers to the addresses of the issues' own runs.
    """
    loop, world = read_loop(app, loop_id), read_world(app)
    keys = loop.entity.task_keys
    skips = left_out(loop, world)
    rows = [row for row in overview_of(app, world, (loop,), ()).issues if row.task_key in keys]
    return app.renderer.render(
        "artifacts/tree.md",
        done=sum(map(world.is_done, set(keys) - skips)),
        total=len(set(keys) - skips),
        picture=_picture(world, keys),
        rows=tuple(_row(row, links_for(app), runs.get(row.number, ""), skipped=row.task_key in skips) for row in rows),
    )


def _picture(world: World, keys: Collection[str]) -> str:
    """The picture as a data URL: all of Prefect's pages draw it in Markdown; only one of two draws Mermaid."""
    chosen = [node for key, node in world.nodes.items() if key in keys]
    if not 0 < len(chosen) <= MOST_DRAWN:
        return ""
    picture = svg(Graph.of(chosen), looks_of(world))
    return f"data:image/svg+xml;base64,{base64.b64encode(picture.encode()).decode()}"


def _row(row: IssueRow, links: Links, run: str, *, skipped: bool) -> dict[str, object]:
    return {
        "number": row.number,
        "depth": row.depth,
        "title": row.title,
        "state": state_words(row, skipped=skipped),
        "attempts": row.attempts,
        "commit": short_sha(row.code_ref),
        "run": run,
        "address": links.issue(row.number),
        "commit_address": links.commit(row.code_ref) if row.phase == "done" else None,
    }


def _label(world: World, key: str) -> str:
    state, title = world.states.get(key), world.nodes[key].title
    return f"#{state.issue_number} {title}: {phase_words(world, state)}" if state else title


def _tone(world: World, key: str) -> str:
    state = world.states.get(key)
    if state is None or key in world.cancelled:
        return ""
    if state.done:
        return "done"
    if world.halt_of(state):
        return "asks"
    return "busy" if state.started else ""
