"""Which members are asked about a new issue, and when: derived from what the forge shows and from our records (T1)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final

from irontree.domain.agent_requests import AskedAgent
from irontree.domain.agents import Member
from irontree.domain.claims import Contributed, contribution_of
from irontree.domain.commands import asks_to_discuss
from irontree.domain.comments import is_marked
from irontree.domain.issues import Comment, Issue
from irontree.domain.plan import ExecutionPolicy
from irontree.domain.task_types import reports_failure
from irontree.domain.timestamps import moment_in_utc, utc_text

ROUNDS: Final = 3
"""After that many a person divides the issue."""
_LATER: Final = re.compile(r"I\d+r(\d+)")


def round_of(request: AskedAgent) -> int:
    """The round that the request is part of, from 1."""
    later = _LATER.fullmatch(request.cause)
    return int(later[1]) if later else 1


def newest_round(issue_number: int, known: Iterable[AskedAgent]) -> tuple[AskedAgent, ...]:
    """What was asked in the newest round about that issue; empty if nothing was."""
    asked = [each for each in known if each.kind == "discussion" and each.issue_number == issue_number]
    newest = max(map(round_of, asked), default=0)
    return tuple(each for each in asked if round_of(each) == newest)


def is_talked_over(issue: Issue) -> bool:
    """Whether members are asked about it: open, with a type, and nobody's yet."""
    has_type = any(label.casefold().startswith("type/") for label in issue.labels)
    is_nobodys = not issue.assignees and not reports_failure(issue.title)
    return issue.state == "open" and has_type and is_nobodys and not issue.pull_request


def due_in_discussion(
    issue: Issue, comments: Sequence[Comment], policy: ExecutionPolicy, known: Collection[AskedAgent], since: datetime
) -> AskedAgent | None:
    """The request that is due next about that issue; None while one of the round is open, and once all are not.

    *since* is when a person approved that the team is asked (R6): an older issue, like that of somebody without write
    access, waits for a writer's `/discuss`.
    """
    asked = newest_round(issue.number, known)
    if not is_talked_over(issue) or any(each.is_open for each in asked):
        return None
    done = {each.member for each in asked}
    member = next((each for each in policy.discussing if each.name not in done), None)
    if member is None:
        return None
    if asked:
        return _for(member, asked[0])
    if is_persons(issue, policy) and _is_since(issue.created_at, since):
        return _for(member, _opening(issue, issue.author, issue.created_at, issue.url))
    calls = (one for one in comments if asks_to_discuss(one.body) and is_own_word(one, policy))
    call = next((one for one in calls if _is_since(one.created_at, since)), None)
    return _for(member, _opening(issue, call.author, call.created_at, call.url)) if call else None


def next_round(issue: Issue, comment: Comment, note: str, policy: ExecutionPolicy, number: int) -> AskedAgent:
    """The first request of round *number*, in which the team is told the *note* of that comment."""
    opening = _opening(issue, comment.author, comment.created_at, comment.url)
    changes = {"cause": f"I{issue.number}r{number}", "text": note}
    return _for(policy.discussing[0], opening.model_copy(update=changes))


def is_persons(said: Issue | Comment, policy: ExecutionPolicy) -> bool:
    """Whether a person with write access wrote it, and no member of the team (T3)."""
    return said.trusted and not policy.is_agents(said.author)


def is_own_word(comment: Comment, policy: ExecutionPolicy) -> bool:
    """Whether a person with write access wrote it as it is, and not the program under our account."""
    return is_persons(comment, policy) and not comment.edited and not (comment.ours and is_marked(comment.body))


def contributed(asked: Iterable[AskedAgent], policy: ExecutionPolicy) -> tuple[Contributed, ...]:
    """What came of these requests, in the order of the team."""
    order = {member.name: place for place, member in enumerate(policy.team)}
    in_order = sorted(asked, key=lambda each: (order.get(each.member, len(order)), each.member))
    return tuple(
        Contributed(each.member, contribution_of(each.answer) if each.answer is not None else None) for each in in_order
    )


def _is_since(text: str, since: datetime) -> bool:
    at = moment_in_utc(text)
    return at is not None and at >= since


def _opening(issue: Issue, by: str, at: str, url: str) -> AskedAgent:
    moment = moment_in_utc(at)
    return AskedAgent(
        kind="discussion",
        cause=f"I{issue.number}",
        member="nobody",
        issue_number=issue.number,
        by=by,
        text="",
        url=url,
        asked_at=utc_text(moment) if moment else at,
    )


def _for(member: Member, like: AskedAgent) -> AskedAgent:
    """The same asked of *member*, of which nothing has come yet."""
    asked = {"kind", "cause", "issue_number", "by", "text", "url", "asked_at"}
    return AskedAgent(member=member.name, **like.model_dump(include=asked))
