"""What the team is asked in the forge: derived from what the forge shows and from our records.

Never from an event: so lost, repeated and reordered ones change nothing (T1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple

from irontree.domain.agent_requests import AskedAgent
from irontree.domain.agents import Member
from irontree.domain.commands import parse_command
from irontree.domain.comments import is_marked
from irontree.domain.issues import Comment, Issue
from irontree.domain.requirements.markdown import words_said
from irontree.domain.timestamps import moment_in_utc, utc_text

MOST_DEPTH: Final = 2
"""A person's mention has depth 1, one in the answer to it 2; the answer to that asks nobody."""
_ASKED: Final = re.compile(r"^<!-- irontree:asked:([\w.-]+) -->$", re.MULTILINE)
_URL: Final = re.compile(r"(?:[a-z][a-z0-9+.-]{0,20}://|www\.)\S+", re.IGNORECASE)
# ASCII, because Chinese has no spaces around a name; `@org/team` and `@name@host` are other things.
_MENTION: Final = re.compile(r"(?<![A-Za-z0-9_@/+-])@([A-Za-z0-9_][A-Za-z0-9_.-]*+(?:\[bot\])?+)(?!@|/[A-Za-z0-9_])")
_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}")


def asked_marker(key: str) -> str:
    """The hidden last line of our comment that answers the request of that key."""
    return f"<!-- irontree:asked:{key} -->"


def due_mentions(
    issue: Issue,
    comments: Iterable[Comment],
    team: Iterable[Member],
    known: Mapping[str, AskedAgent],
    since: datetime,
) -> tuple[AskedAgent, ...]:
    """The requests that *comments* of that issue or pull request make and that are not *known* yet, oldest first.

    A writer asks whom the comment names; an answer of ours asks once more, but never its author. Nothing is due that
    was said before *since*, when a person approved that the team is asked (R6), or under what is closed.
    """
    members = tuple(team)
    by_handle = {each.account.casefold(): each for each in members if each.account}
    accounts = frozenset(by_handle)
    by_handle |= {each.name: each for each in members}
    due = {
        asked.key: asked
        for comment in (comments if issue.state == "open" else ())
        if (at := moment_in_utc(comment.created_at)) and at >= since
        if (speaker := _speaker(comment, issue.number, known, accounts))
        for member in _named(comment.body, by_handle)
        if member.name != speaker.member
        if (asked := _asked(comment, at, issue.number, member, speaker)).key not in known
    }
    return tuple(sorted(due.values(), key=lambda asked: (asked.asked_at, asked.key)))


class _Speaker(NamedTuple):
    """Who may ask; *member* is empty for a person."""

    by: str
    depth: int = 1
    member: str = ""


def _speaker(
    comment: Comment, issue_number: int, known: Mapping[str, AskedAgent], accounts: frozenset[str]
) -> _Speaker | None:
    """Who asks with this comment; None if it asks nobody.

    An edited one does not, as it commands nothing: the forge does not tell who edited it, and an agent's account may
    have write access (T3). Of comments under our account those with a marker are the program's, the others a person's.
    """
    if comment.edited:
        return None
    if comment.ours and is_marked(comment.body):
        keys = _ASKED.findall(comment.body)
        answered = known.get(keys[0]) if len(keys) == 1 else None
        if answered is None or answered.issue_number != issue_number or answered.depth == MOST_DEPTH:
            return None
        return _Speaker(answered.member, answered.depth + 1, answered.member)
    return _Speaker(comment.author) if comment.trusted and comment.author.casefold() not in accounts else None


def _named(body: str, by_handle: Mapping[str, Member]) -> Iterator[Member]:
    """The members that a comment names in words of its author; none if it is a command."""
    if "@" not in body or parse_command(body) is not None:
        return
    for found in _MENTION.finditer(_URL.sub(" ", words_said(body))):
        handle = found[1].casefold()
        if member := by_handle.get(handle) or by_handle.get(handle.rstrip(".-")):
            yield member


def _asked(comment: Comment, at: datetime, issue_number: int, member: Member, speaker: _Speaker) -> AskedAgent:
    return AskedAgent(
        kind="mention",
        cause=_cause(comment.id),
        member=member.name,
        issue_number=issue_number,
        by=speaker.by,
        text=comment.body,
        url=comment.url,
        depth=speaker.depth,
        asked_at=utc_text(at),
    )


def _cause(comment_id: str) -> str:
    """`C123`; of an id that no name of a file can hold, its digest."""
    return f"C{comment_id if _ID.fullmatch(comment_id) else sha256(comment_id.encode()).hexdigest()[:40]}"
