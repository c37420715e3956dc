"""`irontree config`: every setting, its value, where it comes from; `config schema` and `plan-schema` for programs."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from irontree.cli.blocks import Block, Cell, Lines, Style, Table
from irontree.cli.context import Context
from irontree.cli.parser import add_json
from irontree.config import Config, load_config
from irontree.domain.plan import Plan, PublishPolicy
from irontree.domain.settings import Section
from irontree.errors import EnvironmentRefused

if TYPE_CHECKING:
    from irontree.app import App

UNSET: Final = "(unset)"
SCHEMAS: Final[dict[str, type[BaseModel]]] = {"schema": Config, "plan-schema": Plan}


@dataclass(frozen=True, slots=True)
class Setting:
    """One key. `origin` is `file` or `default`; `value` as the file would say it."""

    key: str
    value: Any
    origin: str
    description: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the name of a schema, or nothing."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=tuple(SCHEMAS),
        help="print a JSON Schema instead: of .mino/config.yml, or of the plans below .mino/plans/",
    )
    add_json(parser)


def run(context: Context) -> int:
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


def settings_of(section: Section, above: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Every key of *section* and of those below it, in the schema's order."""
    for name, field in type(section).model_fields.items():
        path = (*above, field.alias or name)
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from settings_of(value, path)
        else:
            origin = "file" if name in section.model_fields_set else "default"
            yield Setting(".".join(path), _plain(value), origin, field.description or "")


def as_json(path: Path, settings: tuple[Setting, ...], target: PublishPolicy | None) -> dict[str, Any]:
    """The documented keys."""
    return {
        "file": str(path),
        "exists": path.is_file(),
        "settings": [
            {"key": s.key, "value": s.value, "origin": s.origin, "description": s.description} for s in settings
        ],
        "publishes_to": {"remote": target.remote, "branch": target.target_branch} if target else None,
    }


def blocks(path: Path, settings: tuple[Setting, ...], target: PublishPolicy | None) -> Iterator[Block]:
    """The same for people."""
    there = "" if path.is_file() else " (not there: everything has its default)"
    yield Lines((f"{path}{there}",))
    yield Table(("KEY", "FROM", "VALUE"), tuple(_row(setting) for setting in settings))
    yield Lines((Cell("What each of them means: irontree config --json", "faint"),))
    if target:
        where = (
            f"{target.remote} {target.target_branch}" if target.remote else f"the local branch {target.target_branch}"
        )
        yield Lines((f"Verified code goes to {where}.",))


def _row(setting: Setting) -> tuple[Cell | str, ...]:
    style: Style = "good" if setting.origin == "file" else "faint"
    return (setting.key, Cell(setting.origin, style), _shown(setting.value))


def _shown(value: Any) -> str:
    """The value on one line: a command as one would type it."""
    if value is None or value == []:
        return UNSET
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return shlex.join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Models and tuples as the JSON that they stand for."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def _target(app: App) -> PublishPolicy | None:
    """Where code would be published to today; None where that cannot be said (detached HEAD)."""
    try:
        return app.policy(None).publish
    except EnvironmentRefused:
        return None
