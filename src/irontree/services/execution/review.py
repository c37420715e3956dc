"""Reviewers: agents that review a commit once its checks have passed (R18).

A review becomes another result in the report: stored, shown, and context for the next attempt. Evidence that it cites
covers criteria that nothing else covers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from irontree.app import App
from irontree.domain.agents import ReviewerSpec
from irontree.domain.attempt import AttemptOutcome, Usage
from irontree.domain.budgets import Allowance
from irontree.domain.checks import CheckReport, CheckResult, ReviewCheck, result_of
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.review import (
    Assessment,
    InvalidAnswer,
    LineOf,
    cited,
    line_of_quote,
    read_assessment,
    requested_changes,
)
from irontree.domain.state import TaskState
from irontree.errors import EnvironmentRefused
from irontree.ports import AgentResult
from irontree.services.loops.funds import require_funds
from irontree.services.record import read_world, review_folder
from irontree.services.work.agent_requests import REVIEW, AgentRequest, ask_agent
from irontree.services.work.prompts import member_of


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """A reviewer gave no usable answer, through no fault of the attempt."""

    check: str
    reason: str
    remedy: str = ""
    waits: bool = False
    """Whether only time helps: the reviewer's service has a limit, or cannot be reached."""
    retry_at: datetime | None = None
    took: Mapping[str, object] = field(default_factory=dict)
    """What asking used, for `meta.reviewers`."""


def review(app: App, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport) -> CheckReport | NoVerdict:
    """Ask the reviewers that have not reviewed `report.anchor` yet, up to the first that asks for changes.

    None is asked about a commit that fails its checks or changes no code. Returns the report with their results. Raises
    Cancelled, and NotEligible once no budget is left for a reviewer.
    """
    spoken = {result.name for result in report.results}
    for reviewer in plan.policy.reviewers_of(node):
        if report.failed or not state.has_code:
            break
        if ReviewCheck(reviewer.name).name in spoken:
            continue
        folder = review_folder(app, state, reviewer.name)
        said = _Reviewing(app, state, plan, node, report.anchor, reviewer, folder).ask()
        if isinstance(said, NoVerdict):
            return said
        result, evidence = said
        report = report.model_copy(update={"results": (*report.results, result), "cited": {**report.cited, **evidence}})
        app.results.save(report)
    return report


@dataclass(frozen=True, slots=True)
class _Reviewing:
    """One reviewer, asked about one commit."""

    app: App
    state: TaskState
    plan: Plan
    node: PlanNode
    anchor: str
    reviewer: ReviewerSpec
    folder: Path

    def ask(self) -> tuple[CheckResult, dict[str, str]] | NoVerdict:
        """Ask until the answer is usable, at most three times. Raises NotEligible once no budget is left for it."""
        asked = ask_agent(self.app, self._agent_request(), self._found, self._allowance)
        if isinstance(asked.found, Assessment):
            return self._result(asked.found, asked.seconds, asked.usage), self._evidence(asked.found)
        if isinstance(asked.found, AttemptOutcome):
            none = self._stopped(asked.found, asked.last)
        else:
            none = self._unusable(asked.found, asked.rounds)
        return replace(none, took=self._took(asked.seconds, asked.usage))

    def _allowance(self) -> Allowance:
        return require_funds(self.app, read_world(self.app), self.state).allowance(self.state)

    def _unusable(self, answer: InvalidAnswer, rounds: int) -> NoVerdict:
        return NoVerdict(
            "no-review",
            f"the reviewer {self.reviewer.name} gave no usable verdict: {'; '.join(answer.problems)}",
            f"look at {self.folder / str(rounds)}, then go on: it is asked again",
        )

    def _took(self, seconds: float, usage: Usage) -> dict[str, object]:
        """What asking used, for the event without a verdict; each asking counts separately."""
        asked = f"{self.anchor} after {self.state.sequence}"
        return {"name": self.reviewer.name, "anchor": asked, "seconds": round(seconds, 3), **usage.known()}

    def _agent_request(self) -> AgentRequest:
        return AgentRequest(
            form=REVIEW,
            name=f"the review of issue-{self.state.issue_number}",
            note=f"review by {self.reviewer.name}",
            agent=self.reviewer,
            workspace=self.plan.policy.workspace,
            sha=self.anchor,
            published=self.state.began_from,
            values=self._values(),
            transcripts=self.folder,
            task_key=self.state.task_key,
            issue_number=self.state.issue_number,
            attempt=self.state.attempt_count,
        )

    def _values(self) -> dict[str, object]:
        """The change and its criteria (R18)."""
        return {
            "number": self.state.issue_number,
            "is_request": False,
            "node": self.node,
            "member": member_of(self.reviewer),
            "base": self.state.began_from,
            "anchor": self.state.commit or "",
            "quotes": (self.node,) if self.node.outsider else (),
        }

    def _found(self, content: bytes) -> Assessment | InvalidAnswer:
        return read_assessment(content.decode("utf-8", "replace"), self.node, lines_at(self.app, self.anchor))

    def _stopped(self, outcome: AttemptOutcome, result: AgentResult) -> NoVerdict:
        reason = f"the reviewer {self.reviewer.name} could not work: {outcome.reason}"
        return NoVerdict(outcome.check, reason, waits=outcome.then == "wait", retry_at=result.retry_at)

    def _evidence(self, verdict: Assessment) -> dict[str, str]:
        found = cited(verdict, self.node, lines_at(self.app, self.anchor)).items()
        return {text: f"{places} ({self.reviewer.name})" for text, places in found}

    def _result(self, verdict: Assessment, seconds: float, usage: Usage) -> CheckResult:
        words = requested_changes(verdict, self.node)
        code, took = 0 if verdict.approves else 1, usage.known() or None
        return result_of(ReviewCheck(self.reviewer.name), "exited", code, seconds=seconds, output=words, usage=took)


def lines_at(app: App, commit: str) -> LineOf:
    """Where a quotation stands in the commit, not in the reviewer's own copy."""

    def line_of(path: str, quote: str) -> int | None:
        try:
            document = app.repository.document_at(commit, path)
        except EnvironmentRefused:  # no text file, or no path that git accepts
            return None
        return line_of_quote(document.text, quote) if document else None

    return line_of


def took_of(report: CheckReport) -> list[dict[str, object]]:
    """What each reviewer of this commit used, for `meta.reviewers`, where each is counted once."""
    return [
        {"name": check.reviewer, "anchor": report.anchor, "seconds": result.seconds, **(result.usage or {})}
        for result in report.results
        if isinstance(check := result.check, ReviewCheck)
    ]
