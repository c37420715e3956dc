"""`irontree plan NOTES.md` and `irontree example`: a requirement document from free-form text, or a sample."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from irontree.cli.context import Context, Verb
from irontree.cli.output import OutputBlock, TextLines
from irontree.cli.parser import JSON, OK, argument, wait
from irontree.domain.spec import MAX_BYTES
from irontree.domain.text import shell_path
from irontree.errors import EnvironmentRefused, Refused, RequirementsRefused
from irontree.services.execution.steps import settle_leftovers
from irontree.services.proposals.planner import PlannedDocument, plan_document


def run_example(context: Context) -> int:
    """Print the document unchanged."""
    context.console.write(example_text())
    return 0


def example_text() -> str:
    """The example that comes with the program."""
    return files("irontree.templates").joinpath("example", "requirements.md.j2").read_text(encoding="utf-8")


# --- `irontree plan NOTES.md`: have the agent turn a free-form text into a requirement document


def run_plan(context: Context) -> int:
    """Have the agent plan, and write the document."""
    options = context.options
    source = context.folder / options.text
    target = context.folder / (options.output or f"{source.with_suffix('')}.plan.md")
    text = _read(source, options.text)
    if target.exists() and not options.force:
        raise Refused(f"{target} is there already", remedy="name another file with --output, or overwrite with --force")
    app = context.open()
    with app.driver.hold(f"plan {options.text}", wait_seconds=options.wait):
        settle_leftovers(app)
        draft = plan_document(app, text, target.name, example_text())
    _write(target, draft.requirements.source)
    shown = str(target.relative_to(context.folder)) if target.is_relative_to(context.folder) else str(target)
    context.console.show(lambda: as_json(shown, draft), blocks(shown, draft))
    return OK


def as_json(target: str, draft: PlannedDocument) -> dict[str, Any]:
    """`document`, the `rounds` it took, and its `tasks` in order."""
    tasks = [{"task_key": node.task_key, "title": node.title} for node in draft.requirements.nodes]
    return {"document": target, "rounds": draft.rounds, "tasks": tasks}


def blocks(target: str, draft: PlannedDocument) -> Iterator[OutputBlock]:
    """The human-readable output."""
    tasks = tuple(f"- {node.title}" for node in draft.requirements.nodes)
    yield TextLines((f"{target}: {len(tasks)} tasks", *tasks))
    yield TextLines((f"Read it, change what you want otherwise, then: irontree task {shell_path(target)}",))


def _read(path: Path, shown: str) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RequirementsRefused((f"{shown}: {error.strerror}",)) from error
    if len(data) > MAX_BYTES:
        raise RequirementsRefused((f"{shown} has more than {MAX_BYTES} bytes",), remedy="cut it into several texts")
    return data.decode("utf-8", "replace")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise EnvironmentRefused(f"{path}: {error.strerror}", remedy="name another file with --output") from error


VERBS: Final = {
    "plan": Verb(
        run_plan,
        argument("text", metavar="NOTES.md", help="what you want, in any words"),
        argument("-o", "--output", metavar="SPEC.md", help="where the document goes (default: NOTES.plan.md)"),
        argument("--force", action="store_true", help="overwrite it"),
        wait(),
        JSON,
        epilog="The agent works in a workspace; nothing is approved, committed or published.",
    ),
    "example": Verb(run_example, epilog="irontree example > SPEC.md"),
}
