"""What is due to be looked at on the forge: comments under open questions, of which one list serves all, and merges."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from irontree.app import App
from irontree.domain.timestamps import moment_in_utc, utc_text
from irontree.ports import ChangedIssue, CommentMark
from irontree.services.delivery.comments import asked_in_comments
from irontree.services.execution.steps import catch_up
from irontree.services.questions.questions import Question
from irontree.services.record import read_world

_OVERLAP: Final = timedelta(minutes=5)
"""A list may show a later comment before an earlier one."""
_APPROVAL_HELD: Final = timedelta(minutes=5)
"""An approval names the text of its issue, and an edit is no comment."""


def _comments(app: App, moment: str) -> tuple[CommentMark, ...]:
    return app.forge().commented_since(moment)


Mark = TypeVar("Mark", CommentMark, ChangedIssue)


class Watch(Generic[Mark]):
    """Tells which entries of a list of the whole repository are new; it costs nothing where nothing changed.

    *listed* lists what changed since a moment (ISO 8601, UTC).
    """

    def __init__(self, listed: Callable[[App, str], tuple[Mark, ...]]) -> None:
        self._listed: Callable[[App, str], tuple[Mark, ...]] = listed
        self._marks: frozenset[Mark] = frozenset()

    def fresh(self, app: App, earliest: str) -> frozenset[Mark]:
        """Those that the last list did not have, or not as they are now; the first begins at *earliest* (UTC).

        Raises RemoteFailed.
        """
        newest = max((moment for mark in self._marks if (moment := moment_in_utc(mark.at))), default=None)
        found = frozenset(self._listed(app, utc_text(newest - _OVERLAP) if newest else earliest))
        fresh = found - self._marks
        self._marks = found or self._marks
        return fresh


class CommentWatch(Watch[CommentMark]):
    """Tells which comments are new."""

    def __init__(self) -> None:
        super().__init__(_comments)


class Lookout:
    """Remembers what was looked at; a new one looks at every question. Keep it as long as the ports are kept."""

    def __init__(self) -> None:
        self._looked: dict[tuple[str | None, ...], datetime] = {}
        self._watch = CommentWatch()

    def due(self, app: App, asked: tuple[Question, ...], earliest: str) -> tuple[Question, ...]:
        """Those that are new, that could not be settled, or under which somebody has commented since the last look.

        Those that ask for an approval are due again after some minutes. *earliest* is when the first of them may have
        been answered (ISO 8601, UTC). A single question is always due: its own comments take one call too. Raises
        RemoteFailed.
        """
        now = app.clock.now()
        held = {question.identity: question for question in asked if self._holds(question, now)}
        if len(asked) > 1 and held:
            fresh = {mark.issue_number for mark in self._watch.fresh(app, earliest)}
            held = {key: question for key, question in held.items() if question.under not in fresh}
        self._looked = {key: self._looked[key] for key in held}
        return tuple(question for question in asked if len(asked) == 1 or question.identity not in held)

    def looked(self, question: Question, at: datetime) -> None:
        """Note that this question was looked at, and nothing under it has to wait."""
        self._looked[question.identity] = at

    def _holds(self, question: Question, now: datetime) -> bool:
        at = self._looked.get(question.identity)
        if at is None:
            return False
        return question.reason != "reapproval_required" or abs(now - at) <= _APPROVAL_HELD


# --- The merges that are waited for


def take_merges(app: App) -> bool:
    """Record what ended a request that waits for its merge; whether that answered anything (R15).

    One call for each such request, and all of a look at requests only where one is open no more. What reviewers and CI
    say is looked at by whoever takes up work, and by webhooks. Raises Busy while others drive, and RemoteFailed.
    """
    asked = asked_in_comments(app)
    if not any(_has_ended(app, number) for number in _awaited(app, asked)):
        return False
    with app.driver.hold("look at requests"):
        catch_up(app)
    return {question.key for question in asked_in_comments(app)} != {question.key for question in asked}


def _awaited(app: App, asked: tuple[Question, ...]) -> tuple[int, ...]:
    """The requests whose merge is asked for."""
    world = read_world(app)
    states = (world.state(question.issue_number) for question in asked if question.issue_number is not None)
    return tuple(state.request for state in states if state.is_proposed and state.request is not None)


def _has_ended(app: App, number: int) -> bool:
    """Whether it may be open no more; of requests in files only git can tell, as far as it has fetched."""
    if app.forge().links.page is None:
        return True
    request = app.forge().read_pull_request(number)
    return request is None or request.state != "open"
