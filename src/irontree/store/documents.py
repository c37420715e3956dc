"""One value, one YAML file: plans, results, loop entities, cursors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from irontree.domain.values import Value
from irontree.errors import LogDamaged
from irontree.store.codec import read_mapping, write_mapping

V = TypeVar("V", bound=Value)


def encode_value(value: Value) -> bytes:
    """The file's bytes, keys in the model's order; equal values have equal bytes."""
    return write_mapping(value.model_dump(mode="json")).encode()


def decode_value(model: type[V], data: bytes, path: str, *, limit: int, remedy: str) -> V:
    """The value in *data*; raises LogDamaged with *remedy* if it is not a *model*."""
    try:
        mapping = read_mapping(data, path, limit=limit)
    except LogDamaged as error:
        raise LogDamaged(error.message, remedy=remedy) from error
    return validated(model, mapping, path, remedy=remedy)


def validated(model: type[V], mapping: Mapping[str, Any], path: str, *, remedy: str) -> V:
    """The value in *mapping*, as it was read from *path*; raises LogDamaged with *remedy* if it is not a *model*."""
    try:
        return model.model_validate(mapping)
    except ValidationError as error:
        raise LogDamaged(f"{path}: {first_error(error)}", remedy=remedy) from error


def first_error(error: ValidationError) -> str:
    """The first of pydantic's findings, in one line."""
    found = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in found["loc"])
    return f"{key}: {found['msg']} (found {found.get('input')!r:.80})"
