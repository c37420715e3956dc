"""Requests to members of the team: by which settings they are asked without a plan, what is due, what has failed."""

from __future__ import annotations

from contextlib import suppress

from irontree.app import App
from irontree.domain.agent_requests import AskedAgent, StandingApproval, is_due
from irontree.domain.gates import name_of, names
from irontree.domain.instructions import TOLD
from irontree.domain.loop import default_budget
from irontree.domain.plan import Approval, ExecutionPolicy
from irontree.errors import ApprovalRefused, IrontreeError, LogDamaged, NotEligible

_COMMAND = "irontree toolchain approve"


def standing_policy(app: App) -> ExecutionPolicy:
    """The approved settings, which are those of today. Raises NotEligible for others, and where nobody approved any."""
    standing = app.agent_requests.standing()
    policy = app.policy(standing.policy.publish if standing else None)
    if standing is None or standing.policy.digest != policy.digest:
        why = "nobody approved that" if standing is None else "the settings changed since that was approved"
        raise NotEligible(f"members of the team are not asked in comments: {why}", remedy=f"`{_COMMAND}` shows it")
    return policy


def standing_text(app: App) -> tuple[str, str]:
    """What would be approved now, as text, and the name of that. Raises NotEligible without a team."""
    wanted = _wanted(app)
    name = name_of(wanted.digest)
    told = {"standing": wanted, "posts_to": app.preferences().tracker, "work": _work(app, wanted.policy)}
    return app.renderer.render("forms/standing.md", name=name, **told), name


def _work(app: App, policy: ExecutionPolicy) -> dict[str, object]:
    """What the approval of any issue would show of the settings, by the names of that approval's template."""
    return {
        "policy": policy,
        "told": tuple(each for each in policy.instructions if each.action in TOLD),
        "checks": policy.checks,
        "configured": True,
        "detection": policy.detection,
        "budget": app.preferences().loop_budget or default_budget(1),
        "in_full": True,
        "tasks": (),
        "steps": False,
        "divides": False,
        "switches": False,
        "estimate": "",
        "tracker": app.preferences().tracker,
    }


def _wanted(app: App) -> StandingApproval:
    """What the settings of now ask for, as whoever is here would approve it. Raises NotEligible without a team."""
    policy = _policy_of_team(app)
    return StandingApproval(
        policy=policy,
        approval=Approval(by=app.origin.actor, at=app.stamp(), channel=app.origin.channel),
        assignment=app.preferences().approves_by_assignment,
        reviews=any(member.role == "reviewer" and member.account for member in policy.team),
    )


def approve_standing(app: App, given: str) -> StandingApproval:
    """Let the team be asked by the settings called *given*. The caller holds the driver lock.

    Raises ApprovalRefused for any but those of now, NotEligible without a team.
    """
    standing = _wanted(app)
    if not names(given, standing.digest):
        raise ApprovalRefused(f"{given} does not name the settings of now", remedy=f"`{_COMMAND}` shows them")
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
    return tuple(request for request in requests(app) if request.state == "failed" and request.kind != "round")


def due_requests(app: App) -> tuple[AskedAgent, ...]:
    """Those about which something can be done now, oldest first: answers to be posted, questions that may be asked."""
    now = app.stamp()
    # The lead is asked by the step that aggregates.
    due = [request for request in requests(app) if request.kind != "round" and is_due(request, now)]
    if any(request.answer is None for request in due):
        try:
            standing_policy(app)
        except IrontreeError:  # whoever approves is told what is due
            due = [request for request in due if request.answer is not None]
    return tuple(sorted(due, key=lambda request: (request.asked_at, request.key)))
