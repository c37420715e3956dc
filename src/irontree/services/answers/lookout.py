"""Which open questions are due to be looked at on the forge: one list of the repository's comments serves them all."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from irontree.app import App
from irontree.domain.timestamps import moment_in_utc, utc_text
from irontree.ports import CommentMark
from irontree.services.questions.questions import Question

_OVERLAP: Final = timedelta(minutes=5)
"""A list may show a later comment before an earlier one."""
_APPROVAL_HELD: Final = timedelta(minutes=5)
"""An approval names the text of its issue, and an edit is no comment."""


class Lookout:
    """Remembers what was looked at; a new one looks at every question. Keep it as long as the ports are kept."""

    def __init__(self) -> None:
        self._looked: dict[tuple[str | None, ...], datetime] = {}
        self._marks: frozenset[CommentMark] = frozenset()

    def due(self, app: App, asked: tuple[Question, ...], earliest: str) -> tuple[Question, ...]:
        """Those that are new, that could not be settled, or under which somebody has commented since the last look.

        Those that ask for an approval are due again after some minutes. *earliest* is when the first of them may have
        been answered (ISO 8601, UTC). A single question is always due: its own comments take one call too. Raises
        RemoteFailed.
        """
        now = app.clock.now()
        held = {question.identity: question for question in asked if self._holds(question, now)}
        if len(asked) > 1 and held:
            fresh = self._commented(app, earliest)
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

    def _commented(self, app: App, earliest: str) -> frozenset[int]:
        """The issues with comments that the last list did not have, or not as they are now."""
        newest = max((moment for mark in self._marks if (moment := moment_in_utc(mark.at))), default=None)
        found = frozenset(app.forge().commented_since(utc_text(newest - _OVERLAP) if newest else earliest))
        fresh = found - self._marks
        self._marks = found or self._marks
        return frozenset(mark.issue_number for mark in fresh)
