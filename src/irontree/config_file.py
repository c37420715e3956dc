"""The file `.mino/config.yml`: read with the line of every mistake, and changed without losing its comments.

The only module that imports ruamel.yaml (YAML 1.2, comments survive), and only when it reads or writes:
loading it takes as long as everything else that a read-only verb needs.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from irontree.config import Config
from irontree.domain.instructions import Instructions, read_instructions
from irontree.domain.permissions import PermissionRule
from irontree.domain.plan import Shell
from irontree.domain.settings import SHOWN_IN_FULL, Toolchain, unshown_settings
from irontree.domain.text import nearest
from irontree.domain.values import FROM_FILE, Section
from irontree.errors import ConfigRefused, EnvironmentRefused
from irontree.files import read_beneath, swap

if TYPE_CHECKING:
    from ruamel.yaml import YAML

_INSTRUCTIONS_BYTES: Final = 256 * 1024


def load_config(path: Path) -> Config:
    """Read the file; without one everything has its default. Raises ConfigRefused naming every key that is wrong."""
    data = _bytes(path)
    return Config() if data is None else read_config(data, str(path))


def _bytes(path: Path) -> bytes | None:
    """The file's content; None without one. Raises EnvironmentRefused for what is no file: a pipe would block."""
    try:
        if path.exists() and not path.is_file():
            raise EnvironmentRefused(f"{path}: is no file", remedy="move it away, or put a file in its place")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EnvironmentRefused(f"{path}: {error.strerror}", remedy="make the file readable") from error


@lru_cache(maxsize=16)
def read_config(data: bytes | str, name: str) -> Config:
    """Read YAML text (cached); *name* is its name in messages."""
    return _validated(_parsed(data, name), name)


def load_instructions(toolchain: Toolchain, root: Path) -> tuple[Instructions, ...]:
    """The steps that agents of the repository at *root* are told: those that come with this program, or a file's.

    Raises ConfigRefused, EnvironmentRefused.
    """
    if toolchain.templates is None:
        name = f"{toolchain.language}.yml"
        shipped = files("irontree.templates").joinpath("toolchain", name)
        return _instructions(shipped.read_bytes(), name) if toolchain.language else ()
    data = read_beneath(root, toolchain.templates, _INSTRUCTIONS_BYTES)
    if data is None:
        raise ConfigRefused(
            f"toolchain.templates: there is no file {toolchain.templates} in {root}, or a link is in its place",
            remedy="write it, or set toolchain.language to en or zh in its place",
        )
    return _instructions(data, toolchain.templates)


@lru_cache(maxsize=4)
def _instructions(data: bytes, name: str) -> tuple[Instructions, ...]:
    document = _parsed(data, name)
    return read_instructions(document, lambda place: _place(document, tuple(place), name, ()).removesuffix(": "))


def write_config(path: Path, values: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> None:
    """Set keys (`publish.remote`) in the file, keeping its comments and everything else; create it if need be.

    *comments* go above new keys and say where their values come from. Raises ConfigRefused, before anything is
    written, if the result would not be accepted.
    """
    document = _parsed(_bytes(path) or b"", str(path))
    for dotted, value in values.items():
        _set(document, dotted.split("."), value, (comments or {}).get(dotted))
    _write(path, document, given=values)


def set_setting(path: Path, name: str, text: str) -> None:
    """Set one key from the *text* of a command line, keeping the file's comments; raises as `write_config`.

    Where the setting takes no text it is read as YAML: a number, true, a list; `null` and `[…]` always are.
    """
    if text[:1] not in ("[", "{") and text not in ("null", "~"):
        with suppress(ConfigRefused):  # what is wrong is said of the value that the text stands for
            return write_config(path, {name: text})
    return write_config(path, {name: _parsed(f"value: {text}", name)["value"]})


def add_permissions(path: Path, rules: Sequence[PermissionRule]) -> None:
    """Append *rules* to `agent.permissions` in the file, keeping the rest; raises as `write_config`."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq  # noqa: PLC0415

    document = _parsed(_bytes(path) or b"", str(path))
    if not isinstance(document.get("agent"), Mapping):
        document["agent"] = CommentedMap()
    if not document["agent"].get("permissions"):
        document["agent"]["permissions"] = CommentedSeq()
    for rule in rules:
        entry = CommentedMap(rule.model_dump())
        entry.fa.set_flow_style()
        document["agent"]["permissions"].append(entry)
    _write(path, document)


def _write(path: Path, document: Any, given: Collection[str] = ()) -> None:
    _validated(document, str(path), given)
    text = io.StringIO()
    _yaml().dump(document, text)
    try:
        swap(path, text.getvalue().encode())
    except OSError as error:
        raise EnvironmentRefused(f"{path}: {error.strerror}", remedy="make the folder writable") from error


def _yaml() -> YAML:
    from ruamel.yaml import YAML  # noqa: PLC0415  (see the module's docstring)

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def _parsed(data: bytes | str, name: str) -> Any:
    """The document with its comments and line numbers; an empty one is an empty mapping."""
    from ruamel.yaml.comments import CommentedMap  # noqa: PLC0415
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415

    try:
        document = _yaml().load(data)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigRefused(f"{name}, line {line}: {error.problem}", remedy="put the YAML right") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise ConfigRefused(f"{name}: not readable as YAML text", remedy="save the file as UTF-8") from error
    except RecursionError:
        raise ConfigRefused(f"{name}: nested too deeply", remedy="`irontree config schema` lists every key") from None
    if document is None:
        return CommentedMap()
    if not isinstance(document, CommentedMap):
        raise ConfigRefused(f"{name}: expected keys such as `verify:`", remedy="see `irontree config schema`")
    return document


def _validated(document: Any, name: str, given: Collection[str] = ()) -> Config:
    """The settings of *document*; a key that is *given* from elsewhere stands in no line of the file."""
    try:
        config = Config.model_validate(document, context=FROM_FILE)
    except ValidationError as error:
        found = error.errors(include_url=False)
        lines = [f"{_place(document, item['loc'], name, given)}{_what(item)}" for item in found]
        raise ConfigRefused("\n".join(lines), remedy="`irontree config schema` lists every key") from error
    if hidden := dict(unshown_settings(config.model_dump(by_alias=True, exclude_unset=True))):
        lines = [f"{_place(document, location, name, given)}{what}" for location, what in hidden.items()]
        raise ConfigRefused("\n".join(lines), remedy=SHOWN_IN_FULL)
    return config


# YAML names for pydantic's Python terms.
_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "model_type": "keys below it",
    "string_type": "text",
    "tuple_type": "a list",
}


def _what(item: Mapping[str, Any]) -> str:
    """One of pydantic's findings in words for the file's author."""
    location = tuple(str(part) for part in item["loc"])
    key = ".".join(location)
    match item["type"]:
        case "extra_forbidden":
            guess = nearest(location[-1], _known_keys(location[:-1]))
            meant = f"; did you mean `{'.'.join((*location[:-1], guess))}`?" if guess else ""
            return f"unknown key `{key}`{meant}"
        case "missing":
            return f"`{key}` is missing"
        case "value_error":
            return f"{f'`{key}`: ' if key else ''}{item['msg'].removeprefix('Value error, ')}"
        case kind:
            expected = _EXPECTED.get(kind) or item["msg"].removeprefix("Input should be ")
            found = list(item["input"]) if isinstance(item["input"], tuple) else item["input"]
            return f"`{key}`: expected {expected}, got {found!r}"


def _known_keys(location: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of the section at *location*."""
    section: type[Section] = Config
    for part in location:
        field = section.model_fields.get(part)
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, Section):
            return tuple(Shell.model_fields)
        section = field.annotation
    return section.known_keys()


def _place(document: Any, location: tuple[int | str, ...], name: str, given: Collection[str]) -> str:
    """The file and the line of the deepest part of *location* that is there; empty for what is *given*."""
    key = f"{'.'.join(map(str, location))}."
    if any(f"{each}.".startswith(key) or key.startswith(f"{each}.") for each in given):
        return ""
    line = 0
    node = document
    for part in location:
        try:
            line = node.lc.data[part][0]
            node = node[part]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
    return f"{name}, line {line + 1}: "


def _set(document: Any, parts: list[str], value: Any, comment: str | None) -> None:
    from ruamel.yaml.comments import CommentedMap  # noqa: PLC0415

    *sections, key = parts
    for section in sections:
        if not isinstance(document.get(section), Mapping):
            document[section] = CommentedMap()
        document = document[section]
    is_new = key not in document
    document[key] = value
    if comment and is_new:
        document.yaml_set_comment_before_after_key(key, before=comment, indent=2 * len(sections))
