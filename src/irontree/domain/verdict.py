"""Which commands verify a task, what covers its criteria, and what check results amount to (phase 5, R18)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from irontree.domain.plan import CheckCommand, Criterion, ExecutionPolicy, PlanNode

if TYPE_CHECKING:
    from irontree.domain.results import CheckReport, CheckResult

ITS_PARTS: Final = "its parts, all done"
NOTHING_CITED: Final[Mapping[str, str]] = MappingProxyType({})
TRIVIAL: Final = frozenset({"", "true", ":", "exit", "exit 0", "/bin/true"})


@dataclass(frozen=True, slots=True)
class Coverage:
    """One criterion and what covers it; `by` None means that a person must judge it."""

    criterion: Criterion
    by: str | None


@dataclass(frozen=True, slots=True)
class Passed:
    """Outcome A, once the code is published."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Outcomes B (`retryable`) and C: *check* is the first that failed."""

    check: CheckResult
    retryable: bool


@dataclass(frozen=True, slots=True)
class Pending:
    """Outcome D: why automation cannot decide, one line each."""

    reasons: tuple[str, ...]


Verdict = Passed | Failed | Pending


def commands_for(node: PlanNode, policy: ExecutionPolicy, present: Collection[str]) -> tuple[CheckCommand, ...]:
    """The commands that verify *node*: the configured ones, then its own; detection only when there are neither.

    *present* are the names of files at the top of the workspace. A criterion's own command runs too: what
    covers a criterion must have run. (The contract lets configured commands replace the task's own; see
    docs/decisions/0004-check-selection.md.)
    """
    own = [CheckCommand(name=f"task: {command}", run=command) for command in node.verification]
    criteria = [CheckCommand(name=f"criterion: {c.command}", run=c.command) for c in node.criteria if c.command]
    chosen = [*policy.checks, *own] or _detected(policy, present)
    return _without_repeats([*chosen, *criteria])


def coverage(node: PlanNode, policy: ExecutionPolicy, cited: Mapping[str, str] = NOTHING_CITED) -> tuple[Coverage, ...]:
    """What covers each criterion (ruling R18); shown at approval and used for the verdict.

    *cited* is the evidence that reviewers found, by the criterion's text. A container is not verified: it is done
    when its parts are, and so are its criteria.
    """
    return tuple(Coverage(criterion, _cover(criterion, node, policy, cited)) for criterion in node.criteria)


def is_trivial(command: str) -> bool:
    """Whether a command proves nothing (`true`, `echo ...`, `... || true`): pointed out at approval."""
    words = command.split()
    says_something = words[:1] in (["echo"], ["printf"]) and not set(command) & set("&|;")
    last = re.split(r"\|\||;", " ".join(words).rstrip("; "))[-1].strip()
    return says_something or last in TRIVIAL


def judge(report: CheckReport, covered: Collection[Coverage], *, attempt: int, max_retry: int) -> Verdict:
    """The verdict on complete check results; attempt N is retryable iff N <= max_retry_count (contract)."""
    failed = report.failed
    if failed:
        return Failed(failed, retryable=attempt <= max_retry)
    reasons = [f"only a person can judge: {item.criterion.text}" for item in covered if item.by is None]
    if not report.results:
        reasons.insert(0, "no check command is configured, listed or detected")
    return Pending(tuple(reasons)) if reasons else Passed()


def _cover(criterion: Criterion, node: PlanNode, policy: ExecutionPolicy, cited: Mapping[str, str]) -> str | None:
    if node.executability == "container":
        return ITS_PARTS
    if criterion.manual:
        return None
    if criterion.command:
        return criterion.command
    if criterion.check:
        found = next((check.run for check in policy.checks if check.name == criterion.check), None)
    else:
        found = "; ".join(node.verification)
    return found or cited.get(criterion.text)


def _detected(policy: ExecutionPolicy, present: Collection[str]) -> list[CheckCommand]:
    for row in policy.detection:
        if all(any(fnmatchcase(name, pattern) for name in present) for pattern in row.files):
            return list(row.commands)
    return []


def _without_repeats(commands: list[CheckCommand]) -> tuple[CheckCommand, ...]:
    """The first of each command line; running one twice at one commit proves nothing more."""
    first: dict[str, CheckCommand] = {}
    for check in commands:
        first.setdefault(check.run, check)
    return tuple(first.values())
