"""The seal of files that no program of an agent may write: HMAC-SHA256 with a key that no workspace sees."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Final, TypeVar

from irontree.domain.plan import canonical_json
from irontree.domain.values import Value
from irontree.errors import LogDamaged
from irontree.files import read_bytes
from irontree.store.codec import read_mapping, typed, write_mapping

V = TypeVar("V", bound=Value)
KEY_BYTES: Final = 32
_SEAL: Final = "seal"


def whole_key(path: Path) -> bytes | None:
    """The key in that file; None if there is none, or not all of it."""
    key = read_bytes(path, KEY_BYTES)
    return key if key and len(key) == KEY_BYTES else None


def sealed(value: Value, key: bytes) -> bytes:
    """The file of *value*, with its seal."""
    return write_mapping(value.model_dump(mode="json") | {_SEAL: _seal_of(value, key)}).encode()


def is_sealed(value: Value, seal: str, key: bytes) -> bool:
    """Whether *seal* is the one that *key* makes of *value*."""
    return hmac.compare_digest(_seal_of(value, key).encode(), seal.encode())


def unsealed(model: type[V], data: bytes, path: str, *, limit: int, remedy: str) -> tuple[V, str]:
    """The value in a file, and its seal, which is not checked; empty if it has none. Raises LogDamaged."""
    try:
        mapping = read_mapping(data, path, limit=limit)
    except LogDamaged as error:
        raise LogDamaged(error.message, remedy=remedy) from error
    seal = str(mapping.pop(_SEAL, ""))
    return typed(model, mapping, path, remedy=remedy), seal


def not_ours(path: str, remedy: str) -> LogDamaged:
    """The error for a file whose seal is missing or wrong."""
    return LogDamaged(f"{path} was changed, or this program did not write it", remedy=remedy)


def _seal_of(value: Value, key: bytes) -> str:
    """64 hex over the canonical JSON."""
    return hmac.new(key, canonical_json(value.model_dump(mode="json")).encode(), hashlib.sha256).hexdigest()
