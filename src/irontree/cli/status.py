"""`irontree status`: the tree, running work, open questions with the commands that answer them, loops."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from irontree.app import App
from irontree.cli.context import Context, Verb
from irontree.cli.inbox import FailedRequest, approvals_waiting, failed_in, failed_listing, is_listed, question_block
from irontree.cli.loops import budget_blocks, budgets_json, loop_table, show_loops
from irontree.cli.output import Cell, OutputBlock, Style, Table, TextLines, listing
from irontree.cli.parser import JSON, OK, UsageError, argument
from irontree.domain.plan import PublishPolicy
from irontree.domain.state import Phase
from irontree.domain.values import short_sha
from irontree.services.loops.loop import Loop, read_loops, skipped, still_open
from irontree.services.questions.commands import next_command, question_json
from irontree.services.questions.questions import Question, open_questions
from irontree.services.record import World, read_world
from irontree.services.views.checkout import lagging, targets
from irontree.services.views.overview import SKIPPED, IssueRow, Overview, overview_of, state_words

if TYPE_CHECKING:
    from irontree.services.questions.listing import Revisions

LOOK_EVERY: Final = 1.0
"""Seconds between two polls of `--watch`; an unchanged log costs a stat of each file."""
STYLES: Final[dict[str, Style]] = {
    Phase.RUNNING: "busy",
    Phase.COMMITTED: "busy",
    Phase.VERIFIED: "busy",
    Phase.DONE: "good",
    Phase.TERMINAL: "bad",
    Phase.PENDING: "asks",
    Phase.BLOCKED: "asks",
    Phase.STALE: "asks",
    Phase.ADOPTED: "asks",
    SKIPPED: "faint",
}
"""The style of each state, by how much it should stand out."""
_BY_SERVE: Final = "Or start again what serves every repository on your list (`irontree repos`)"


class StatusView(NamedTuple):
    """What is shown: the listing, questions, skipped keys, what to type next, why questions may be missing."""

    found: Overview
    asked: tuple[Question, ...] = ()
    skipped: frozenset[str] = frozenset()
    next: str = ""
    unknown: str = ""
    by_serve: bool = False
    """Whether `irontree serve`, once started, continues the open loop."""
    targets: tuple[PublishPolicy, ...] = ()
    """Where the work is published."""
    failed: tuple[FailedRequest, ...] = ()
    checkout: tuple[str, ...] = ()
    """What the user's own target branches lack, with what to do; read when it is shown."""


def run(context: Context) -> int:
    """Print the overview or the loops; with `--watch`, the overview again at each change until Ctrl-C."""
    options = context.options
    if options.loop_id and not options.loops:
        raise UsageError(f"a loop is shown by irontree status --loops {options.loop_id}")
    if options.loops and options.watch:
        raise UsageError("--watch is for the overview: leave --loops out")
    if options.loops:
        return show_loops(context)
    app = context.look()
    if not context.options.watch:
        _show(context, app, look(app))
        return OK
    from irontree.services.questions.listing import Revisions  # as below

    shown, revisions = None, Revisions()
    with suppress(KeyboardInterrupt):
        while True:
            glance = look(app, revisions)
            if glance != shown:
                context.console.clear()
                _show(context, app, glance)
            shown = glance
            time.sleep(LOOK_EVERY)
    return OK


def _show(context: Context, app: App, glance: StatusView) -> None:
    told = with_checkout(app, glance)
    context.console.show(lambda: as_json(told), blocks(told))


def with_checkout(app: App, glance: StatusView) -> StatusView:
    """The same with what git says of the user's own checkout."""
    behind = tuple(f"{what} -> {remedy}" for what, remedy in lagging(app, glance.targets))
    return glance._replace(checkout=behind)


def look(app: App, revisions: Revisions | None = None) -> StatusView:
    """Read the overview; who reads it again and again keeps *revisions*."""
    world = read_world(app)
    loops, damaged = read_loops(app)
    found = overview_of(app, world, loops, damaged)
    approvals, unknown = approvals_waiting(app)
    asked, following = (*_asked(app, world, loops, revisions), *approvals), next_command(app, world, loops)
    goes_on = bool(still_open(loops)) and is_listed(app)
    left_out, failed = skipped(loops, world), failed_in(app)
    return StatusView(found, asked, left_out, following, unknown, goes_on, targets(world), failed)


def _asked(app: App, world: World, loops: Sequence[Loop], revisions: Revisions | None) -> tuple[Question, ...]:
    if not any(open_questions(app, world, loops)):
        return ()
    from irontree.services.questions.listing import list_questions  # reads documents, to say what can be approved

    return list_questions(app, world, loops, revisions)


def as_json(glance: StatusView) -> dict[str, Any]:
    """The documented JSON keys."""
    found = glance.found
    return {
        "issues": [row._asdict() | {"skipped": row.task_key in glance.skipped} for row in found.issues],
        "questions": [question_json(question) for question in glance.asked],
        "loops": [row._asdict() for row in found.loops],
        "budgets": budgets_json(found.budgets),
        "busy": found.busy,
        "active_loop": found.active_loop,
        "serving": found.serving,
        "next": _next(glance) or None,
        "problems": list(found.problems),
        "backup": found.backup,
        "checkout": list(glance.checkout),
        "failed_requests": [one._asdict() for one in glance.failed],
        "approvals_unknown": glance.unknown or None,
    }


def blocks(glance: StatusView) -> Iterator[OutputBlock]:
    """The human-readable output."""
    found = glance.found
    if not found.issues:
        yield TextLines(tuple(_nothing_yet(glance)))
    else:
        yield TextLines((Cell(_summary(glance), "title"),))
        rows = tuple(_row(row, skipped=row.task_key in glance.skipped) for row in found.issues)
        yield Table(("ISSUE", "STATE", "ATTEMPT", "COMMIT", "TITLE"), rows)
    if found.loops:
        yield loop_table(found)
    yield from budget_blocks(found.budgets)
    yield from listing((*found.problems, *_undelivered(found.issues)), "bad", "Trouble")
    yield from listing(filter(None, (found.backup,)), "asks", "Warning")
    yield from listing(glance.checkout, "asks", "Your checkout")
    yield from map(question_block, glance.asked)
    yield from failed_listing(glance.failed)
    yield from listing(filter(None, (glance.unknown,)), "faint")
    if at_work := tuple(_at_work(glance)):
        yield TextLines(at_work)
    if following := _next(glance):
        yield from listing((following,), "typed", _next_title(glance))
        if glance.by_serve:
            yield from listing(("irontree serve",), "typed", _BY_SERVE)


def _nothing_yet(glance: StatusView) -> Iterator[Cell | str]:
    if any(asked.kind == "document" for asked in glance.asked):
        yield "Nothing is approved yet."
        return
    yield "No issues yet."
    is_wanted = (
        Path(".mino").is_dir() and not Path("SPEC.md").exists()
    )  # elsewhere it would be written into that folder
    begin = "irontree example > SPEC.md, edit it, then: " if is_wanted else ""
    yield Cell(f"-> {begin}irontree task SPEC.md", "typed")


def _summary(glance: StatusView) -> str:
    rows = glance.found.issues
    done = sum(1 for row in rows if row.phase == Phase.DONE)
    waits = f", {len(glance.asked)} waiting for you" if glance.asked else ""
    return f"{done} of {len(rows)} issues done{waits}"


def _row(row: IssueRow, *, skipped: bool) -> tuple[Cell | str, ...]:
    words = state_words(row, skipped=skipped)
    return (
        f"#{row.number}",
        Cell(words, STYLES.get(words, "")),
        Cell(row.attempts.replace(" ", ""), "faint"),
        Cell(short_sha(row.code_ref), "faint"),
        "  " * row.depth + row.title,
    )


def _at_work(glance: StatusView) -> Iterator[Cell]:
    """Running work, and terminals that wait; or a note that nothing runs although there is work."""
    found = glance.found
    if found.busy:
        yield Cell(f"At work: {found.busy}", "busy")
    if found.active_loop:
        yield Cell(f"Loop at work: {found.active_loop}", "busy")
    elif found.serving:
        yield Cell(f"Served here, and continued as soon as it can be: {found.serving}", "busy")
    in_log = any(asked.kind != "document" for asked in glance.asked)
    if not _anybody(found) and (in_log or glance.next):
        yield Cell("Nobody is at work here now.", "asks")


def _anybody(found: Overview) -> bool:
    return bool(found.busy or found.active_loop or found.serving)


def _next(glance: StatusView) -> str:
    return "" if _anybody(glance.found) else glance.next


def _next_title(glance: StatusView) -> str:
    asks_there = any(asked.loop_id for asked in glance.asked)
    return "Next (asks you at the terminal, then goes on)" if asks_there else "Next"


def _undelivered(rows: tuple[IssueRow, ...]) -> Iterator[str]:
    for row in rows:
        yield from (f"issue-{row.number}: not delivered yet: {failure}" for failure in row.undelivered)
        yield from (f"issue-{row.number}: {warning}" for warning in row.warnings)


VERBS: Final = {
    "status": Verb(
        run,
        argument("--watch", action="store_true", help="go on looking, and print it again with each change"),
        argument("--loops", action="store_true", help="list the loops instead; with LOOP, show it and its transitions"),
        argument("loop_id", metavar="LOOP", nargs="?", help="one loop, as `irontree status --loops` lists it"),
        JSON,
    )
}
