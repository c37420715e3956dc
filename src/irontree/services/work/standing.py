"""Requests to members of the team: by which settings they are asked without a plan, what is due, what has failed."""

from __future__ import annotations

from contextlib import suppress

from irontree.app import App
from irontree.domain.agent_requests import AskedAgent, is_due
from irontree.domain.plan import ExecutionPolicy
from irontree.errors import IrontreeError, LogDamaged, NotEligible


def standing_policy(app: App) -> ExecutionPolicy:
    """The approved settings, which are those of today. Raises NotEligible for others, and where nobody approved any."""
    policy, standing = app.policy(None), app.agent_requests.standing()
    if standing is None or standing.policy.digest != policy.digest:
        why = "nobody approved that it may" if standing is None else "the settings changed since it was approved"
        raise NotEligible(
            f"the team is asked nothing: {why}", remedy=f"irontree toolchain approve {policy.digest[:16]}"
        )
    return policy


def require_request(app: App, key: str) -> AskedAgent:
    """The request with that key. Raises NotEligible if there is none, LogDamaged."""
    request = app.agent_requests.load(key)
    if request is None:
        raise NotEligible(f"there is no request {key}", remedy="`irontree status` names those that failed")
    return request


def requests(app: App) -> tuple[AskedAgent, ...]:
    """All that can be read; `irontree audit` names the others."""
    found = []
    for key in app.agent_requests.keys():  # noqa: SIM118  (no mapping)
        with suppress(LogDamaged):
            found.append(require_request(app, key))
    return tuple(found)


def failed_requests(app: App) -> tuple[AskedAgent, ...]:
    """Those that a person may have asked again."""
    return tuple(request for request in requests(app) if request.state == "failed")


def due_requests(app: App) -> tuple[AskedAgent, ...]:
    """Those about which something can be done now, oldest first: answers to be posted, questions that may be asked."""
    now = app.stamp()
    due = [request for request in requests(app) if is_due(request, now)]
    if any(request.answer is None for request in due):
        try:
            standing_policy(app)
        except IrontreeError:  # whoever approves is told what is due
            due = [request for request in due if request.answer is not None]
    return tuple(sorted(due, key=lambda request: (request.asked_at, request.key)))
