"""Look at the forge for mentions of the team, and keep each as a request that is to be answered (T1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

from irontree.app import App
from irontree.domain.agent_requests import AskedAgent
from irontree.domain.plan import Member
from irontree.domain.timestamps import parsed, utc_text
from irontree.domain.toolchain import due_mentions
from irontree.errors import AccessRefused, NotEligible, RemoteFailed, RemoteUnavailable
from irontree.ports import CommentMark
from irontree.services.answers.lookout import CommentWatch
from irontree.services.work.standing import standing_policy

LOOKING: Final = "looking-for-mentions"
"""The lock that keeps a second look from saving a request again that has been begun meanwhile."""
_OVERLAP: Final = timedelta(days=1)
"""How long before the newest request a new process begins: an issue may not have been readable then."""


class MentionLookout:
    """Remembers which comments were looked at. Keep it as long as the ports are kept."""

    def __init__(self) -> None:
        self._watch: CommentWatch | None = None
        self._since = ""

    def look(self, app: App) -> tuple[AskedAgent, ...]:
        """Save the requests that are due, and return them, oldest first; one call where nobody has commented since.

        An issue that cannot be read keeps no other from being looked at. Raises NotEligible while nobody has approved
        that the team is asked, Busy while another process looks, RemoteFailed; then the next look sees it all again.
        """
        team = standing_policy(app).team
        with app.alive(LOOKING).hold("look for mentions"):
            approved = _approved_at(app)
            watch, self._watch = self._watch or CommentWatch(), None
            self._since = self._since or _begins(app, approved)
            due, failed = _due(app, watch.fresh(app, self._since), team, approved)
            for asked in due:
                app.agent_requests.save(asked)
        if failed:
            raise failed
        self._watch = watch
        return due


def _approved_at(app: App) -> datetime:
    standing = app.agent_requests.standing()
    if standing is None:  # pragma: no cover - `standing_policy` has just seen it
        raise NotEligible("nobody approved that the team is asked")
    return parsed(standing.approval.at)


def _begins(app: App, approved: datetime) -> str:
    """What is older was looked at: mentions are saved in the order in which they were asked."""
    known = known_requests(app).values()
    newest = (parsed(asked.asked_at) - _OVERLAP for asked in known if asked.kind == "mention")
    return utc_text(max((approved, *newest)))


def known_requests(app: App) -> dict[str, AskedAgent]:
    """All of them by their keys. Raises LogDamaged for one that cannot be read: it would be asked again."""
    keys = app.agent_requests.keys()
    return {key: asked for key in keys if (asked := app.agent_requests.load(key))}


def _due(
    app: App, fresh: Collection[CommentMark], team: tuple[Member, ...], approved: datetime
) -> tuple[tuple[AskedAgent, ...], RemoteFailed | None]:
    """What is due, oldest first, and why an issue could not be read. Raises what concerns the whole forge."""
    known = known_requests(app) if fresh else {}
    due, failed = list[AskedAgent](), None
    for number in sorted({mark.issue_number for mark in fresh}):
        since = min(mark.at for mark in fresh if mark.issue_number == number)
        try:
            due += _due_under(app, number, since, team, known, approved)
        except (RemoteUnavailable, AccessRefused):
            raise
        except RemoteFailed as error:
            failed = error
    return tuple(sorted(due, key=lambda asked: (asked.asked_at, asked.key))), failed


def _due_under(
    app: App, number: int, since: str, team: tuple[Member, ...], known: Mapping[str, AskedAgent], approved: datetime
) -> tuple[AskedAgent, ...]:
    issue = app.forge().read_issue(number)
    if issue is None or issue.state != "open":
        return ()
    return due_mentions(issue, app.forge().comments_since(number, since), team, known, approved)
