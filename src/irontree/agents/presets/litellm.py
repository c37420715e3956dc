"""Errors of LiteLLM, which the Python agents print as `litellm.RateLimitError: ...`."""

from __future__ import annotations

import re
from typing import Final

from irontree.domain.attempt import FailureClass

ERROR: Final = re.compile(r"\blitellm\.(?:exceptions\.)?(?P<name>\w+(?:Error|Timeout)|Timeout)\b:? ?(?P<words>.*)")
_FAILURES: Final[dict[str, FailureClass]] = {
    "APIConnectionError": "unreachable",
    "APIError": "unreachable",
    "AuthenticationError": "not_authenticated",
    "BudgetExceededError": "limit_reached",
    "ContentPolicyViolationError": "refused",
    "ContextWindowExceededError": "limit_reached",
    "InternalServerError": "unreachable",
    "PermissionDeniedError": "not_authenticated",
    "RateLimitError": "rate_limited",
    "ServiceUnavailableError": "unreachable",
    "Timeout": "unreachable",
}


def failure_named(name: str) -> FailureClass | None:
    """The class of the exception with that name."""
    return _FAILURES.get(name)
