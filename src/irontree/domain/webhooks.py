"""What a forge signs when it tells that something happened: GitHub, and Gitea and Forgejo, which sign alike."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, Final

SIGNATURE: Final = "x-hub-signature-256"
CHANGES: Final = frozenset(
    {"closed", "reopened", "deleted", "edited", "transferred", "labeled", "unlabeled", "label_updated", "label_cleared"}
)
"""What forges call what is done to an issue itself."""


def is_signed(secret: str, body: bytes, headers: Mapping[str, str]) -> bool:
    """Whether *body* was signed with *secret* (HMAC-SHA256); *headers* by their names in small letters."""
    if not secret:
        return False
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), headers.get(SIGNATURE, "").encode(errors="replace"))


def changes_an_issue(payload: Mapping[str, Any]) -> bool:
    """Whether it tells of something that was done to an issue itself, not said under it, or to a request."""
    return "issue" in payload and "comment" not in payload and payload.get("action") in CHANGES


def changed_repository(body: bytes) -> str | None:
    """The page of the repository of which *body* tells that an issue there was changed; None for anything else."""
    try:
        payload = json.loads(body)
    except ValueError:
        return None
    if not isinstance(payload, dict) or not changes_an_issue(payload):
        return None
    repository = payload.get("repository")
    page = repository.get("html_url") if isinstance(repository, dict) else None
    return page if isinstance(page, str) else None
