"""`irontree show ISSUE`: everything about one issue; `--diff` adds what it changed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from irontree.app import App
from irontree.cli.asked import question_block
from irontree.cli.blocks import Block, Cell, Lines, Table, Verbatim
from irontree.cli.budgets import budget_blocks, budgets_json
from irontree.cli.context import Context
from irontree.cli.finding import find_issue
from irontree.cli.parser import add_issue, add_json
from irontree.cli.status import STYLES
from irontree.cli.stepwise import event_json
from irontree.domain.events import IssueEvent, Record, RunStarted
from irontree.domain.ledger import Budget
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.results import CheckReport, CheckResult
from irontree.domain.state import TaskState
from irontree.domain.values import NOT_APPLICABLE
from irontree.domain.verdict import Coverage
from irontree.ports import Stream
from irontree.services.hints import OpenQuestion
from irontree.services.loops.funds import read_funds
from irontree.services.loops.loop import loop_of, read_loops, still_open
from irontree.services.next_command import next_command_about
from irontree.services.open_questions import asked_about
from irontree.services.overview import title_of, waits_for
from irontree.services.projections.denied import denied_of
from irontree.services.projections.failures import failure_of
from irontree.services.projections.narrate import say_issue_event
from irontree.services.projections.report import criteria_of, newest_results, warnings_of
from irontree.services.projections.views import DeniedView, FailureView
from irontree.services.transcripts import attempts_folder
from irontree.services.world import World, read_world
from irontree.store.layout import Layout


@dataclass(frozen=True, slots=True)
class Shown:
    """One issue, looked at from all sides. Issues are named `#3`, tasks without one by their key."""

    state: TaskState
    title: str
    node: PlanNode | None
    plan: Plan | None
    parent: str | None
    depends_on: tuple[str, ...]
    waits_for: tuple[str, ...]
    children: tuple[str, ...]
    loop_id: str | None
    covered: tuple[Coverage, ...]
    report: CheckReport | None
    failure: FailureView | None
    denied: DeniedView | None
    records: tuple[Record[IssueEvent], ...]
    asked: OpenQuestion | None
    next: str
    files: dict[str, str] = field(default_factory=dict)
    undelivered: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    diff: str | None = None
    budgets: tuple[Budget, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the issue."""
    add_issue(parser)
    parser.add_argument("--diff", action="store_true", help="also print what the issue's commit changes")
    add_json(parser)


def run(context: Context) -> int:
    """Print everything that is known."""
    app = context.look()
    world = read_world(app)
    shown = look_at(app, world, find_issue(world, context.options.issue), with_diff=context.options.diff)
    context.console.show(lambda: as_json(shown), blocks(shown))
    return 0


def look_at(app: App, world: World, state: TaskState, *, with_diff: bool = False) -> Shown:
    """Collect what the log, the plan and the files say of the issue."""
    node, plan = world.nodes.get(state.task_key), world.plans.get(state.task_key)
    stream, every = app.log.read(state.issue_number), read_loops(app)[0]
    loops = still_open(every)
    return Shown(
        state=state,
        title=title_of(world, state.task_key),
        node=node,
        plan=plan,
        parent=_name(world, node.parent) if node and node.parent else None,
        depends_on=_names(world, node.depends_on if node else ()),
        waits_for=() if state.done else _names(world, waits_for(world, state.task_key)),
        children=_names(world, world.children.get(state.task_key, ())),
        loop_id=loop_of(loops, state.task_key),
        covered=criteria_of(app, state, plan, node) if node and plan else (),
        report=newest_results(app, state),
        failure=failure_of(app, stream, state),
        denied=denied_of(stream),
        records=stream.records,
        asked=asked_about(app, world, loops, state),
        next=next_command_about(app, world, every, state),
        files=_files(app, state, stream),
        undelivered=app.deliveries.load(state.issue_number).failures,
        warnings=warnings_of(app, stream),
        diff=_diff(app, state) if with_diff else None,
        budgets=read_funds(app, world, every).of_issue(state),
    )


def as_json(shown: Shown) -> dict[str, Any]:
    """The documented keys."""
    state, node = shown.state, shown.node
    return {
        "issue": state.issue_number,
        "task_key": state.task_key,
        "title": shown.title,
        "type": node.type if node else None,
        "phase": state.phase.value,
        "problem": state.problem or state.blocking_check,
        "revision": state.approved_revision,
        "document": shown.plan.spec_path if shown.plan else None,
        "parent": shown.parent,
        "children": list(shown.children),
        "depends_on": list(shown.depends_on),
        "waits_for": list(shown.waits_for),
        "loop_id": shown.loop_id,
        "attempt": state.attempt_count,
        "attempts": state.total_attempts,
        "commit": state.commit,
        "code_ref": state.code_ref,
        "publication": state.code_publication_state,
        "completion_basis": state.completion_basis,
        "criteria": [{"text": item.criterion.text, "covered_by": item.by} for item in shown.covered],
        "budgets": budgets_json(shown.budgets),
        "checks": [_check_json(result) for result in shown.report.results] if shown.report else [],
        "failure": _failure_json(shown.failure) if shown.failure else None,
        "denied": {"asked": list(shown.denied.words), "rules": list(shown.denied.rules)} if shown.denied else None,
        "events": [event_json(record) for record in shown.records],
        "question": shown.asked.as_json() if shown.asked else None,
        "next": shown.next or None,
        "files": shown.files,
        "undelivered": list(shown.undelivered),
        "warnings": list(shown.warnings),
        "diff": shown.diff,
    }


def blocks(shown: Shown) -> Iterator[Block]:
    """The same for people."""
    yield Lines((Cell(f"#{shown.state.issue_number} {shown.title}", "title"), *_facts(shown)))
    if shown.covered:
        rows = tuple(_criterion(item) for item in shown.covered)
        yield Table(("COVERED BY", "CRITERION"), rows, title="Acceptance criteria")
    yield from budget_blocks(shown.budgets)
    if shown.report and shown.report.results:
        results = tuple((_ended(result), result.shown) for result in shown.report.results)
        yield Table(("RESULT", "CHECK"), results, title="Checks at this commit")
    history = tuple((Cell(str(r.meta.get("time", "")), "faint"), say_issue_event(r)) for r in shown.records)
    yield Table(("TIME", "WHAT"), history, title="History")
    if shown.failure and not shown.state.done and shown.failure.output:
        yield Verbatim(shown.failure.output, title=f"What failed last: {shown.failure.failed_check}")
    yield from _pointed_out(shown)
    if shown.diff is not None:
        yield Verbatim(shown.diff or "(no change)", title="What it changes", language="diff")
    if shown.files:
        yield Lines(tuple(f"{what}: {path}" for what, path in shown.files.items()), title="Files")
    if shown.asked:
        yield question_block(shown.asked)
    elif shown.next and not shown.state.done:
        yield Lines((Cell(shown.next, "command"),), title="Next")


def _pointed_out(shown: Shown) -> Iterator[Block]:
    """What a person may want to see to."""
    if shown.denied and not shown.state.done:
        yield from _denied(shown.denied)
    if shown.undelivered:
        yield Lines(
            tuple(Cell(line, "bad") for line in shown.undelivered), title="Not delivered yet, tried again later"
        )
    if shown.warnings:
        yield Lines(tuple(Cell(line, "bad") for line in shown.warnings), title="Warnings")


def _denied(denied: DeniedView) -> Iterator[Block]:
    yield Lines(tuple(Cell(line, "bad") for line in denied.words), title="What the agent was not allowed to do")
    if denied.rules:
        rules = "".join(f"    {rule}\n" for rule in denied.rules)
        yield Verbatim(
            f"agent:\n  permissions:\n{rules}",
            title="To allow it, add this to .mino/config.yml before you answer; the change is shown for approval",
            language="yaml",
        )


def _facts(shown: Shown) -> Iterator[Cell | str]:
    """The head of the page: one fact a line, those that hold."""
    state = shown.state
    problem = state.problem or state.blocking_check
    yield Cell(f"{state.phase}{f': {problem}' if problem else ''}", STYLES.get(state.phase, ""))
    facts = {
        "Key": state.task_key,
        "From": f"{shown.plan.spec_path}, revision {state.approved_revision}" if shown.plan else "no approved plan",
        "Part of": shown.parent,
        "Parts": ", ".join(shown.children),
        "Depends on": ", ".join(shown.depends_on),
        "Waits for": ", ".join(shown.waits_for),
        "Attempts": f"{state.attempt_count} of {state.total_attempts}" if state.runs_started else "",
        "Commit": _commit(state),
        "Done by": state.completion_basis,
        "Loop": shown.loop_id,
    }
    yield from (f"{name}: {value}" for name, value in facts.items() if value)


def _commit(state: TaskState) -> str:
    code_ref = state.code_ref or state.commit
    if code_ref is None or code_ref == NOT_APPLICABLE:
        return ""
    return f"{code_ref} ({state.code_publication_state.replace('_', ' ')})"


def _criterion(item: Coverage) -> tuple[Cell | str, ...]:
    by = Cell(item.by, "faint") if item.by else Cell("a person judges this", "asks")
    return (by, item.criterion.text)


def _ended(result: CheckResult) -> Cell:
    if result.passed:
        return Cell("passed", "good")
    return Cell(f"exit {result.exit_code}" if result.ended == "exited" else result.ended, "bad")


def _check_json(result: CheckResult) -> dict[str, Any]:
    return result.model_dump(mode="json", include={"name", "command", "ended", "exit_code", "seconds"})


def _failure_json(failure: FailureView) -> dict[str, Any]:
    return {"check": failure.failed_check, "anchor": failure.anchor, "note": failure.note, "output": failure.output}


def _names(world: World, keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_name(world, key) for key in keys)


def _name(world: World, key: str) -> str:
    return f"#{world.states[key].issue_number}" if key in world.states else key


def _files(app: App, state: TaskState, stream: Stream) -> dict[str, str]:
    """What there is to read about the issue, relative to the repository; no transcripts of archived streams."""
    number, layout = state.issue_number, Layout(app.repository.root)
    events = (record.event for record in stream.records)
    begun = {f"{event.sequence:04d}": event for event in events if isinstance(event, RunStarted)}
    folders = attempts_folder(app, state).glob("attempt-*")
    transcripts = {path.name.removeprefix("attempt-"): path for path in folders}
    candidates = {
        "brief": layout.brief(number),
        "report": layout.reports(number) / "report.md",
        "events": layout.stream(number),
        **{f"transcript {name}{_attempt(begun.get(name))}": path for name, path in sorted(transcripts.items())},
    }
    return {what: layout.shown(path) for what, path in candidates.items() if path.exists()}


def _attempt(begun: RunStarted | None) -> str:
    """Which attempt a folder is of, whose name has the number of an event (protocol, files); none of a lost log."""
    return f", attempt {begun.attempt_count}" if begun else ""


def _diff(app: App, state: TaskState) -> str:
    """What the issue's own commit changes; empty if it changed nothing (yet)."""
    if not (state.has_code and state.base_sha and state.commit):
        return ""
    return app.repository.diff(state.base_sha, state.commit)
