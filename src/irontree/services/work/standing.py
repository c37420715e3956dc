"""The standing approval: the settings by which members of the team are asked without a plan (`irontree toolchain`)."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.plan import ExecutionPolicy
from irontree.errors import NotEligible


def standing_policy(app: App) -> ExecutionPolicy:
    """The approved settings, which are those of today. Raises NotEligible for others, and where nobody approved any."""
    policy, standing = app.policy(None), app.agent_requests.standing()
    if standing is None or standing.policy.digest != policy.digest:
        why = "nobody approved that it may" if standing is None else "the settings changed since it was approved"
        raise NotEligible(
            f"the team is asked nothing: {why}", remedy=f"irontree toolchain approve {policy.digest[:16]}"
        )
    return policy
