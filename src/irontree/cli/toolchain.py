"""`irontree toolchain [approve | setup]`: a team that works in the forge; what it is asked, and what that needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from irontree.app import App
from irontree.cli.context import Context, Verb
from irontree.cli.output import Cell, OutputBlock, Style, Table, TextLines, Verbatim, next_commands
from irontree.cli.parser import JSON, OK, UsageError, argument
from irontree.cli.trial import WAIT_SECONDS
from irontree.domain.agent_requests import AskedAgent, RequestState
from irontree.domain.task_types import TASK_TYPES, TaskTypeProfile
from irontree.domain.text import sentence, shell_path
from irontree.errors import NotEligible, in_words
from irontree.files import disk_errors, write_beneath
from irontree.ports import Label
from irontree.services.toolchain.discussing import Discussion, discussions
from irontree.services.work.standing import approve_standing, requests, standing_policy, standing_text

_TEMPLATES: Final = {"github": ".github/ISSUE_TEMPLATE", "gitea": ".gitea/ISSUE_TEMPLATE"}
"""The folder where each forge looks for issue templates; the local one has none."""
_COLOR: Final = "1d76db"
_DELIVERIES: Final = "issues, comments, pull requests, reviews and statuses, as `application/json` with a secret"


def run(context: Context) -> int:
    """Do what was named; list what the team is asked if nothing was."""
    options = context.options
    if options.name and options.what != "approve":
        raise UsageError(f"{options.name} has no meaning there", "irontree toolchain approve NAME")
    return _ACTIONS[options.what or "list"](context)


# --- What the team is asked


_STATE: Final[Mapping[RequestState, Style]] = {"pending": "faint", "working": "busy", "done": "good", "failed": "bad"}


def _list(context: Context) -> int:
    app = context.look()
    known = requests(app)
    asked, talks = tuple(request for request in known if request.state != "done"), discussions(app, known)
    problem = _why_nobody_is_asked(app)
    context.console.show(
        lambda: {
            "asked": [each.model_dump(mode="json") | {"key": each.key} for each in asked],
            "discussions": [each._asdict() | {"waits": each.waits} for each in talks],
            "problem": problem,
        },
        _listed(asked, talks, problem),
    )
    return OK


def _why_nobody_is_asked(app: App) -> str:
    try:
        standing_policy(app)
    except NotEligible as error:
        return sentence(in_words(error))
    return ""


def _listed(asked: tuple[AskedAgent, ...], talks: tuple[Discussion, ...], problem: str) -> Iterator[OutputBlock]:
    if problem:
        yield TextLines((Cell(problem, "asks"),))
    if not asked:
        yield TextLines((Cell("Nothing is asked of the team.", "faint"),))
    else:
        yield Table(("KEY", "ISSUE", "STATE", "ASKED BY", "WHY"), tuple(map(_row, asked)))
    if talks:
        yield Table(("ISSUE", "ROUND", "ANSWERED", "DISCUSSION"), tuple(map(_talk, talks)))
    yield from next_commands(
        *(f"irontree task '#{each.issue_number}'" for each in talks if each.waits and each.claimed),
        *(f"irontree agents retry {each.key}" for each in asked if each.state == "failed"),
    )


def _talk(talk: Discussion) -> tuple[Cell | str, ...]:
    if not talk.waits:
        state = Cell("being talked over", "busy")
    else:
        state = (
            Cell("waits for you: approve the parts or send them back", "asks")
            if talk.claimed
            else Cell("nobody claims a part", "faint")
        )
    return (f"#{talk.issue_number}", str(talk.round), f"{talk.answered} of {talk.members}", state)


def _row(request: AskedAgent) -> tuple[Cell | str, ...]:
    return (
        request.key,
        f"#{request.issue_number}",
        Cell(request.state, _STATE[request.state]),
        request.by,
        request.reason,
    )


# --- The standing approval


def _approve(context: Context) -> int:
    """Show what would be approved; with its name, approve it."""
    app, name = context.open(), context.options.name
    if name is None:
        text, name = standing_text(app)
        context.console.show(
            lambda: {"name": name, "text": text},
            (Verbatim(text, language="markdown"), *next_commands(f"irontree toolchain approve {name}")),
        )
        return OK
    with app.driver.hold("approve what the team may be asked", wait_seconds=WAIT_SECONDS):
        standing = approve_standing(app, name)
    by, members = standing.approval.by, ", ".join(member.name for member in standing.policy.team)
    context.console.show(
        lambda: {"name": name, "by": by},
        (TextLines((Cell(f"Approved by {by}: {members} may be asked in comments.", "good"),)),),
    )
    return OK


# --- What a repository needs for it


def _set_up(context: Context) -> int:
    """Say what is needed; with `--write`, make the labels, and the templates that are not there."""
    app = context.open()
    root = app.repository.root
    missing = {path: text for path, text in templates(app).items() if not os.path.lexists(root / path)}
    if context.options.write:
        with app.driver.hold("set up labels", wait_seconds=WAIT_SECONDS):
            app.forge().ensure_labels(tuple(map(_label, TASK_TYPES.values())))
        for path, text in missing.items():
            with disk_errors(root / path):
                write_beneath(root, path, text.encode())
    written = bool(context.options.write)
    context.console.show(lambda: as_json(app, missing, written=written), blocks(app, missing, written=written))
    return OK


def templates(app: App) -> Mapping[str, str]:
    """The issue templates for this forge, one for each type: path in the repository, and text."""
    folder = _TEMPLATES.get(app.forge().name)
    if folder is None:
        return {}
    return {
        f"{folder}/{profile.name}.md": app.renderer.render("example/issue.md", profile=profile)
        for profile in TASK_TYPES.values()
    }


def _label(profile: TaskTypeProfile) -> Label:
    return Label(profile.type_label, _COLOR, profile.about)


def as_json(app: App, missing: Mapping[str, str], *, written: bool) -> dict[str, Any]:
    """The documented JSON keys."""
    return {
        "labels": [profile.type_label for profile in TASK_TYPES.values()],
        "templates": list(missing),
        "written": written,
        "type_labels": app.preferences().type_labels,
    }


def blocks(app: App, missing: Mapping[str, str], *, written: bool) -> Iterator[OutputBlock]:
    """The human-readable output."""
    labels = ", ".join(profile.type_label for profile in TASK_TYPES.values())
    yield TextLines((f"{'labels, made where they were missing' if written else 'labels'}: {labels}",))
    if missing:
        yield TextLines(
            tuple(missing), title="Issue templates, written" if written else "Issue templates to be written"
        )
    if app.forge().name in _TEMPLATES:
        yield TextLines((Cell(f"The forge's webhook sends {_DELIVERIES}.", "faint"),))
    yield from next_commands(*_next(app, missing, written=written))


def _next(app: App, missing: Mapping[str, str], *, written: bool) -> Iterator[str]:
    root = app.repository.root
    elsewhere = "" if Path.cwd() == root else f"cd {shell_path(str(root))} && "
    if not app.preferences().type_labels:
        yield f"{elsewhere}echo 'toolchain: {{}}' >> .mino/config.yml   # the labels say then which type an issue is"
    if not written:
        yield "irontree toolchain setup --write"
    elif missing:
        folder = next(iter(missing)).rpartition("/")[0]
        yield f"{elsewhere}git add {folder} && git commit -m 'Add issue templates'"


_ACTIONS: Final[Mapping[str, Callable[[Context], int]]] = {"list": _list, "approve": _approve, "setup": _set_up}

VERBS: Final = {
    "toolchain": Verb(
        run,
        argument(
            "what",
            choices=tuple(_ACTIONS),
            nargs="?",
            help="what the team is asked and has not answered (default); by which settings it may be asked; labels "
            "and issue templates for each type of task",
        ),
        argument("name", metavar="NAME", nargs="?", help="approve: what is approved; without it, that is shown"),
        argument("--write", action="store_true", help="setup: make them; what is there already is left as it is"),
        JSON,
        epilog="docs/how-to/adopt-issues.md says what the labels do, docs/how-to/add-reviewers.md what a `team` is.",
    ),
}
