"""`irontree config`: every setting, its value and origin; `irontree completion`: shell completion scripts."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import shtab
from pydantic import BaseModel

from irontree.app import App
from irontree.cli.context import Context, Verb
from irontree.cli.output import Cell, OutputBlock, Style, Table, TextLines
from irontree.cli.parser import JSON, OK, argument
from irontree.config import Config, load_config
from irontree.domain.plan import Plan, PublishPolicy
from irontree.domain.values import Section
from irontree.errors import EnvironmentRefused

UNSET: Final = "(unset)"
SCHEMAS: Final[dict[str, type[BaseModel]]] = {"schema": Config, "plan-schema": Plan}


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key. `origin` is `file` or `default`; `value` is in the file's notation."""

    key: str
    value: Any
    origin: str
    description: str


def run_config(context: Context) -> int:
    """Print all settings, or a schema, which needs no repository."""
    if context.options.what:
        context.console.dump(SCHEMAS[context.options.what].model_json_schema(by_alias=True))
        return 0
    app = context.look()
    path = app.repository.root / ".mino" / "config.yml"
    settings = tuple(settings_of(load_config(path)))
    target = _target(app)
    context.console.show(lambda: as_json(path, settings, target), blocks(path, settings, target))
    return 0


def settings_of(section: Section, above: tuple[str, ...] = ()) -> Iterator[ConfigEntry]:
    """Every key of *section* and of those below it, in the schema's order."""
    for name, field in type(section).model_fields.items():
        path = (*above, field.alias or name)
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from settings_of(value, path)
        else:
            origin = "file" if name in section.model_fields_set else "default"
            yield ConfigEntry(".".join(path), _plain(value), origin, field.description or "")


def as_json(path: Path, settings: tuple[ConfigEntry, ...], target: PublishPolicy | None) -> dict[str, Any]:
    """The documented JSON keys."""
    return {
        "file": str(path),
        "exists": path.is_file(),
        "settings": [asdict(setting) for setting in settings],
        "publishes_to": {"remote": target.remote, "branch": target.target_branch} if target else None,
    }


def blocks(path: Path, settings: tuple[ConfigEntry, ...], target: PublishPolicy | None) -> Iterator[OutputBlock]:
    """The human-readable output."""
    there = "" if path.is_file() else " (not there: everything has its default)"
    yield TextLines((f"{path}{there}",))
    yield Table(("KEY", "FROM", "VALUE"), tuple(_row(setting) for setting in settings))
    yield TextLines((Cell("What each of them means: irontree config --json", "faint"),))
    if target:
        where = (
            f"{target.remote} {target.target_branch}" if target.remote else f"the local branch {target.target_branch}"
        )
        yield TextLines((f"Verified code goes to {where}.",))


def _row(setting: ConfigEntry) -> tuple[Cell | str, ...]:
    style: Style = "good" if setting.origin == "file" else "faint"
    return (setting.key, Cell(setting.origin, style), _shown(setting.value))


def _shown(value: Any) -> str:
    """The value on one line; a command as it would be typed."""
    if value is None or value == []:
        return UNSET
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return shlex.join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Convert models and tuples to JSON values."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def _target(app: App) -> PublishPolicy | None:
    """Where code would be published now; `None` if that cannot be determined (detached HEAD)."""
    try:
        return app.policy(None).publish
    except EnvironmentRefused:
        return None


# --- `irontree completion SHELL`: a script that lets the shell complete verbs, options and file names


_PATHS: Final = {"intent": shtab.FILE, "file": shtab.FILE, "folder": shtab.DIRECTORY}
"""Names (argparse `dest`) of arguments that take a path."""
SHELLS = tuple(shell for shell in shtab.SUPPORTED_SHELLS if shell in ("bash", "zsh", "fish"))


def run_completion(context: Context) -> int:
    """Print the script; no repository is needed."""
    context.console.write(f"{shtab.complete(whole_parser(), context.options.shell)}\n")
    return OK


def whole_parser() -> argparse.ArgumentParser:
    """One parser with all verbs; every other command imports the module of its own verb only."""
    from irontree.cli.main import VERBS, fill_parser

    parser = argparse.ArgumentParser(prog="irontree")
    verbs = parser.add_subparsers(metavar="VERB")
    for verb, text in VERBS.items():
        fill_parser(verb, filled := verbs.add_parser(verb, help=text))
        for action in filled._actions:  # noqa: SLF001  (argparse has no public way)
            if completes := _PATHS.get(action.dest):
                action.complete = completes  # type: ignore[attr-defined]
    return parser


VERBS: Final = {
    "config": Verb(
        run_config,
        argument(
            "what",
            nargs="?",
            choices=tuple(SCHEMAS),
            help="print a JSON Schema instead: of .mino/config.yml, or of the plans below .mino/plans/",
        ),
        JSON,
    ),
    "completion": Verb(
        run_completion,
        argument("shell", choices=SHELLS, help="how to load its script: docs/how-to/complete-in-the-shell.md"),
    ),
}
