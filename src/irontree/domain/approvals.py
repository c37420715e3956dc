"""Approvals that a form asks for before anything is in the log (ruling R6): by what key, and what is known of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from irontree.errors import ApprovalRefused

_KEY: Final = re.compile(r"intake-([0-9a-f]{8}-[0-9a-f]{8})-")


@dataclass(frozen=True, slots=True)
class AskedApproval:
    """An approval that a suspended `intake` run asks for.

    *document* is a path, or names issues (`#12`). *name* is what approving has to name, `REVISION-SETTINGS`. *run* is
    the id of the flow run, *since* ISO 8601, UTC.
    """

    document: str
    name: str
    run: str
    since: str | None = None


def require_typed(given: str, name: str, *, enough: str = "") -> None:
    """Raise ApprovalRefused where *given* is nothing, or the mere beginning of *name*; the beginning *enough* will do.

    Nothing has changed then: who typed too little need not look for what did.
    """
    if not given:
        raise ApprovalRefused("the revision that is approved was not typed", remedy=f"look at it, and type {name}")
    if len(given) < len(enough or name) and name.startswith(given.lower()):
        raise ApprovalRefused(
            f"{given} is only the beginning of {name}, and says nothing of the rest of what was shown",
            remedy=f"look at it, and type it whole: {name}",
        )


def key_of_approval(name: str, stamp: str) -> str:
    """The key of the question whether *name* is approved, with what else was shown as *stamp*."""
    return f"intake-{name}-{stamp}"


def name_in_key(key: str) -> str | None:
    """What approving has to name, from the key of the question; None if it asks for no approval."""
    found = _KEY.match(key)
    return found[1] if found else None
