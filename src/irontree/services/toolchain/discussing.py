"""Talk new issues over: whom to ask next, what all claims come to, and what people say to that."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from irontree.app import App, Origin
from irontree.domain.adoption import has_own_line
from irontree.domain.agent_requests import AskedAgent
from irontree.domain.claims import Breakdown, breakdown
from irontree.domain.commands import Command, Malformed, parse_command
from irontree.domain.comments import is_marked, shows_all
from irontree.domain.discussion import (
    ROUNDS,
    contributed,
    due_in_discussion,
    is_talked_over,
    newest_round,
    next_round,
    round_of,
)
from irontree.domain.issues import Comment, Issue
from irontree.domain.plan import ExecutionPolicy, Plan, canonical_digest
from irontree.errors import FORGE_FAILED, AnswerRefused, Busy, EnvironmentRefused, IrontreeError, LogDamaged, Refused
from irontree.services.answers.answers import between_steps
from irontree.services.answers.approve import approve
from irontree.services.delivery.comments import answer_marker, find_posted, post_once, proposal_marker
from irontree.services.loops.loop import read_loops
from irontree.services.proposals.again import UNREADABLE
from irontree.services.proposals.approval import approval_view
from irontree.services.proposals.proposal import Proposal, propose_from
from irontree.services.proposals.sources import drafted
from irontree.services.questions.questions import COMMENT
from irontree.services.record import World, read_world

WAIT_SECONDS: Final = 5.0
_DECIDE: Final = ("approve", "send-back")


class Progress(NamedTuple):
    """What came of a look at one issue."""

    asked: AskedAgent | None = None
    """What is to be asked next; it is not saved yet."""
    proposed: str = ""
    """The document that waits for a person."""
    loop_id: str = ""
    """The loop that a comment started."""


class Discussion(NamedTuple):
    """An issue that the team talks over, or whose parts wait for a person."""

    issue_number: int
    round: int
    answered: int
    """Members that answered in this round, or could not."""
    members: int
    claimed: bool
    """Whether the answers come to a document that divides the issue."""

    @property
    def waits(self) -> bool:
        """Whether nobody is to be asked any more, so that a person has the word."""
        return self.answered >= self.members


def discussions(app: App, known: Sequence[AskedAgent]) -> tuple[Discussion, ...]:
    """What is talked over, by number, until it is divided, closed or somebody's; all of it if the forge fails.

    *known* are all requests. Raises what reading the log and the settings raises.
    """
    world, policy = read_world(app), app.policy(None)
    numbers = sorted({each.issue_number for each in known if each.kind == "discussion"})
    still = (number for number in numbers if not _is_settled(app, world, number) and _may_be_talked_over(app, number))
    return tuple(_discussion(app, number, newest_round(number, known), policy) for number in still)


def _may_be_talked_over(app: App, number: int) -> bool:
    with suppress(*FORGE_FAILED):
        issue = app.forge().read_issue(number)
        return issue is not None and is_talked_over(issue)
    return True


def _discussion(app: App, number: int, asked: Sequence[AskedAgent], policy: ExecutionPolicy) -> Discussion:
    answered = {each.member for each in asked if not each.is_open}
    members = {each.member for each in asked} | {each.name for each in policy.discussing}
    return Discussion(number, round_of(asked[0]), len(answered), len(members), bool(app.agent_requests.draft(number)))


def talk_over(
    app: App, world: World, number: int, policy: ExecutionPolicy, known: Sequence[AskedAgent], since: datetime
) -> Progress:
    """Go on with the discussion of that issue, as far as the forge and our records allow.

    *known* are all requests, *since* is when a person approved that the team is asked. Raises Busy, RemoteFailed.
    """
    asked = newest_round(number, known)
    cut_off = _cut_off(app, world, number)
    issue = None if _is_settled(app, world, number) else app.forge().read_issue(number)
    if issue is None or (cut_off is None and not _may_begin(issue)):
        return Progress()
    comments = app.forge().comments(number)
    due = due_in_discussion(issue, comments, policy, known, since) if cut_off is None else None
    if due or not asked or any(each.is_open for each in asked):
        return Progress(asked=due)
    with between_steps(app, f"issue-{number}, proposal", wait_seconds=WAIT_SECONDS):
        if _is_settled(app, read_world(app), number):  # somebody was faster
            return Progress()
        return _Discussed(app, issue, policy, asked, {each.url for each in known}).go_on(comments)


def _may_begin(issue: Issue) -> bool:
    return is_talked_over(issue) and not (issue.trusted and has_own_line(issue.body))


def _is_settled(app: App, world: World, number: int) -> bool:
    """Whether the issue is a task of ours, and no approval of its parts was cut off."""
    return _is_taken_in(world, number) and _cut_off(app, world, number) is None


def _is_taken_in(world: World, number: int) -> bool:
    """Whether the issue is a task of ours."""
    plans = (plan.divides or plan.adoption for plan in world.plans.values())
    return world.find(number) is not None or any(taken and taken.issue_number == number for taken in plans)


def _cut_off(app: App, world: World, number: int) -> Plan | None:
    """The plan of a proposal that a comment approved and that a crash left without a loop."""
    path = app.agent_requests.draft_path(number)
    plan = next((plan for plan in world.plans.values() if plan.spec_path == path), None)
    if plan is None or plan.approval is None or plan.approval.channel != COMMENT:
        return None
    return None if any(plan.nodes[0].task_key in loop.keys for loop in read_loops(app)[0]) else plan


def _proposal(app: App, number: int) -> Proposal:
    """What approving the claims would do. Raises AnswerRefused if there are none."""
    draft = drafted(app, number)
    if draft is None:
        raise AnswerRefused("nobody claims a part of it", remedy=f"write a document with a line `Parent: #{number}`")
    return propose_from(app, draft, draft.spec_path)


class _Discussed(NamedTuple):
    """An issue about which nobody is to be asked any more in this round. The driver lock is held."""

    app: App
    issue: Issue
    policy: ExecutionPolicy
    asked: tuple[AskedAgent, ...]
    taken: Collection[str]
    """The addresses of comments that have begun a round."""

    def go_on(self, comments: Sequence[Comment]) -> Progress:
        """Propose what the claims come to, once, and take what people say to it."""
        number = self.issue.number
        found = breakdown(number, self.issue.title if self.issue.trusted else "", contributed(self.asked, self.policy))
        text = found.text if found.claimed else ""
        if (self.app.agent_requests.draft(number) or "") != text:
            self.app.agent_requests.save_draft(number, text)
            self.app.repository.back_up()
        world = read_world(self.app)
        if plan := _cut_off(self.app, world, number):
            if self._is_as_approved(plan):
                proposal = _proposal(self.app, number)
                return Progress(loop_id=approve(self.app, proposal, proposal.name, plan.approved_by).id)
            if any(node.task_key in world.states for node in plan.nodes):
                return self._say_what_changed(plan)
        name = self._named()
        marker = proposal_marker(number, canonical_digest([round_of(self.asked[0]), *found, name]))
        there = find_posted(comments, marker)
        if there is None:
            post_once(self.app, number, self._told(found, marker), marker)
            return Progress(proposed=self._document())
        answered = (self._answered(comments, there, each) for each in comments)
        return next(filter(None, answered), Progress(proposed=self._document()))

    def _is_as_approved(self, plan: Plan) -> bool:
        """Whether approving the claims now would approve nothing but *plan*, with the issue as it was read then."""
        with suppress(*UNREADABLE):
            proposal = _proposal(self.app, self.issue.number)
            return proposal.approved_plan == plan and proposal.draft.nodes == plan.nodes
        return False

    def _say_what_changed(self, plan: Plan) -> Progress:
        """Say once that an approval, half of which is published, is not gone on with."""
        number = self.issue.number
        marker = answer_marker(number, f"cut-off/{plan.digest}")
        text = self.app.renderer.render(
            "comments/not-taken.md",
            marker=marker,
            command="/approve",
            reason="it was cut off when part of it was published, and since then the issue, claims or settings changed",
            remedy=f"`irontree task '#{number}'` shows what it is now, and asks",
            answers=(),
        )
        post_once(self.app, number, text, marker)
        return Progress()

    def _named(self) -> str:
        """The name of what can be approved now; empty if it leaves something open."""
        with suppress(*UNREADABLE):
            return _proposal(self.app, self.issue.number).name
        return ""

    def _document(self) -> str:
        """The document that can be approved now; empty if it leaves something open."""
        with suppress(*UNREADABLE):
            return _proposal(self.app, self.issue.number).what
        return ""

    def _told(self, found: Breakdown, marker: str) -> str:
        values = {
            **found._asdict(),
            "number": self.issue.number,
            "by": self.asked[0].by,
            "questions": (),
            "approval": None,
            "last": round_of(self.asked[0]) == ROUNDS,
            "rounds": ROUNDS,
            "marker": marker,
        }
        render = self.app.renderer.render
        try:
            view = approval_view(self.app, _proposal(self.app, self.issue.number), loop_mode=True)
        except (Refused, EnvironmentRefused, LogDamaged) as error:
            questions = self._questions(error) if found.claimed else ()
            return render(_TEMPLATE, **values | {"questions": questions})
        text = render(_TEMPLATE, **values | {"approval": view})
        return text if shows_all(text) else render(_TEMPLATE, **values)

    def _questions(self, error: IrontreeError) -> tuple[str, ...]:
        """What keeps it from being approved, without the place in a file that readers do not see."""
        place = rf"{re.escape(self.app.agent_requests.draft_path(self.issue.number))}:(\d+:)? "
        return tuple(re.sub(place, "", line) for line in error.message.splitlines())

    # --- What people say to it

    def _answered(self, comments: Sequence[Comment], there: Comment, comment: Comment) -> Progress | None:
        """What came of that comment; None if it decides nothing, or was answered before."""
        command, marker = parse_command(comment.body), answer_marker(self.issue.number, comment.id)
        is_ours = (comment.ours and is_marked(comment.body)) or comment.url in self.taken
        decides = isinstance(command, Malformed) or (command is not None and command.choice.word in _DECIDE)
        if is_ours or not decides or find_posted(comments, marker) or not self._is_heard(comment):
            return None
        try:
            self._require_valid(comments, there, comment)
            return self._follow(there, comment, command)
        except Busy:
            raise
        except (Refused, EnvironmentRefused, LogDamaged) as error:
            self._refuse(comment, command, error, marker)
        return None

    def _is_heard(self, comment: Comment) -> bool:
        return self.policy.is_agents(comment.author) or self.app.forge().may_write(comment.author)

    def _require_valid(self, comments: Sequence[Comment], there: Comment, comment: Comment) -> None:
        if self.policy.is_agents(comment.author):
            raise AnswerRefused("an account of the team decides nothing", remedy="somebody with write access says it")
        if comment.edited:
            raise AnswerRefused("the comment was edited, possibly by someone else", remedy="say it in a new comment")
        if comments.index(comment) < comments.index(there):
            raise AnswerRefused("it was said before this was proposed", remedy="say it again if you still mean it")

    def _follow(self, there: Comment, comment: Comment, command: Command | Malformed | None) -> Progress:
        if not isinstance(command, Command):
            raise AnswerRefused(command.reason if command else "it says nothing")
        if command.choice.word == "approve":
            return self._approve(there, comment, command.argument)
        number = round_of(self.asked[0])
        if number == ROUNDS or not self.policy.discussing:
            why = f"the team has talked it over {ROUNDS} times" if number == ROUNDS else "nobody of the team discusses"
            how = f"write a document with a line `Parent: #{self.issue.number}`, and approve that"
            raise AnswerRefused(why, remedy=how)
        asked = next_round(self.issue, comment, command.note, self.policy, number + 1)
        self._settle(comment)
        return Progress(asked=asked)

    def _settle(self, comment: Comment) -> None:
        """Show that it was taken; once the issue is a task, it is no answer to what is asked there."""
        ledger = self.app.deliveries.load(self.issue.number)
        self.app.deliveries.save(self.issue.number, replace(ledger, settled=(*ledger.settled, comment.id)))
        self._react(comment)

    def _react(self, comment: Comment) -> None:
        with suppress(*FORGE_FAILED):  # nothing depends on it
            self.app.forge().react(self.issue.number, comment.id, "+1")

    def _approve(self, there: Comment, comment: Comment, name: str) -> Progress:
        proposal = _proposal(self.app, self.issue.number)
        proposal.require_named(name)
        if there.edited or f"`/approve {proposal.name}`" not in there.body:
            shown = f"`irontree task '#{self.issue.number}'` shows it, and asks"
            raise AnswerRefused("the comment that proposes it does not show what this would approve", remedy=shown)
        origin = Origin(comment.author, COMMENT, comment=comment.url, commented_at=comment.created_at)
        loop = approve(replace(self.app, origin=origin), proposal, name, comment.author)
        self._react(comment)
        return Progress(loop_id=loop.id)

    def _in_words(self, message: str) -> str:
        """The message for readers who do not see our files: the draft is what the issue comes to."""
        return message.replace(self.app.agent_requests.draft_path(self.issue.number), f"issue #{self.issue.number}")

    def _refuse(
        self,
        comment: Comment,
        command: Command | Malformed | None,
        error: Refused | EnvironmentRefused | LogDamaged,
        marker: str,
    ) -> None:
        """Say once why that was not taken, and what would be."""
        text = self.app.renderer.render(
            "comments/not-taken.md",
            marker=marker,
            command=f"/{command.choice.word}" if isinstance(command, Command) else comment.body.strip(),
            reason=self._in_words(error.message),
            remedy=error.remedy or "",
            answers=(),
        )
        post_once(self.app, self.issue.number, text, marker)


_TEMPLATE: Final = "comments/proposal.md"
