"""What a forge signs when it tells that something happened: GitHub, and Gitea and Forgejo, which sign alike."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

SIGNATURE: Final = "x-hub-signature-256"


def is_signed(secret: str, body: bytes, headers: Mapping[str, str]) -> bool:
    """Whether *body* was signed with *secret* (HMAC-SHA256); *headers* by their names in small letters."""
    if not secret:
        return False
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), headers.get(SIGNATURE, "").encode(errors="replace"))
