"""A reviewer's assessment of a commit: verdict, findings, and evidence cited for criteria (R18).

A reviewer is an agent: its answer is a claim. It counts once it fits the schema, and a citation once the file at
that commit holds the quotation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field, ValidationError

from irontree.domain.plan import PlanNode
from irontree.domain.values import Value

LineOf = Callable[[str, str], int | None]
"""The line of that file at the commit where the quotation begins, or `None` if it is not there."""
_SAYS_SOMETHING: Final = re.compile(r"\w{3}")


class Citation(Value):
    """A place in the code, and what stands there to the letter."""

    file: str = Field(min_length=1)
    quote: str
    line: int | None = None
    """Where it says that this is; what counts is where it is found."""


class Judged(Value):
    """What is said of one criterion, by its number in the prompt."""

    criterion: int = Field(ge=1)
    met: bool
    evidence: tuple[Citation, ...] = ()


class ReviewFinding(Value):
    """What is wrong, and where."""

    text: str = Field(min_length=1)
    file: str | None = None
    line: int | None = None


class Assessment(Value):
    """The whole answer."""

    verdict: Literal["approve", "request_changes"]
    summary: str = ""
    findings: tuple[ReviewFinding, ...] = ()
    criteria: tuple[Judged, ...] = ()

    @property
    def approves(self) -> bool:
        """Whether the work may go on: nobody approves what misses a criterion."""
        return self.verdict == "approve" and all(judged.met for judged in self.criteria)


@dataclass(frozen=True, slots=True)
class InvalidAnswer:
    """An unusable answer and the reasons, one line each: the agent is told them and asked again."""

    problems: tuple[str, ...]


def read_assessment(text: str, node: PlanNode, line_of: LineOf) -> Assessment | InvalidAnswer:
    """Read a reviewer's JSON, and look its citations up."""
    try:
        verdict = Assessment.model_validate_json(text)
    except ValidationError as error:
        return InvalidAnswer(misfits(error))
    problems = tuple(_problems(verdict, node, line_of))
    return InvalidAnswer(problems) if problems else verdict


def cited(verdict: Assessment, node: PlanNode, line_of: LineOf) -> Mapping[str, str]:
    """The evidence by criterion; a `(manual)` criterion is left to a person whatever is cited."""
    return {
        node.criteria[judged.criterion - 1].text: ", ".join(
            f"{place.file}:{line_of(place.file, place.quote)}" for place in judged.evidence
        )
        for judged in verdict.criteria
        if judged.met and judged.evidence and not node.criteria[judged.criterion - 1].manual
    }


def requested_changes(verdict: Assessment, node: PlanNode) -> str:
    """The summary and the requested changes, for the next attempt and for users."""
    missed = (node.criteria[judged.criterion - 1].text for judged in verdict.criteria if not judged.met)
    findings = (f"- {_where(finding)}{finding.text}" for finding in verdict.findings)
    return "\n".join(filter(None, (verdict.summary, *(f"- not met: {text}" for text in missed), *findings)))


def _problems(verdict: Assessment, node: PlanNode, line_of: LineOf) -> Iterator[str]:
    if verdict.verdict == "request_changes" and not (verdict.summary or verdict.findings):
        yield "`request_changes` needs a finding that says what to change"
    for judged in verdict.criteria:
        if judged.criterion > len(node.criteria):
            yield f"there is no criterion {judged.criterion}: this task has {len(node.criteria)}"
    for citation in (citation for judged in verdict.criteria for citation in judged.evidence):
        if not _SAYS_SOMETHING.search(citation.quote):
            yield f"{citation.quote!r} is too little to quote from {citation.file}"
        elif line_of(citation.file, citation.quote) is None:
            yield f"{citation.file} does not hold the quoted text {citation.quote!r}"


def line_of_quote(text: str, quote: str) -> int | None:
    """The line of *text* where *quote* begins, ignoring white space; `None` if it is not there."""
    words = [(number, word) for number, line in enumerate(text.splitlines(), start=1) for word in line.split()]
    joined = " ".join(word for _, word in words)
    begins = joined.find(" ".join(quote.split()))
    return None if begins < 0 or not words else words[joined.count(" ", 0, begins)][0]


def _where(finding: ReviewFinding) -> str:
    if not finding.file:
        return ""
    return f"{finding.file}:{finding.line}: " if finding.line else f"{finding.file}: "


def misfits(error: ValidationError) -> tuple[str, ...]:
    """What does not fit its schema in an answer, one line each."""
    return tuple(_problem(dict(item)) for item in error.errors(include_url=False))


def _problem(error: Mapping[str, object]) -> str:
    location = error["loc"]
    path = ".".join(map(str, location)) if isinstance(location, tuple) else ""
    return f"{path}: {error['msg']}" if path else str(error["msg"])
