"""Strategies for every value of a model, from its fields alone: a field that is added is drawn without a new line.

`values_of` draws values. `written_settings` draws what a user may write into `.mino/config.yml`: some of the keys, each
with a value as YAML types it.
"""

from __future__ import annotations

import dataclasses
import types
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import annotated_types
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic.fields import FieldInfo

from irontree.domain import settings
from irontree.domain.settings import AGENT_ADAPTERS
from irontree.domain.task_types import TASK_TYPES, TaskType
from irontree.domain.values import FROM_FILE, Section

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    [
        "null",
        "true",
        "12",
        "1e3",
        "00123456",
        "~",
        "- a",
        "a: b",
        "{}",
        "[]",
        " a ",
        "two\nlines\n",
        "'",
        "\u2028",
        "\t",
    ]
)
_DIGEST = f"sha256:{'ab' * 32}"
# Of a text that a function checks, what passes it; whoever adds such a type adds some here.
_PASSING = {
    TaskType: tuple(TASK_TYPES),
    settings.RefName: ("main", "feature/x", "1e3", "null"),
    settings.InnerPath: (".env", "a/b.txt", "12", "two words"),
    settings.VariableName: ("TOKEN", "_x1", "NULL"),
    settings.AgentAdapter: AGENT_ADAPTERS,
    settings.BlockName: ("slack-webhook/team", "a/1"),
    settings.RepositoryName: ("ada/engine", "1/2"),
    settings.WebAddress: ("https://git.example.org", "http://127.0.0.1:3000/forge"),
    settings.ApiUrl: ("http://127.0.0.1:4200/api",),
    settings.ImageDigest: (_DIGEST, f"ghcr.io/a/b@{_DIGEST}", "12" * 32),
    settings.ShownPath: ("/srv/data", "~/.cargo/registry", "~/two words"),
    settings.Mount: ("/data", "/a:/b", "/a:/b:ro"),
}
_CHECKED = {id(checked.__metadata__[0]): texts for checked, texts in _PASSING.items()}
# Fields whose type says less than their validator takes.
_AMOUNTS = {"money": ("2.50 USD", "3", 2.5), "tokens": ("200000 tokens", 5000), "time": ("2h", "1h 30m")}
_BY_NAME = {
    **{name: st.sampled_from(examples) for name, examples in _AMOUNTS.items()},
    "time_zone": st.sampled_from(["UTC", "Europe/Vienna"]),
    "docs_path": st.sampled_from(["docs/", "docs/integrations", "1/2/"]),
}


@cache
def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a model, a dataclass or any annotation of a field."""
    return _strategy(kind, (), written=False)


@cache
def written_settings(section: type[Section]) -> st.SearchStrategy[dict[str, Any]]:
    """Keys of that section, as YAML has them, that are a whole section."""

    def is_one(keys: dict[str, Any]) -> bool:
        try:
            section.model_validate(keys, context=FROM_FILE)
        except ValidationError:
            return False
        return True

    return _keys(section, written=True).filter(is_one)


def _keys(model: type[BaseModel], *, written: bool) -> st.SearchStrategy[dict[str, Any]]:
    """The fields of *model*; as *written*, those without a default alone have to be there, and None is no value."""
    needed, others = {}, {}
    for name, field in model.model_fields.items():
        fixed = _BY_NAME.get(name) if written or issubclass(model, Section) else None
        strategy = _strategy(field.annotation, field.metadata, written=written) if fixed is None else fixed
        given = needed if field.is_required() else others
        given[(field.alias or name) if written else name] = strategy
    return st.fixed_dictionaries(needed, optional=others)


def _strategy(kind: Any, metadata: Any, *, written: bool) -> st.SearchStrategy[Any]:
    if get_origin(kind) is Annotated:
        kind, *more = get_args(kind)
        return _strategy(kind, (*metadata, *more), written=written)
    for checked in metadata:
        if isinstance(checked, AfterValidator):
            return st.sampled_from(_CHECKED[id(checked)])
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return st.builds(kind, **{name: _strategy(hint, (), written=False) for name, hint in hints.items()})
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return written_settings(kind) if written else _keys(kind, written=False).map(_made(kind)).filter(bool)
    return _generic(kind, metadata, written=written) if get_origin(kind) else _scalar(kind, _limits(metadata))


def _generic(kind: Any, metadata: Any, *, written: bool) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        item = st.deferred(lambda: _strategy(arguments[0], (), written=written))
        return st.lists(item, max_size=3).map(list if written else tuple)
    if origin is dict:
        key, value = (_strategy(each, (), written=written) for each in arguments)
        return st.dictionaries(key | st.text("ab ", min_size=900, max_size=1100), value, max_size=3)
    some = [each for each in arguments if not (written and each is types.NoneType)]
    return st.one_of([_strategy(each, metadata, written=written) for each in some])


def _made(model: type[BaseModel]) -> Any:
    """Makes the value, or None of fields that do not go together."""

    def make(fields: dict[str, Any]) -> BaseModel | None:
        try:
            return model(**fields)
        except ValidationError:
            return None

    return make


def _limits(metadata: Any) -> dict[str, Any]:
    """What the field's metadata say, as a strategy takes it."""
    limits: dict[str, Any] = {}
    for each in metadata:
        parts = each.metadata if isinstance(each, FieldInfo) else each
        for limit in parts if isinstance(parts, (list, annotated_types.GroupedMetadata)) else (parts,):
            said = {name: getattr(limit, name, None) for name in ("ge", "gt", "le", "min_length", "pattern")}
            limits |= {name: value for name, value in said.items() if value is not None}
    return limits


def _scalar(kind: Any, limits: dict[str, Any]) -> st.SearchStrategy[Any]:
    if kind is str and "pattern" in limits:
        return st.from_regex(limits["pattern"], fullmatch=True)
    scalars = {
        str: TEXTS.filter(lambda text: len(text) >= limits.get("min_length", 0)),
        Path: st.sampled_from(["ca.pem", "/etc/ssl/ca.pem", "12"]),
        bool: st.booleans(),
        int: st.integers(limits.get("ge", limits.get("gt", -11) + 1), limits.get("le", 10**9)),
        float: st.floats(allow_nan=False, allow_infinity=False),
        types.NoneType: st.none(),
    }
    return scalars[kind]
