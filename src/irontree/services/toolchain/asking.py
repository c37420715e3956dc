"""One request to a member of the team, from its cause to what came of it: one answer, stored first, posted once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from irontree.app import App
from irontree.domain.agent_requests import (
    AskedAgent,
    RequestKind,
    answered,
    begun,
    failed,
    given_back,
    left_unposted,
    posted,
    used,
)
from irontree.domain.agents import Member
from irontree.domain.budgets import Allowance
from irontree.domain.claims import contribution_of, prose, read_contribution
from irontree.domain.comments import MOST_SAID, read_said
from irontree.domain.issues import Comment, Issue
from irontree.domain.plan import ExecutionPolicy
from irontree.domain.review import InvalidAnswer
from irontree.domain.task_types import TASK_TYPES
from irontree.domain.timestamps import utc_text
from irontree.domain.toolchain import asked_marker
from irontree.errors import Cancelled, IrontreeError, RemoteUnavailable
from irontree.services.answers.answers import between_steps
from irontree.services.delivery.comments import find_posted, post_once
from irontree.services.execution.steps import settle_leftovers
from irontree.services.loops.funds import require_funds_of_today
from irontree.services.record import read_world, request_folder
from irontree.services.toolchain.reviewing import hand_in, review_to_ask
from irontree.services.work.agent_requests import DISCUSSION, MENTION, AgentRequest, Asked, RequestForm, ask_agent
from irontree.services.work.standing import require_request, standing_policy

_FORMS: Final[Mapping[RequestKind, RequestForm]] = {"mention": MENTION, "discussion": DISCUSSION}
LATER: Final = timedelta(minutes=10)
"""How long a request rests that cannot be gone on with, where nobody says when it can."""
LONGEST: Final = 6_000
"""Characters that a prompt shows of one text."""
MOST_COMMENTS: Final = 30
"""The newest that a prompt shows."""


def answer_request(app: App, key: str, *, wait_seconds: float = 0) -> AskedAgent:
    """Have the request answered and the answer posted, as far as that is not done; returns the request after that.

    After a crash at any point, another call goes on from what is stored. Raises NotEligible if there is no such
    request, no standing approval or no budget left; Busy; RemoteFailed or EnvironmentRefused, and it is due again then.
    """
    _between_steps(app, key, _ask, wait_seconds)
    return _between_steps(app, key, _post, wait_seconds)


def _between_steps(
    app: App, key: str, step: Callable[[App, AskedAgent], AskedAgent], wait_seconds: float
) -> AskedAgent:
    if not (found := require_request(app, key)).is_open:
        return found
    with between_steps(app, key, wait_seconds=wait_seconds):
        before = require_request(app, key)  # somebody else may have been faster
        try:
            after = step(app, before)
        except IrontreeError as error:  # no process died; others have their turn meanwhile
            at = error.not_before if isinstance(error, RemoteUnavailable) else None
            _kept(app, given_back(before, error.message, utc_text(at) if at else _later(app)))
            raise
        app.repository.back_up()
    return after


def _later(app: App) -> str:
    return utc_text(app.clock.now() + LATER)


def _kept(app: App, request: AskedAgent) -> AskedAgent:
    app.agent_requests.save(request)
    return request


# --- Asking


def _ask(app: App, request: AskedAgent) -> AskedAgent:
    """Ask the member, unless that has been done or there is nothing to ask any more."""
    if not request.is_open or request.answer is not None:
        return request
    policy = standing_policy(app)
    member = next((one for one in policy.team if one.name == request.member), None)
    if member is None:
        return _kept(app, failed(request, f"the team has no member {request.member} any more"))
    if request.kind == "review":
        return _ask_review(_Asking(app, policy, member, request))
    issue = app.forge().read_issue(request.issue_number)
    if issue is None or issue.state == "closed":
        return _kept(app, left_unposted(request, f"issue #{request.issue_number} was closed before anybody was asked"))
    if request.kind == "discussion" and read_world(app).find(issue.number):
        return _kept(
            app, left_unposted(request, f"issue #{issue.number} is a task by now: there is nothing to discuss")
        )
    comments = app.forge().comments(request.issue_number)
    if there := find_posted(comments, asked_marker(request.key)):  # the request is older than its answer: a backup
        return _kept(app, posted(request, there.url))
    asking = _Asking(app, policy, member, request)
    return asking.ask(lambda: asking.mention(issue, comments), asking.read)


def _ask_review(asking: _Asking) -> AskedAgent:
    app, _, _, request = asking
    found = review_to_ask(*asking)
    if isinstance(found, str):
        return _kept(app, failed(request, found))
    return _kept(app, found) if isinstance(found, AskedAgent) else asking.ask(lambda: found.wanted, found.read)


class _Asking(NamedTuple):
    """A request whose member is there to be asked."""

    app: App
    policy: ExecutionPolicy
    member: Member
    request: AskedAgent

    def ask(self, wanted_now: Callable[[], AgentRequest], read: Callable[[bytes], str | InvalidAnswer]) -> AskedAgent:
        """Ask until the answer can be said, at most three times; the start is stored before the agent's."""
        self._allowance()
        settle_leftovers(self.app)
        wanted = wanted_now()
        started = _kept(self.app, begun(self.request))
        if not started.is_open:
            return started
        try:
            asked = ask_agent(self.app, wanted, read, self._allowance)
        except Cancelled:
            return _kept(self.app, failed(self.request, "it was stopped while the agent was at work"))
        return _kept(self.app, self._ended(started, asked))

    def _allowance(self) -> Allowance:
        return require_funds_of_today(self.app, read_world(self.app), self.policy.budgets, "answer")

    def _ended(self, started: AskedAgent, asked: Asked[str]) -> AskedAgent:
        found, retry_at = asked.found, asked.last.retry_at
        request = used(started, asked.seconds, asked.usage)
        if isinstance(found, str):
            return answered(request, found)
        if isinstance(found, InvalidAnswer):
            return failed(request, f"no usable answer in {asked.rounds} rounds: {'; '.join(found.problems)}")
        if found.then == "wait":
            before = used(self.request, asked.seconds, asked.usage)
            return given_back(before, found.reason, utc_text(retry_at) if retry_at else _later(self.app))
        return failed(request, found.reason)

    def read(self, content: bytes) -> str | InvalidAnswer:
        """What is said below the issue."""
        secrets = self.app.repository.secrets(self.policy.workspace)
        if self.request.kind == "discussion":
            return read_contribution(content, secrets)
        team = (name for one in self.policy.team for name in (one.name, one.account) if name)
        return read_said(content, secrets, (self.request.by, *team))

    def mention(self, issue: Issue, comments: Sequence[Comment]) -> AgentRequest:
        """What is asked by somebody who names the member there."""
        base = self.app.repository.base(self.policy.publish)
        return AgentRequest(
            form=_FORMS[self.request.kind],
            name=self.request.key,
            note=f"{self.member.name} is asked below issue #{issue.number}",
            agent=self.member,
            workspace=self.policy.workspace,
            sha=base,
            published=base,
            values=self._values(issue, comments),
            transcripts=request_folder(self.app, self.request.key),
            task_key=self.request.kind,
            issue_number=issue.number,
        )

    def _values(self, issue: Issue, comments: Sequence[Comment]) -> dict[str, object]:
        before = [one for one in comments if f"C{one.id}" != self.request.cause][-MOST_COMMENTS:]
        said = tuple(Said(one.author, one.body, outsider=not one.trusted) for one in before)
        about = () if issue.trusted else (Said(issue.author, f"{issue.title}\n\n{issue.body}", outsider=True),)
        return {
            "number": issue.number,
            "title": issue.title,
            "outsider": not issue.trusted,
            "body": issue.body,
            "member": self.member,
            "by": self.request.by,
            "question": self.request.text,
            "said": said,
            "quotes": (*about, *(one for one in said if one.outsider)),
            "kinds": tuple(TASK_TYPES),
            "most": f"{MOST_SAID:,}",
            "longest": LONGEST,
        }


class Said(NamedTuple):
    """What somebody wrote, as a prompt shows it; of an outsider it is data (R20)."""

    by: str
    text: str
    outsider: bool


# --- Posting the answer


def _post(app: App, request: AskedAgent) -> AskedAgent:
    """Post the answer, unless that has been done or its issue was closed meanwhile."""
    if not request.is_open or request.answer is None:
        return request
    if request.kind == "review":
        return _kept(app, hand_in(app, request))
    number, marker = request.issue_number, asked_marker(request.key)
    issue = app.forge().read_issue(number)
    if issue is None:
        return _kept(app, left_unposted(request, f"issue #{number} is gone"))
    if issue.state == "open":
        text = f"[{request.member}] {_said(request.kind, request.answer)}\n\n{marker}"
        return _kept(app, posted(request, post_once(app, number, text, marker)))
    there = find_posted(app.forge().comments(number), marker)
    closed = f"issue #{number} was closed meanwhile"
    return _kept(app, posted(request, there.url) if there else left_unposted(request, closed))


def _said(kind: RequestKind, answer: str) -> str:
    return prose(contribution_of(answer)) if kind == "discussion" else answer
