"""One issue: `irontree show`, `events`, `report` and `why`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from irontree.app import App
from irontree.cli.console import show_markdown
from irontree.cli.context import Context, Verb, find_issue, find_number
from irontree.cli.inbox import question_block
from irontree.cli.loops import budget_blocks, budgets_json
from irontree.cli.output import Cell, OutputBlock, Style, Table, TextLines, Verbatim, listing, next_commands
from irontree.cli.parser import ISSUE, JSON, OK, UsageError, argument
from irontree.cli.status import STYLES
from irontree.cli.steps import UNDELIVERED, event_json
from irontree.domain.checks import CheckResult, Coverage
from irontree.domain.events import RunStarted
from irontree.domain.state import TaskState
from irontree.domain.values import NOT_APPLICABLE
from irontree.errors import NotEligible
from irontree.ports import Stream
from irontree.services.loops.funds import read_funds
from irontree.services.loops.loop import loop_of, read_loops, still_open
from irontree.services.questions.commands import next_command_about, question_json
from irontree.services.questions.listing import Explanation, TaskStanding, asked_about, explain
from irontree.services.record import World, read_world, transcript_folder
from irontree.services.views.history import (
    DeniedView,
    FailureView,
    denied_of,
    failure_of,
    last_words_of,
    say_issue_event,
)
from irontree.services.views.overview import title_of, waits_for
from irontree.services.views.report import criteria_of, newest_results, own_diff, reported, warnings_of
from irontree.store.layout import Layout


class IssueDetails:
    """Everything to show about one issue. Issues are named `#3`, tasks without one by their key."""

    def __init__(self, app: App, world: World, state: TaskState, *, with_diff: bool = False) -> None:
        """Collect what the log, the plan and the files say."""
        stream, every = app.log.read(state.issue_number), read_loops(app)[0]
        loops = still_open(every)
        self.state = state
        self.title = title_of(world, state.task_key)
        self.node = node = world.nodes.get(state.task_key)
        self.plan = plan = world.plans.get(state.task_key)
        self.parent = _name(world, node.parent) if node and node.parent else None
        self.depends_on = _names(world, node.depends_on if node else ())
        self.waits_for = () if state.done else _names(world, waits_for(world, state.task_key))
        self.children = _names(world, world.children.get(state.task_key, ()))
        self.loop_id = loop_of(loops, state.task_key)
        self.covered = criteria_of(app, state, plan, node) if node and plan else ()
        self.report = newest_results(app, state)
        self.failure = failure_of(app, stream, state)
        self.last_words = last_words_of(stream)
        self.denied = denied_of(stream)
        self.records = stream.records
        self.asked = asked_about(app, world, loops, state)
        self.next = next_command_about(app, world, every, state)
        self.files = _files(app, state, stream)
        self.undelivered = app.deliveries.load(state.issue_number).failures
        self.warnings = warnings_of(app, stream)
        self.diff = own_diff(app, state) if with_diff else None
        self.budgets = read_funds(app, world, every).of_issue(state)


def run(context: Context) -> int:
    """Print everything that is known, or the one view that the options ask for."""
    options = context.options
    views = {"--events": options.events, "--report": options.report, "--why": options.why, "--diff": options.diff}
    chosen = [name for name, given in views.items() if given]
    if len(chosen) > 1:
        raise UsageError(f"one of {', '.join(chosen)} at a time")
    return _VIEWS.get("".join(chosen), show_everything)(context)


def show_everything(context: Context) -> int:
    """Print everything that is known."""
    app = context.look()
    world = read_world(app)
    shown = IssueDetails(app, world, find_issue(world, context.options.issue), with_diff=context.options.diff)
    context.console.show(lambda: issue_json(shown), issue_blocks(shown))
    return 0


def issue_json(shown: IssueDetails) -> dict[str, Any]:
    """The documented JSON keys."""
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
        "last_words": shown.last_words or None,
        "denied": {"asked": list(shown.denied.words), "rules": list(shown.denied.rules)} if shown.denied else None,
        "events": [event_json(record) for record in shown.records],
        "question": question_json(shown.asked) if shown.asked else None,
        "next": shown.next or None,
        "files": shown.files,
        "undelivered": list(shown.undelivered),
        "warnings": list(shown.warnings),
        "diff": shown.diff,
    }


def issue_blocks(shown: IssueDetails) -> Iterator[OutputBlock]:
    """The human-readable output."""
    yield TextLines((Cell(f"#{shown.state.issue_number} {shown.title}", "title"), *_facts(shown)))
    if shown.covered:
        rows = tuple(_criterion(item) for item in shown.covered)
        yield Table(("COVERED BY", "CRITERION"), rows, title="Acceptance criteria", names=(1,))
    yield from budget_blocks(shown.budgets)
    if shown.report and shown.report.results:
        results = tuple((_ended(result), result.check.shown) for result in shown.report.results)
        yield Table(("RESULT", "CHECK"), results, title="Checks at this commit")
    history = tuple((Cell(r.told.time, "faint"), say_issue_event(r)) for r in shown.records)
    yield Table(("TIME", "WHAT"), history, title="History")
    if shown.failure and not shown.state.done and shown.failure.output:
        yield Verbatim(shown.failure.output, title=f"What failed last: {shown.failure.failed_check}")
    if shown.last_words and not shown.state.done:
        yield Verbatim(shown.last_words, title="What the agent said last")
    yield from _pointed_out(shown)
    if shown.diff is not None:
        yield Verbatim(shown.diff or "(no change)", title="What it changes", language="diff")
    yield from listing((f"{what}: {path}" for what, path in shown.files.items()), title="Files")
    if shown.asked:
        yield question_block(shown.asked)
    elif not shown.state.done:
        yield from next_commands(shown.next)


def _pointed_out(shown: IssueDetails) -> Iterator[OutputBlock]:
    """What may need the user's attention."""
    if shown.denied and not shown.state.done:
        yield from _denied(shown.denied)
    yield from listing(shown.undelivered, "bad", UNDELIVERED)
    yield from listing(shown.warnings, "bad", "Warnings")


def _denied(denied: DeniedView) -> Iterator[OutputBlock]:
    yield from listing(denied.words, "bad", "What the agent was not allowed to do")
    if denied.rules:
        rules = "".join(f"    {rule}\n" for rule in denied.rules)
        yield Verbatim(
            f"agent:\n  permissions:\n{rules}",
            title="To allow it, add this to .mino/config.yml before you answer; the change is shown for approval",
            language="yaml",
        )


def _facts(shown: IssueDetails) -> Iterator[Cell | str]:
    """The facts at the top of the page, one a line, that apply."""
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
    if result.is_open:
        return Cell("could not be told", "asks")
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
    """Files about the issue, relative to the repository; without transcripts of archived streams."""
    number, layout = state.issue_number, Layout(app.repository.root)
    events = (record.event for record in stream.records)
    begun = {f"{event.sequence:04d}": event for event in events if isinstance(event, RunStarted)}
    kept = {
        f"{what} {name}{_attempt(begun.get(name))}": path
        for what, of in (("transcript", "attempt"), ("reviews", "reviews"))
        for path in sorted(transcript_folder(app, state).parent.glob(f"{of}-*"))
        for name in (path.name.removeprefix(f"{of}-"),)
    }
    candidates = {
        "brief": layout.brief(number),
        "report": layout.reports(number) / "report.md",
        "events": layout.stream(number),
        **kept,
    }
    return {what: layout.shown(path) for what, path in candidates.items() if path.exists()}


def _attempt(begun: RunStarted | None) -> str:
    """The attempt of a folder named after an event's number (protocol, files); empty if the log lost the event."""
    return f", attempt {begun.attempt_count}" if begun else ""


# --- `irontree show ISSUE --events`


def run_events(context: Context) -> int:
    """Print one line per event, oldest first, and what could not be read; raises NotEligible for an empty stream."""
    app = context.look()
    world = read_world(app)
    number = find_number(world, context.options.issue)
    stream = app.log.read(number)
    if not stream.highest_sequence:
        world.state(number)
    context.console.show(lambda: events_json(stream), event_blocks(stream))
    return 0


def events_json(stream: Stream) -> dict[str, Any]:
    """`events`: each file's `iron_tree:` block, key for key, and its `meta:`; `problems`: what cannot be read."""
    return {
        "events": [
            {"iron_tree": record.event.model_dump(mode="json"), "meta": dict(record.meta)} for record in stream.records
        ],
        "problems": [{"path": problem.path, "what": problem.what} for problem in stream.problems],
    }


def event_blocks(stream: Stream) -> Iterator[OutputBlock]:
    """The human-readable output."""
    rows = tuple(
        (
            f"{record.event.sequence:04d}",
            Cell(record.told.time, "faint"),
            record.event.event,
            say_issue_event(record),
        )
        for record in stream.records
    )
    yield Table(("SEQ", "TIME", "EVENT", "WHAT"), rows)
    yield from listing((f"{problem.path}: {problem.what}" for problem in stream.problems), "bad", "Cannot be read")


# --- `irontree show ISSUE --report`: the check results of its commit, in human-readable form


def run_report(context: Context) -> int:
    """Print the report; raises NotEligible if there is none."""
    app = context.look()
    state = find_issue(read_world(app), context.options.issue)
    text = app.projections.read("report", state.issue_number)
    if text is None:
        raise _without(app, state)
    if context.options.json:
        path = app.projections.path("report", state.issue_number)
        context.console.dump({"issue": state.issue_number, "path": path, "text": text})
    else:
        show_markdown(context.console, text)
    return OK


def _without(app: App, state: TaskState) -> NotEligible:
    issue = f"issue-{state.issue_number}"
    if reported(app.log.read(state.issue_number), state):
        return NotEligible(f"the report of {issue} is gone", remedy="irontree checkup reconcile makes it from the log")
    return NotEligible(
        f"{issue} has no report: one is written when its checks pass, when a person has to judge, "
        "and when its attempts are used up",
        remedy=f"irontree show {issue} tells how far it is",
    )


# --- `irontree show ISSUE --why`


_STYLE: Final[dict[TaskStanding, Style]] = {
    "done": "good",
    "next": "busy",
    "ready": "",
    "waiting": "",
    "blocked": "asks",
    "skipped": "faint",
}


def run_why(context: Context) -> int:
    """Print its state, the rule that applies, and its newest events."""
    app = context.look()
    found = explain(app, _key(read_world(app), context.options.issue))
    context.console.show(lambda: asdict(found), why_blocks(found))
    return 0


def _key(world: World, text: str) -> str:
    """The task key that *text* names; the task may have no issue yet."""
    return text if text in world.nodes else find_issue(world, text).task_key


def why_blocks(found: Explanation) -> Iterator[OutputBlock]:
    """The explanation for people."""
    name = f"#{found.issue_number} {found.task_key}" if found.issue_number else found.task_key
    yield TextLines((Cell(f"{name} is {found.standing}: {found.because}", _STYLE[found.standing]),))
    yield from listing((found.rule,), "faint", "Because")
    yield from listing(found.events, title="What happened last")


_VIEWS: Final = {"--events": run_events, "--report": run_report, "--why": run_why}
VERBS: Final = {
    "show": Verb(
        run,
        ISSUE,
        argument("--events", action="store_true", help="print its event log"),
        argument("--report", action="store_true", help="print its report: the checks, and what a person should know"),
        argument("--why", action="store_true", help="say why it is done, next, ready, waiting, blocked or skipped"),
        argument("--diff", action="store_true", help="also print what its commit changes"),
        JSON,
    ),
}
