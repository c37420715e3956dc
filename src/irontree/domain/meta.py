"""What events say in their `meta:`, beside the keys of the contract, with types (protocol, Meta)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)
_DIGITS: Final = 18  # Python refuses to convert some thousands of them, and an event file has room for more


def _anything(value: object) -> Any:
    return value


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _texts(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
    return tuple(map(str, items))


def _number(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def _keys(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _all_keys(value: object) -> tuple[Mapping[str, Any], ...]:
    items = value if isinstance(value, (list, tuple)) else ()
    return tuple(item for item in items if isinstance(item, Mapping))


class _Key(Generic[T_co]):
    """A key under the name of the attribute; *read* gives it its type when it is asked for."""

    def __init__(self, read: Callable[[object], T_co]) -> None:
        self._read = read

    def __set_name__(self, owner: type[_Keys], name: str) -> None:
        self._name = name

    def __get__(self, told: _Keys, owner: type[_Keys]) -> T_co:
        return self._read(told.keys.get(self._name))


class _Keys:
    """The keys that are read; what is absent or null is empty. Whatever else there is stays as it is.

    Other tools and hands write here too, and it must not stop the log from being read: nothing is refused.
    """

    def __init__(self, keys: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.keys = keys


class Took(_Keys):
    """What an agent's record says of its end and of what it took; the figures may be anything, see `spending.taken`."""

    ended = _Key(_text)
    seconds = _Key(_anything)
    input_tokens = _Key(_anything)
    output_tokens = _Key(_anything)
    cost_usd = _Key(_anything)


class AgentMeta(Took):
    """The agent of an attempt: what was observed of its program, and what it says itself."""

    exit_code = _Key(_text)
    failure = _Key(_text)
    claims = _Key(_text)
    claims_success = _Key(_text)
    denied = _Key(_texts)

    @property
    def success(self) -> bool | None:
        """Whether it says that it did what was asked; None: it does not say."""
        return {"true": True, "false": False}.get(self.claims_success.lower())


class ReviewerMeta(Took):
    """A reviewer that spoke, or was asked, about a commit."""

    name = _Key(_text)
    anchor = _Key(_text)


class Meta(_Keys):
    """What `meta:` says beside an event."""

    time = _Key(_text)
    by = _Key(_text)
    note = _Key(_text)
    reason = _Key(_text)
    reasons = _Key(_texts)
    remedy = _Key(_text)
    channel = _Key(_text)
    comment = _Key(_text)
    approvers = _Key(_texts)
    flow_run = _Key(_text)
    warnings = _Key(_texts)
    allowed = _Key(_texts)
    not_before = _Key(_text)
    base_sha = _Key(_text)
    fork_point = _Key(_text)
    token = _Key(_text)
    member = _Key(_text)
    approved_digest = _Key(_text)
    issue_digest = _Key(_text)
    archive_path = _Key(_text)
    salvage_ref = _Key(_text)
    restored_from = _Key(_text)
    fingerprint = _Key(_text)
    failed_check = _Key(_text)
    failed_at = _Key(_text)
    reviews = _Key(_texts)
    request = _Key(_number)
    request_url = _Key(_text)
    output = _Key(_text)
    summary = _Key(_text)
    unchanged = _Key(_text)
    report = _Key(_keys)
    red_before = _Key(_texts)
    verifier_note = _Key(_text)
    gate = _Key(_text)
    dropped = _Key(_texts)
    promotion = _Key(_text)
    seconds = _Key(_anything)
    agent = _Key(lambda value: AgentMeta(_keys(value)))
    reviewers = _Key(lambda value: tuple(map(ReviewerMeta, _all_keys(value))))
    budget = _Key(_keys)
    detail = _Key(_text)
    skipped = _Key(_texts)
    waiting = _Key(_texts)
    intent = _Key(_text)
    resolved_query = _Key(_text)

    @property
    def why(self) -> tuple[str, ...]:
        """The reasons, or the one."""
        return self.reasons or (self.reason,)
