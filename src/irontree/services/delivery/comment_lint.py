"""Our comments as they stand on the forge, held against what one may hold (Slim Comment Invariant, ruling R10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from irontree.app import App
from irontree.domain.lint import marked_problems


@dataclass(frozen=True, slots=True)
class CommentFinding:
    """A comment of ours that holds what it must not; `comment` is its address, `problems` are words for people."""

    issue_number: int
    comment: str
    problems: tuple[str, ...]


def lint_comments(app: App) -> tuple[CommentFinding, ...]:
    """Every comment of our own account that this program posted and that breaks the policy. Reads only.

    What a person wrote with the same account carries no marker of ours and is nobody's business here. Raises
    RemoteFailed if the forge cannot be read.
    """
    return tuple(finding for number in app.log.streams() for finding in _findings(app, number))


def _findings(app: App, issue_number: int) -> Iterator[CommentFinding]:
    if app.forge().read_issue(issue_number) is None:
        return
    for comment in app.forge().comments(issue_number):
        problems = marked_problems(comment.body) if comment.ours else ()
        if problems:
            yield CommentFinding(issue_number, comment.url or comment.id, problems)
