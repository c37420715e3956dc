"""Look at the forge for mentions of the team and new issues, and keep each as a request to be answered (T1)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from irontree.app import App
from irontree.domain.agent_requests import AskedAgent
from irontree.domain.agents import Member
from irontree.domain.timestamps import parsed, utc_text
from irontree.domain.toolchain import due_mentions
from irontree.errors import AccessRefused, NotEligible, RemoteFailed, RemoteUnavailable
from irontree.ports import ChangedIssue, CommentMark
from irontree.services.answers.lookout import CommentWatch, Watch
from irontree.services.proposals.again import UNREADABLE
from irontree.services.record import read_world
from irontree.services.toolchain.discussing import Progress, talk_over
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
            self._since = self._since or _begins(
                [each for each in known_requests(app).values() if each.kind == "mention"], approved
            )
            due, failed = _due(app, watch.fresh(app, self._since), team, approved)
            for asked in due:
                app.agent_requests.save(asked)
        if failed:
            raise failed
        self._watch = watch
        return due


class Talked(NamedTuple):
    """What came of a look at the issues that the team talks over."""

    asked: tuple[AskedAgent, ...] = ()
    """The requests that were saved, oldest first."""
    proposed: tuple[str, ...] = ()
    """Documents that wait for a person."""
    loop_ids: tuple[str, ...] = ()
    """Loops that a comment started."""


class DiscussionLookout:
    """Remembers which issues were looked at. Keep it as long as the ports are kept."""

    def __init__(self) -> None:
        self._issues: Watch[ChangedIssue] = Watch(lambda app, moment: app.forge().changed_since(moment))
        self._comments = CommentWatch()
        self._due: set[int] = set()
        self._looked: dict[int, tuple[AskedAgent, ...]] = {}
        """What was asked about an issue when it was looked at last."""

    def look(self, app: App) -> Talked:
        """Go on with every discussion in which something changed, or that begins, and save what is to be asked next.

        An issue that cannot be gone on with now stays due, and keeps no other from being looked at. Raises NotEligible
        while nobody has approved that the team is asked, Busy while another process looks, RemoteFailed.
        """
        policy = standing_policy(app)
        if policy.discussion is None:
            return Talked()
        with app.alive(LOOKING).hold("look for issues to talk over"):
            approved, known = _approved_at(app), tuple(known_requests(app).values())
            self._note_changes(app, [each for each in known if each.kind == "discussion"], approved)
            world, found = read_world(app), list[Progress]()
            for number in sorted(self._due):
                with suppress(*UNREADABLE):  # it stays due
                    found.append(talk_over(app, world, number, policy, known, approved))
                    self._due.discard(number)
                    self._looked[number] = _about(number, known)
            return _saved(app, found)

    def _note_changes(self, app: App, asked: Sequence[AskedAgent], approved: datetime) -> None:
        begins = _begins(asked, approved)
        self._due |= {mark.issue.number for mark in self._issues.fresh(app, begins)}  # kept if the next list fails
        self._due |= {mark.issue_number for mark in self._comments.fresh(app, begins)}
        moved = {each.issue_number for each in asked}
        self._due |= {each for each in moved if self._looked.get(each) != _about(each, asked)}


class TeamLookout:
    """All looks for what the forge asks of the team. Keep it as long as the ports are kept."""

    def __init__(self) -> None:
        self.mentions = MentionLookout()
        self.discussions = DiscussionLookout()


def _about(number: int, known: Iterable[AskedAgent]) -> tuple[AskedAgent, ...]:
    return tuple(each for each in known if each.kind == "discussion" and each.issue_number == number)


def _saved(app: App, found: Iterable[Progress]) -> Talked:
    found = tuple(found)
    asked = sorted((each.asked for each in found if each.asked), key=lambda asked: (asked.asked_at, asked.key))
    for each in asked:
        app.agent_requests.save(each)
    proposed = tuple(each.proposed for each in found if each.proposed)
    return Talked(tuple(asked), proposed, tuple(each.loop_id for each in found if each.loop_id))


def _approved_at(app: App) -> datetime:
    standing = app.agent_requests.standing()
    if standing is None:  # pragma: no cover - `standing_policy` has just seen it
        raise NotEligible("nobody approved that the team is asked")
    return parsed(standing.approval.at)


def _begins(known: Iterable[AskedAgent], approved: datetime) -> str:
    """What is older was looked at: requests of a kind are saved in the order in which they were asked."""
    newest = (parsed(asked.asked_at) - _OVERLAP for asked in known)
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
