"""Issues by members of the team that somebody closed: whom it may concern is told, and nobody is asked anything."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from irontree.app import App
from irontree.domain.comments import foreign
from irontree.domain.issues import Issue
from irontree.domain.text import one_line
from irontree.services.record import World, read_world

LONGEST: Final = 500
"""Characters of what is told of one text."""


class Closing(NamedTuple):
    """What is told of a closed issue; texts are inert and of one line."""

    number: int
    title: str
    closer: str
    last_comment: str
    url: str


class Closings(NamedTuple):
    """What a look has found: what is to be told, and the numbers of issues by members that are open (again)."""

    fresh: tuple[Closing, ...]
    open: frozenset[int]


def look_for_closings(app: App, since: str, told: Collection[int]) -> Closings:
    """The issues by members that changed since that moment (UTC), and were closed by somebody else and not *told* yet.

    One that our own work closed is no news. Raises RemoteFailed, and what reading the settings raises.
    """
    policy = app.policy(None)
    if not any(member.account for member in policy.team):
        return Closings((), frozenset())
    by_members = [each.issue for each in app.forge().changed_since(since) if policy.is_agents(each.issue.author)]
    closed = [issue for issue in by_members if issue.state == "closed" and issue.number not in told]
    world = read_world(app)
    fresh = tuple(closing for issue in closed if (closing := _closing(app, world, issue)))
    return Closings(fresh, frozenset(issue.number for issue in by_members if issue.state == "open"))


def _closing(app: App, world: World, issue: Issue) -> Closing | None:
    closer = app.forge().closer(issue.number)
    if (closer or "").casefold() == issue.author.casefold() or _is_our_work(app, world, issue.number):
        return None
    comments = app.forge().comments(issue.number)
    last = comments[-1].body if comments else ""
    title, comment = (foreign(one_line(text))[:LONGEST] for text in (issue.title, last))
    return Closing(issue.number, title, closer or "somebody", comment, issue.url)


def _is_our_work(app: App, world: World, number: int) -> bool:
    """Whether its work is done, or its request was merged."""
    state = world.find(number)
    if state is None or state.done or not state.request:
        return state is not None and state.done
    request = app.forge().read_pull_request(state.request)
    return request is not None and request.merged
