"""`irontree repos [add | remove]`: the repositories of this machine that `serve` and `inbox` include."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from irontree.app import App
from irontree.cli.context import Context, Verb
from irontree.cli.inbox import KnownRepository, each, everything_waiting, registered
from irontree.cli.output import Cell, OutputBlock, Table, TextLines, listing
from irontree.cli.parser import JSON, OK, UsageError, argument
from irontree.domain.state import Phase
from irontree.errors import NotEligible
from irontree.services.views.overview import Overview, overview
from irontree.store.registry import user_registry

HEADINGS = ("REPOSITORY", "QUEUE", "DONE", "WAITING", "AT WORK")


@dataclass(frozen=True, slots=True)
class Row:
    """One repository in a listing; *queue* is its workspace id, *problem* why nothing more is known about it."""

    root: str
    id: str
    queue: str
    done: int = 0
    total: int = 0
    waiting: int = 0
    approvals_unknown: str | None = None
    busy: str | None = None
    active_loop: str | None = None
    serving: str | None = None
    problem: str | None = None


def run(context: Context) -> int:
    """Make the requested change, if any, then list what is registered."""
    action, folders = context.options.action, context.options.folders or ["."]
    match action:
        case None:
            pass
        case "add":
            for app in each(context, folders):
                user_registry().add(app.repository.id, app.repository.root)
            context.console.note("`irontree serve` takes it up within seconds, unless it was started for named folders")
        case "remove":
            for folder in folders:
                _remove(context, folder)
            context.console.note("`irontree serve` releases it within seconds, as soon as nothing is at work there")
        case _:
            raise UsageError(f"`irontree repos` knows add and remove, not {action!r}", "irontree repos add [DIR …]")
    rows = tuple(map(row_of, registered(context)))
    context.console.show(lambda: {"repositories": [asdict(row) for row in rows]}, blocks(rows))
    return OK


def row_of(found: KnownRepository) -> Row:
    """Summarize the repository in one row."""
    known = found.known
    if found.app is None:
        return Row(str(known.root), known.id, known.id, problem=found.problem)
    return _row(found.app, overview(found.app))


def _row(app: App, seen: Overview) -> Row:
    asked, unknown = everything_waiting(app)
    return Row(
        root=str(app.repository.root),
        id=app.repository.id,
        queue=app.repository.id,
        done=sum(row.phase == Phase.DONE for row in seen.issues),
        total=len(seen.issues),
        waiting=len(asked),
        approvals_unknown=unknown or None,
        busy=seen.busy,
        active_loop=seen.active_loop,
        serving=seen.serving,
    )


def blocks(rows: Sequence[Row]) -> Iterator[OutputBlock]:
    """The human-readable output."""
    if not rows:
        yield TextLines(
            ("No repositories yet.", "-> irontree repos add DIR; `irontree serve` adds the one it is called in")
        )
        return
    yield Table(HEADINGS, tuple(_cells(row) for row in rows))
    yield from listing(dict.fromkeys(row.approvals_unknown for row in rows if row.approvals_unknown), "faint")


def _cells(row: Row) -> tuple[Cell | str, ...]:
    if row.problem:
        return (row.root, row.queue, "", "", Cell(row.problem, "bad"))
    waits = Cell(str(row.waiting), "asks") if row.waiting else ""
    at_work = row.active_loop or row.busy
    doing = f"loop {at_work}" if row.active_loop else at_work or row.serving or ""
    return (row.root, row.queue, f"{row.done} of {row.total}", waits, Cell(doing, "busy" if at_work else "faint"))


def _remove(context: Context, named: str) -> None:
    """Unregister the repository with that id or path, whether or not it still exists."""
    place = (context.folder / Path(named)).resolve()
    mine = [known for known in user_registry().all() if known.id == named or place.is_relative_to(known.root)]
    if not mine:
        raise NotEligible(f"{named} is not registered", remedy="`irontree repos` lists what is")
    user_registry().remove(max(mine, key=lambda known: len(known.root.parts)).id)


VERBS: Final = {
    "repos": Verb(
        run,
        argument("action", nargs="?", metavar="add|remove", help="register the repositories, or forget them"),
        argument("folders", nargs="*", metavar="DIR", help="a repository; `remove` also takes an id (default: here)"),
        JSON,
    )
}
