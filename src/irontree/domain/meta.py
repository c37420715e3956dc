"""What events say in their `meta:`, beside the keys of the contract, with types (protocol, Meta)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _texts(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
    return tuple(map(str, items))


def _number(value: object) -> int | None:
    return int(str(value)) if str(value).isdecimal() else None


def _keys(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _all_keys(value: object) -> tuple[Mapping[str, Any], ...]:
    items = value if isinstance(value, (list, tuple)) else ()
    return tuple(item for item in items if isinstance(item, Mapping))


Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Number = Annotated[int | None, BeforeValidator(_number)]
Keys = Annotated[Mapping[str, Any], BeforeValidator(_keys)]


class _Keys(BaseModel):
    """The keys that are read; what is absent or null is empty. Whatever else there is stays as it is.

    Other tools and hands write here too, and it must not stop the log from being read: nothing is refused.
    """

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)


class Took(_Keys):
    """What an agent's record says of its end and of what it took; the figures may be anything, see `spending.taken`."""

    ended: Text = ""
    seconds: Any = None
    input_tokens: Any = None
    output_tokens: Any = None
    cost_usd: Any = None


class AgentMeta(Took):
    """The agent of an attempt: what was observed of its program, and what it says itself."""

    exit_code: Text = ""
    failure: Text = ""
    claims: Text = ""
    claims_success: Text = ""
    denied: Texts = ()

    @property
    def success(self) -> bool | None:
        """Whether it says that it did what was asked; None: it does not say."""
        return {"true": True, "false": False}.get(self.claims_success.lower())


class ReviewerMeta(Took):
    """A reviewer that spoke, or was asked, about a commit."""

    name: Text = ""
    anchor: Text = ""


class Meta(_Keys):
    """What `meta:` says beside an event."""

    time: Text = ""
    by: Text = ""
    note: Text = ""
    reason: Text = ""
    reasons: Texts = ()
    remedy: Text = ""
    comment: Text = ""
    approvers: Texts = ()
    flow_run: Text = ""
    warnings: Texts = ()
    allowed: Texts = ()
    not_before: Text = ""
    base_sha: Text = ""
    token: Text = ""
    archive_path: Text = ""
    salvage_ref: Text = ""
    restored_from: Text = ""
    fingerprint: Text = ""
    failed_check: Text = ""
    failed_at: Text = ""
    reviews: Texts = ()
    request: Number = None
    request_url: Text = ""
    output: Text = ""
    summary: Text = ""
    verifier_note: Text = ""
    promotion: Text = ""
    seconds: Any = None
    agent: Annotated[AgentMeta, BeforeValidator(_keys)] = Field(default_factory=AgentMeta)
    reviewers: Annotated[tuple[ReviewerMeta, ...], BeforeValidator(_all_keys)] = ()
    budget: Keys = {}
    detail: Text = ""
    skipped: Texts = ()
    intent: Text = ""
    resolved_query: Text = ""

    @property
    def why(self) -> tuple[str, ...]:
        """The reasons, or the one."""
        return self.reasons or (self.reason,)
