"""`irontree toolchain setup`: what a repository needs for a team that works in its forge."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from irontree.app import App
from irontree.cli.context import Context, Verb
from irontree.cli.output import Cell, OutputBlock, TextLines, next_commands
from irontree.cli.parser import OK, argument
from irontree.cli.trial import WAIT_SECONDS
from irontree.domain.task_types import TASK_TYPES, TaskTypeProfile
from irontree.domain.text import shell_path
from irontree.files import disk_errors, write_beneath
from irontree.ports import Label

_TEMPLATES: Final = {"github": ".github/ISSUE_TEMPLATE", "gitea": ".gitea/ISSUE_TEMPLATE"}
"""The folder where each forge looks for issue templates; the local one has none."""
_COLOR: Final = "1d76db"
_DELIVERIES: Final = "issues, comments, pull requests, reviews and statuses, as `application/json` with a secret"


def run(context: Context) -> int:
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


VERBS: Final = {
    "toolchain": Verb(
        run,
        argument("what", metavar="setup", choices=("setup",), help="labels and issue templates for each type of task"),
        argument("--write", action="store_true", help="make them; what is there already is left as it is"),
        argument("--json", action="store_true", help="print JSON"),
        epilog="docs/how-to/adopt-issues.md says what the labels do, docs/how-to/add-reviewers.md what a `team` is.",
    ),
}
