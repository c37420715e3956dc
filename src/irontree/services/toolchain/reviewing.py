"""Reviews that the team is asked for in the forge: what is due, what the agent is asked, handing it in (T1).

A review of the team is an opinion: it accepts nothing, and is no person's approval (T3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from irontree.app import App
from irontree.domain.agent_requests import AskedAgent, left_unposted, posted
from irontree.domain.agents import Member
from irontree.domain.comments import read_said
from irontree.domain.plan import ExecutionPolicy, PlanNode
from irontree.domain.review import InvalidAnswer, read_assessment, requested_changes
from irontree.domain.text import one_line
from irontree.domain.toolchain import asked_marker
from irontree.errors import NoSuchBranch
from irontree.ports import Opinion, PullRequest, Review
from irontree.services.execution.review import lines_at
from irontree.services.record import read_world, request_folder
from irontree.services.toolchain.looking import LOOKING, known_requests
from irontree.services.work.agent_requests import REVIEW, AgentRequest
from irontree.services.work.prompts import member_of
from irontree.services.work.standing import standing_policy

SOMEBODY: Final = "somebody on the forge"
"""Who asks for a review: no forge says it where it lists requests."""
NO_WORDS: Final = "Nothing to object to."
_SHA: Final = re.compile(r"[0-9a-f]{40,64}")


# --- What is due


def look_for_reviews(app: App) -> tuple[AskedAgent, ...]:
    """Save the reviews that are due, and return them; one call for all open requests, none before that is approved.

    Raises NotEligible while nobody has approved that the team is asked, Busy while another process looks, RemoteFailed.
    """
    team = tuple(member for member in standing_policy(app).team if member.role == "reviewer" and member.account)
    standing = app.agent_requests.standing()
    if not team or standing is None or not standing.reviews:
        return ()
    with app.alive(LOOKING).hold("look for reviews"):
        due = due_reviews(app.forge().open_pull_requests(), team, known_requests(app), app.stamp())
        for asked in due:
            app.agent_requests.save(asked)
    return due


def due_reviews(
    pulls: Iterable[PullRequest], reviewers: Iterable[Member], known: Mapping[str, AskedAgent], now: str
) -> tuple[AskedAgent, ...]:
    """The reviews of open requests, drafts left out, that are asked for and not *known* yet, in the order of *pulls*.

    A reviewer is asked if its account is, and again for each new head once it has reviewed an earlier one.
    """
    members = tuple(reviewers)
    earlier = {(one.issue_number, one.member) for one in known.values() if one.kind == "review" and one.posted}
    due = (
        _asked(pull, member, now)
        for pull in pulls
        if not pull.draft and _SHA.fullmatch(pull.head_sha)
        for member in members
        if _is_asked(pull, member) or (pull.number, member.name) in earlier
    )
    return tuple(asked for asked in due if asked.key not in known)


def _is_asked(pull: PullRequest, member: Member) -> bool:
    return str(member.account).casefold() in map(str.casefold, pull.requested_reviewers)


def _asked(pull: PullRequest, member: Member, now: str) -> AskedAgent:
    return AskedAgent(
        kind="review",
        cause=_cause(pull),
        member=member.name,
        issue_number=pull.number,
        by=SOMEBODY,
        text=pull.title,
        url=pull.url,
        asked_at=now,
    )


def _cause(pull: PullRequest) -> str:
    """A request is reviewed once at each head."""
    return f"R{pull.number}-{pull.head_sha[:12]}"


def _is_over(pull: PullRequest | None, request: AskedAgent) -> str:
    """Why nothing is to be handed in any more; empty if it still is."""
    if pull is None or pull.state != "open":
        return f"request #{request.issue_number} is open no more"
    return "" if _cause(pull) == request.cause else f"the head of request #{pull.number} moved meanwhile"


# --- Asking


class ReviewToAsk(NamedTuple):
    """What the agent is asked, and how its answer is read."""

    wanted: AgentRequest
    read: Callable[[bytes], str | InvalidAnswer]


def review_to_ask(
    app: App, policy: ExecutionPolicy, member: Member, request: AskedAgent
) -> ReviewToAsk | AskedAgent | str:
    """What is to be asked; the request as it ends without that; or why nobody can be asked. Raises RemoteFailed."""
    pull = app.forge().read_pull_request(request.issue_number)
    if there := _handed_in(app, request, pull):
        return posted(request, there)
    over = _is_over(pull, request)
    if pull is None or over:
        return left_unposted(request, over)
    base = _base_of(app, policy, pull)
    if base is None:
        where = policy.publish.remote or "this repository"
        return f"{pull.head_sha[:12]} is on no branch {pull.head_branch} of {where}: what others push is not run here"
    node = _node(app, pull)
    wanted = AgentRequest(
        form=REVIEW,
        name=request.key,
        note=f"{member.name} reviews request #{pull.number}",
        agent=member,
        workspace=policy.workspace,
        sha=pull.head_sha,
        published=base,
        values=_values(member, node, pull, base),
        transcripts=request_folder(app, request.key),
        task_key=request.kind,
        issue_number=pull.number,
    )
    return ReviewToAsk(wanted, lambda content: _read(app, policy, node, pull.head_sha, content))


def _base_of(app: App, policy: ExecutionPolicy, pull: PullRequest) -> str | None:
    """Where the change begins; None if its head is not on its branch of our remote, or has nothing in common with us.

    Whoever pushes there has write access: the set-up, and the agent, may run what is there.
    """
    head, target = (policy.publish.on_branch(branch) for branch in (pull.head_branch, pull.base_branch))
    try:
        for branch in (head, target):
            app.repository.base(branch, own=True)
    except NoSuchBranch:
        return None
    return (
        app.repository.fork_point(pull.head_sha, target) if app.repository.has_published(pull.head_sha, head) else None
    )


def _node(app: App, pull: PullRequest) -> PlanNode:
    """The task whose work it is, with its criteria; of any other request what its author says of it."""
    world = read_world(app)
    for state in world.states.values():
        if state.request == pull.number and state.task_key in world.plans:
            return world.node(state)
    shown = app.forge().read_issue(pull.number)
    outsider = "" if shown and shown.trusted else shown.author if shown else SOMEBODY
    title = one_line(pull.title) or f"request #{pull.number}"
    return PlanNode(task_key="request", title=title, description=pull.body, outsider=outsider)


def _values(member: Member, node: PlanNode, pull: PullRequest, base: str) -> dict[str, object]:
    return {
        "number": pull.number,
        "is_request": True,
        "node": node,
        "member": member_of(member),
        "base": base,
        "anchor": pull.head_sha,
        "quotes": (node,) if node.outsider else (),
    }


def _read(app: App, policy: ExecutionPolicy, node: PlanNode, head: str, content: bytes) -> str | InvalidAnswer:
    """The opinion in the first line, then what is said, as it is kept until it is handed in."""
    found = read_assessment(content.decode("utf-8", "replace"), node, lines_at(app, head))
    if isinstance(found, InvalidAnswer):
        return found
    words = requested_changes(found, node) or NO_WORDS
    said = read_said(words.encode(), app.repository.secrets(policy.workspace), ())
    opinion: Opinion = "approved" if found.approves else "changes_requested"
    return said if isinstance(said, InvalidAnswer) else f"{opinion}\n{said}"


# --- Handing it in


def hand_in(app: App, request: AskedAgent) -> AskedAgent:
    """Hand the review in at the head that was reviewed, unless that is done or nobody waits for it any more.

    Raises RemoteFailed.
    """
    pull = app.forge().read_pull_request(request.issue_number)
    if there := _handed_in(app, request, pull):
        return posted(request, there)
    over = _is_over(pull, request)
    if pull is None or over:
        return left_unposted(request, over)
    first, _, said = (request.answer or "").partition("\n")
    opinion: Opinion = "approved" if first == "approved" else "changes_requested"
    text = f"[{request.member}] {said}\n\n{asked_marker(request.key)}"
    app.forge().submit_review(pull.number, opinion, text, pull.head_sha)
    return posted(request, pull.url)


def _handed_in(app: App, request: AskedAgent, pull: PullRequest | None) -> str:
    """The address of the request, if our account has handed in the review; else empty."""
    if pull is None:
        return ""
    with_marker = [one for one in app.forge().reviews(pull.number) if asked_marker(request.key) in one.body]
    return pull.url if with_marker and _is_ours(app, with_marker) else ""


def _is_ours(app: App, reviews: Iterable[Review]) -> bool:
    account = app.forge().about().account.casefold()
    return any(one.author.casefold() == account for one in reviews)
