"""Reviewers: agents that look at a commit once its checks have passed (ruling R18).

What a reviewer says becomes one more result of the report: stored, shown, and context of the next attempt. Evidence
that it cites covers criteria which nothing else covers. It works on a copy that nobody uses afterwards.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from irontree.app import App
from irontree.domain.plan import Plan, PlanNode, ReviewerSpec
from irontree.domain.results import CheckReport, CheckResult, truncate
from irontree.domain.review import ReviewVerdict, Unusable, cited, in_words, read_verdict
from irontree.domain.state import TaskState
from irontree.errors import Cancelled
from irontree.ports import AgentResult, AgentTask
from irontree.services.execution.prompt import review_prompt
from irontree.services.execution.transcripts import how_it_ended, read_answer, transcript_folder

ROUNDS: Final = 3
VERDICT_FILE: Final = "verdict.json"
VERDICT_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """A reviewer said nothing usable: a person has to look at it, and the attempt is not to blame."""

    reason: str
    remedy: str


def review(app: App, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport) -> CheckReport | NoVerdict:
    """Ask the reviewers that have not spoken yet about `report.anchor`, up to the first that asks for changes.

    Nobody is asked about what fails its checks, nor where no code was changed. Raises Cancelled.
    """
    spoken = {result.name for result in report.results}
    for reviewer in plan.policy.reviewers:
        if report.failed or not state.has_code:
            break
        if _name(reviewer) in spoken:
            continue
        said = _Reviewing(app, state, plan, node, report.anchor, reviewer).ask()
        if isinstance(said, NoVerdict):
            return said
        result, evidence = said
        report = report.model_copy(update={"results": (*report.results, result), "cited": {**report.cited, **evidence}})
        app.results.save(report)
    return report


def _name(reviewer: ReviewerSpec) -> str:
    return f"review: {reviewer.name}"


@dataclass(frozen=True, slots=True)
class _Reviewing:
    """One reviewer, asked about one commit."""

    app: App
    state: TaskState
    plan: Plan
    node: PlanNode
    anchor: str
    reviewer: ReviewerSpec

    def ask(self) -> tuple[CheckResult, dict[str, str]] | NoVerdict:
        """Ask up to three times for an answer that can be used."""
        problems: tuple[str, ...] = ()
        seconds = 0.0
        for number in range(1, ROUNDS + 1):
            self.app.progress.note(f"review by {self.reviewer.name}")
            verdict, result = self._once(number, problems)
            seconds += result.seconds
            if isinstance(verdict, ReviewVerdict):
                return self._result(verdict, seconds), dict(self._evidence(verdict))
            problems = verdict.problems
        return NoVerdict(
            f"the reviewer {self.reviewer.name} gave no usable verdict: {'; '.join(problems)}",
            f"look at {self._folder(ROUNDS)}, then go on: it is asked again",
        )

    def _once(self, number: int, problems: tuple[str, ...]) -> tuple[ReviewVerdict | Unusable, AgentResult]:
        workspace = self.app.repository.workspace("verify", self.plan.policy.workspace)
        workspace.prepare(self.anchor, cancel=self.app.cancel)
        folder = self._folder(number)
        with suppress(FileNotFoundError):  # what it said when it was asked before, about the same commit
            (folder / VERDICT_FILE).unlink()
        result = self.app.agent(self.reviewer).attempt(
            AgentTask(
                issue_number=self.state.issue_number,
                task_key=self.state.task_key,
                attempt=self.state.attempt_count,
                prompt=review_prompt(self.app, self.node, self.state, folder / VERDICT_FILE, problems),
                workspace=workspace.path,
                transcript=folder,
                variables={"IRONTREE_VERDICT_FILE": str(folder / VERDICT_FILE)},
            ),
            cancel=self.app.cancel,
            progress=self.app.progress,
        )
        if result.ended == "cancelled":
            raise Cancelled(f"the review of issue-{self.state.issue_number} was stopped")
        said = read_answer(folder / VERDICT_FILE, VERDICT_BYTES)
        if said is None:
            return Unusable((f"no verdict was written to {VERDICT_FILE} ({how_it_ended(result)})",)), result
        return read_verdict(
            said.decode("utf-8", "replace"), self.node, lambda path, quote: _holds(self.app, self.anchor, path, quote)
        ), result

    def _folder(self, number: int) -> Path:
        return transcript_folder(self.app, self.state) / f"review-{self.reviewer.name}-{number}"

    def _evidence(self, verdict: ReviewVerdict) -> dict[str, str]:
        found = cited(verdict, self.node).items()
        return {text: f"{places} ({self.reviewer.name})" for text, places in found}

    def _result(self, verdict: ReviewVerdict, seconds: float) -> CheckResult:
        words = in_words(verdict, self.node)
        return CheckResult(
            name=_name(self.reviewer),
            command=f"review by {self.reviewer.name}",
            ended="exited",
            exit_code=0 if verdict.approves else 1,
            seconds=round(seconds, 3),
            output=truncate(words),
            output_digest=hashlib.sha256(words.encode()).hexdigest(),
            review=True,
        )


def _holds(app: App, sha: str, path: str, quote: str) -> bool:
    """Whether that file of the commit, not of the copy that the reviewer had, holds the text up to white space."""
    document = app.repository.document_at(sha, path)
    return document is not None and " ".join(quote.split()) in " ".join(document.text.split())
