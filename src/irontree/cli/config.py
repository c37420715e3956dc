"""`irontree config`: every setting, its value and origin; `get`, `set` and `explain` one; its schemas."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from irontree.app import App
from irontree.cli.context import Context, Verb
from irontree.cli.output import Cell, OutputBlock, Style, Table, TextLines
from irontree.cli.parser import JSON, OK, UsageError, argument
from irontree.config import Config
from irontree.config_file import load_config, set_setting
from irontree.domain.plan import Plan, PublishPolicy
from irontree.domain.text import sentence, suggestion
from irontree.domain.values import Section
from irontree.errors import ConfigRefused, EnvironmentRefused, NotEligible
from irontree.services.record import read_world
from irontree.store.layout import Layout

UNSET: Final = "(unset)"
SCHEMAS: Final[dict[str, type[BaseModel]]] = {"schema": Config, "plan-schema": Plan}


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key. `origin` is `file` or `default`; `value` is in the file's notation."""

    key: str
    value: Any
    origin: str
    description: str


def run(context: Context) -> int:
    """Print all settings, do with one what the options say, or print a schema, which needs no repository."""
    options = context.options
    _require_fit(options)
    if options.what in SCHEMAS:
        context.console.dump(SCHEMAS[options.what].model_json_schema(by_alias=True))
        return OK
    app = context.look()
    path = Layout(app.repository.root).config
    if options.what == "set":
        return _set(context, app, path)
    settings = tuple(settings_of(load_config(path)))
    if options.what is None:
        target = _target(app)
        context.console.show(lambda: as_json(path, settings, target), blocks(path, settings, target))
        return OK
    chosen = _named(settings, options.name)
    shown = _got(chosen, options.name) if options.what == "get" else _explained(chosen, options.name)
    context.console.show(lambda: {"settings": [asdict(one) | {"default": _DEFAULTS[one.key]} for one in chosen]}, shown)
    return OK


def _require_fit(options: argparse.Namespace) -> None:
    what = options.what
    if what in ("get", "set") and not options.name:
        raise UsageError(f"config {what} needs the name of a setting: irontree config {what} run.max_retry_count")
    if what == "set" and options.value is None:
        raise UsageError(f"config set needs a value: irontree config set {options.name} VALUE")
    if options.value is not None and what != "set":
        raise UsageError(f"config {what} takes no value: {options.value!r}")
    if options.name and what in SCHEMAS:
        raise UsageError(f"config {what} is of all settings; leave {options.name!r} out")


def _named(settings: tuple[ConfigEntry, ...], name: str | None) -> tuple[ConfigEntry, ...]:
    """The setting with that name, or those of a section; all without a name. Raises NotEligible if there is none."""
    found = tuple(one for one in settings if name in (None, one.key) or one.key.startswith(f"{name}."))
    if not found:
        close = suggestion(name or "", [one.key for one in settings])
        raise NotEligible(f"there is no setting {name}{close}", remedy="`irontree config` lists them")
    return found


def _got(chosen: tuple[ConfigEntry, ...], name: str) -> Iterator[OutputBlock]:
    """The value alone, as a script reads it; of a section, its settings with their values."""
    if [one.key for one in chosen] == [name]:
        yield TextLines((_shown(chosen[0].value),))
    else:
        yield _table(chosen)


def _explained(chosen: tuple[ConfigEntry, ...], name: str | None) -> Iterator[OutputBlock]:
    """What each setting means; of one that is named, its value and its default too."""
    if [one.key for one in chosen] != [name]:
        yield Table(("KEY", "WHAT IT MEANS"), tuple((one.key, one.description) for one in chosen))
        return
    [one] = chosen
    default = _shown(_DEFAULTS[one.key])
    value = f"Now: {_shown(one.value)}" + ("" if one.origin == "file" else ", which is the default")
    more = (f"Default: {default}",) if one.origin == "file" else ()
    yield TextLines((Cell(one.key, "title"), sentence(one.description), value, *more))
    yield TextLines((Cell(f"To change it: irontree config set {one.key} VALUE", "faint"),))


def _set(context: Context, app: App, path: Path) -> int:
    """Write the value into the file, if it is valid there, and say what becomes of approved work."""
    name, value = context.options.name, context.options.value
    before = _digest(app)
    set_setting(path, name, value)
    again = bool(read_world(app).plans) and _digest(context.look()) != before
    named = _named(tuple(settings_of(load_config(path))), name)
    # A section may have its short form, such as `sandbox: none`, or no key at all: all its defaults hold then.
    written = tuple(one for one in named if one.origin == "file") or named
    note = (Cell("Work that was approved before asks for approval again, with this change.", "asks"),) if again else ()
    lines = tuple(f"{one.key}: {_shown(one.value)}" for one in written)
    context.console.show(lambda: _as_set(written) | {"needs_approval": again}, [TextLines((*lines, *note))])
    return OK


def _as_set(written: tuple[ConfigEntry, ...]) -> dict[str, Any]:
    """The documented JSON keys of `config set`: one setting, or `settings` of a section."""
    return asdict(written[0]) if len(written) == 1 else {"settings": [asdict(one) for one in written]}


def _digest(app: App) -> str | None:
    """What an approval of work would name of the settings; `None` if it cannot be told now."""
    try:
        return app.policy(None).digest
    except (EnvironmentRefused, ConfigRefused):
        return None


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
    yield _table(settings)
    yield TextLines((Cell("What each of them means: irontree config explain", "faint"),))
    if target:
        where = (
            f"{target.remote} {target.target_branch}" if target.remote else f"the local branch {target.target_branch}"
        )
        yield TextLines((f"Verified code goes to {where}.",))


def _table(settings: tuple[ConfigEntry, ...]) -> Table:
    return Table(("KEY", "FROM", "VALUE"), tuple(_row(setting) for setting in settings))


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


_DEFAULTS: Final = {setting.key: setting.value for setting in settings_of(Config())}
VERBS: Final = {
    "config": Verb(
        run,
        argument(
            "what",
            nargs="?",
            choices=("get", "set", "explain", *SCHEMAS),
            help="one setting or section; or a JSON Schema: of .mino/config.yml, or of the plans below .mino/plans/",
        ),
        argument("name", metavar="NAME", nargs="?", help="a setting, such as run.max_retry_count"),
        argument("value", metavar="VALUE", nargs="?", help="set: as text, or in the notation of the file"),
        JSON,
    )
}
