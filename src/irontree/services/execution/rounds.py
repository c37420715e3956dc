"""The round review: once all parts of an issue are done, the lead is asked whether they reach its goal.

Its answer is stored before anything follows from it. It is a claim: what it finds missing is put to a person, who can
go on without it; nothing that it proposes begins before a person has approved it (T4).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from irontree.app import App
from irontree.domain.agent_requests import AskedAgent, again, answered, begun, failed, posted, request_key, used
from irontree.domain.agents import Member
from irontree.domain.budgets import Allowance
from irontree.domain.claims import RoundReview, grown, read_round, round_prose
from irontree.domain.events import CheckupUnblocked
from irontree.domain.issues import Issue
from irontree.domain.plan import Plan, canonical_digest
from irontree.domain.review import InvalidAnswer
from irontree.domain.state import TaskState
from irontree.domain.task_types import TASK_TYPES
from irontree.domain.text import counted, one_line, shell_path
from irontree.domain.toolchain import asked_marker
from irontree.errors import RemoteFailed
from irontree.ports import Stream
from irontree.services.delivery.comments import post_once
from irontree.services.execution.checkup import Decider, aggregate, require_parts_done
from irontree.services.execution.publication import patiently
from irontree.services.loops.funds import require_funds
from irontree.services.record import World, read_world, request_folder
from irontree.services.views.history import last_of
from irontree.services.work.agent_requests import ROUND, AgentRequest, ask_agent
from irontree.services.work.preflight import block, try_again_at

NEXT_ROUND: Final = "next-round"
GOAL_UNCLEAR: Final = "goal-unclear"
ROUNDS_USED: Final = "rounds-used"
NO_ROUND_REVIEW: Final = "no-round-review"
_OVERRIDDEN: Final = frozenset({NEXT_ROUND, GOAL_UNCLEAR, ROUNDS_USED})
"""Blocks that a person goes on from without the lead."""
_OBSERVATION: Final = re.compile(r"\s*\N{WARNING SIGN}\ufe0f?\s*\[(?:观察|observation)\]", re.IGNORECASE)
_LONGEST: Final = 6_000
_REASON: Final = 600
_MOST: Final = 30


def aggregate_reviewed(app: App, issue_number: int) -> TaskState:
    """Complete a container by its parts; the lead is asked first where an existing issue was divided.

    What the lead does not find covered blocks the issue. Raises NotEligible unless all parts are done, or without
    budget; Cancelled; RemoteFailed.
    """
    world = read_world(app)
    state, parts = require_parts_done(world, issue_number)
    plan = world.plan(state)
    lead = plan.policy.lead
    if lead is None or not state.issue_digest:
        return aggregate(app, issue_number)
    key = request_key("round", _cause(state, parts), lead.name)
    stored = app.agent_requests.load(key)
    if stored and stored.answer and (person := _who_went_on(app.log.read(issue_number))):
        return aggregate(app, issue_number, Decider(person))
    return _RoundReview(app, world, state, plan, lead, parts).settle(stored)


def _cause(state: TaskState, parts: tuple[str, ...]) -> str:
    """Another goal, or other parts, are another question."""
    return f"I{state.issue_number}n{len(parts)}-{canonical_digest([state.issue_digest, sorted(parts)])[:12]}"


def _who_went_on(stream: Stream) -> str:
    """Who let the issue go on without the lead, if its newest event says so."""
    event = stream.records[-1].event
    if not isinstance(event, CheckupUnblocked):
        return ""
    cleared = next((one.event for one in stream.records if one.event.sequence == event.cleared_sequence), None)
    return event.by if getattr(cleared, "blocking_check", "") in _OVERRIDDEN else ""


class PartDone(NamedTuple):
    """A part, as the lead is told of it."""

    number: int
    title: str
    said: str
    """The last words of its agent: a claim."""
    commit: str


class Observation(NamedTuple):
    """What somebody wrote down while the parts were done."""

    by: str
    text: str


@dataclass(frozen=True, slots=True)
class _RoundReview:
    """The lead, asked about one round of parts."""

    app: App
    world: World
    state: TaskState
    plan: Plan
    lead: Member
    parts: tuple[str, ...]

    def settle(self, stored: AskedAgent | None) -> TaskState:
        """Ask unless that is stored, say what the lead found, and record what follows."""
        if stored is None or stored.answer is None:
            stored, limit = self._ask(stored)
            if limit:
                return limit
        if stored.answer is None:
            return self._block(NO_ROUND_REVIEW, stored.reason, "go on: the lead is asked again")
        said = RoundReview.model_validate_json(stored.answer)
        if stored.is_open:
            self._post(stored, said)
        if said.verdict == "covered":
            return aggregate(self.app, self.state.issue_number, Decider(self.lead.name))
        return self._stop(said)

    def _stop(self, said: RoundReview) -> TaskState:
        finds = f"{self.lead.called_by_people} finds"
        number = self.state.issue_number
        in_draft = self.plan.spec_path == self.app.agent_requests.draft_path(number)
        approve = f"`irontree task {shell_path(f'#{number}' if in_draft else self.plan.spec_path)}`"
        as_it_is = "go on now, and the issue is done as it is"
        if said.verdict == "unclear":
            reason = f"{finds} the goal unclear: {one_line(said.next or said.coverage)[:_REASON]}"
            edit = f"edit #{number}, approve that with {approve}, and go on: the lead is asked again"
            return self._block(GOAL_UNCLEAR, reason, f"{edit}; or {as_it_is}")
        titles = ", ".join(f"“{claim.title}”" for claim in said.claims)
        if self._rounds() >= self.app.preferences().rounds:
            made = self.app.preferences().rounds
            used = f"{finds} more to do ({titles}), and {counted(made, 'round')} {'was' if made == 1 else 'were'} made"
            return self._block(ROUNDS_USED, used, as_it_is)
        if in_draft:
            self.app.agent_requests.save_draft(number, grown(self.plan.source, said.claims))
        add = "" if in_draft else f"add them to {self.plan.spec_path}, "
        again = f"{add}approve them with {approve}, and go on once they are done: the lead looks again"
        return self._block(NEXT_ROUND, f"{finds} more to do: {titles}", f"{again}; or {as_it_is}")

    def _block(self, check: str, reason: str, remedy: str) -> TaskState:
        return block(self.app, self.state, check, reason, remedy=remedy)

    def _rounds(self) -> int:
        """How many rounds of parts were looked at, this one included; an edited goal begins none."""
        begins = f"round-I{self.state.issue_number}n"
        return len({key.split("-")[1] for key in self.app.agent_requests.keys() if key.startswith(begins)})  # noqa: SIM118

    # --- asking

    def _ask(self, stored: AskedAgent | None) -> tuple[AskedAgent, TaskState | None]:
        """The request with what came of it; blocked until a timer if the service of the lead has a limit."""
        self._allowance()
        wanted = self._agent_request(self._issue())
        before = self._new() if stored is None else stored
        begins = self._kept(begun(again(before, self.app.stamp()) if before.state == "failed" else before))
        if not begins.is_open:
            return begins, None
        asked = ask_agent(self.app, wanted, self._read, self._allowance)
        request = used(begins, asked.seconds, asked.usage)
        if isinstance(asked.found, RoundReview):
            return self._kept(answered(request, asked.found.model_dump_json())), None
        if isinstance(asked.found, InvalidAnswer):
            why = f"{self.lead.name} gave no usable answer: {'; '.join(asked.found.problems)}"
            return self._kept(failed(request, why)), None
        kept = self._kept(failed(request, asked.found.reason))
        if asked.found.then != "wait":
            return kept, None
        later = try_again_at(self.app, self.state, asked.last.retry_at)
        return kept, block(self.app, self.state, asked.found.check, kept.reason, not_before=later)

    def _new(self) -> AskedAgent:
        return AskedAgent(
            kind="round",
            cause=_cause(self.state, self.parts),
            member=self.lead.name,
            issue_number=self.state.issue_number,
            by=self.plan.approved_by or "irontree",
            text="",
            asked_at=self.app.stamp(),
        )

    def _kept(self, request: AskedAgent) -> AskedAgent:
        self.app.agent_requests.save(request)
        return request

    def _allowance(self) -> Allowance:
        return require_funds(self.app, read_world(self.app), self.state).allowance(self.state)

    def _read(self, content: bytes) -> RoundReview | InvalidAnswer:
        return read_round(content, self.app.repository.secrets(self.plan.policy.workspace))

    def _issue(self) -> Issue:
        issue = patiently(self.app, lambda: self.app.forge().read_issue(self.state.issue_number))
        if issue is None:
            raise RemoteFailed(f"#{self.state.issue_number} is not there any more", remedy="restore it")
        return issue

    def _agent_request(self, issue: Issue) -> AgentRequest:
        policy, key = self.plan.policy, request_key("round", _cause(self.state, self.parts), self.lead.name)
        base = patiently(self.app, lambda: self.app.repository.base(policy.publish))
        return AgentRequest(
            form=ROUND,
            name=f"the round review of issue-{issue.number}",
            note=f"{self.lead.name} looks at what the parts of issue #{issue.number} come to",
            agent=self.lead,
            workspace=policy.workspace,
            sha=base,
            published=base,
            values={
                "number": issue.number,
                "title": issue.title,
                "body": issue.body,
                "outsider": self.world.node(self.state).outsider,
                "member": self.lead,
                "parts": tuple(map(self._part, self.parts)),
                "observations": self._observations(),
                "kinds": tuple(TASK_TYPES),
                "longest": _LONGEST,
            },
            transcripts=request_folder(self.app, key),
            task_key=self.state.task_key,
            issue_number=issue.number,
        )

    def _part(self, key: str) -> PartDone:
        state, node = self.world.states[key], self.world.nodes[key]
        completed = last_of(self.app.log.read(state.issue_number), "run_completed")
        said = completed.told.summary if completed else ""
        return PartDone(state.issue_number, node.title, said, (state.commit or "")[:12] if state.has_code else "")

    def _observations(self) -> tuple[Observation, ...]:
        """Comments on the issue and its parts that begin with the mark of an observation, whoever wrote them."""
        numbers = (self.state.issue_number, *(self.world.states[key].issue_number for key in self.parts))
        found = (comment for number in numbers for comment in self.app.forge().comments(number))
        noted = [Observation(one.author, one.body) for one in found if _OBSERVATION.match(one.body)]
        return tuple(noted[-_MOST:])

    # --- what came of it

    def _post(self, stored: AskedAgent, said: RoundReview) -> None:
        marker = asked_marker(stored.key)
        text = f"[{self.lead.name}] {round_prose(said)}\n\n{marker}"
        self._kept(posted(stored, post_once(self.app, self.state.issue_number, text, marker)))
