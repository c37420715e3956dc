"""The standing approval: the settings by which members of the team are asked without a plan (`irontree toolchain`)."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.agent_requests import StandingApproval
from irontree.domain.gates import name_of, names
from irontree.domain.plan import Approval, ExecutionPolicy
from irontree.errors import ApprovalRefused, NotEligible

_COMMAND = "irontree toolchain approve"


def standing_policy(app: App) -> ExecutionPolicy:
    """The approved settings, which are those of today. Raises NotEligible for others, and where nobody approved any."""
    policy, standing = app.policy(None), app.agent_requests.standing()
    if standing is None or standing.policy.digest != policy.digest:
        why = "nobody approved that" if standing is None else "the settings changed since that was approved"
        raise NotEligible(f"members of the team are not asked in comments: {why}", remedy=f"`{_COMMAND}` shows it")
    return policy


def standing_text(app: App) -> tuple[str, str]:
    """What would be approved now, as text, and the name of that. Raises NotEligible without a team."""
    policy = _policy_of_team(app)
    name = name_of(policy.digest)
    text = app.renderer.render("forms/standing.md", name=name, policy=policy, posts_to=app.preferences().tracker)
    return text, name


def approve_standing(app: App, given: str) -> StandingApproval:
    """Let the team be asked by the settings called *given*. The caller holds the driver lock.

    Raises ApprovalRefused for any but those of now, NotEligible without a team.
    """
    policy = _policy_of_team(app)
    if not names(given, policy.digest):
        raise ApprovalRefused(f"{given} does not name the settings of now", remedy=f"`{_COMMAND}` shows them")
    by = Approval(by=app.origin.actor, at=app.stamp(), channel=app.origin.channel)
    standing = StandingApproval(policy=policy, approval=by)
    app.agent_requests.approve(standing)
    return standing


def _policy_of_team(app: App) -> ExecutionPolicy:
    policy = app.policy(None)
    if not policy.team:
        raise NotEligible(
            "there is no `team` in .mino/config.yml, so there is nobody to ask",
            remedy="docs/how-to/add-reviewers.md says how to name one",
        )
    return policy
