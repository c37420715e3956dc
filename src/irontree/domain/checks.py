"""The checks of a repository: which are run, their results at one commit, and the verdict on them (phase 5, R18).

Equal fingerprints mean that an attempt failed exactly as the one before did; see
docs/decisions/0012-same-failure.md. In doubt two failures differ: that costs an attempt, not an operator's time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias, assert_never

from pydantic import Field, model_validator

from irontree.domain.command_lines import is_trivial
from irontree.domain.plan import Criterion, DetectionRow, ExecutionPolicy, PlanNode, Shell, canonical_digest
from irontree.domain.text import ENDED_ESCAPES, TRUNCATION_MARKER
from irontree.domain.values import CodeRef, Value
from irontree.domain.workflow.step import Artifact, Browser, Command, Review, StepCheck


class ReviewCheck(NamedTuple):
    """A reviewer is asked about a commit that has passed everything else (R18)."""

    reviewer: str

    @property
    def name(self) -> str:
        """The name of its result."""
        return f"{_REVIEW}{self.reviewer}"

    @property
    def shown(self) -> str:
        """The check as users see it."""
        return f"review by {self.reviewer}"

    @property
    def complaint(self) -> str:
        """The failure in words."""
        return f"the {self.shown} asks for changes"


class Human(NamedTuple):
    """A person judges a criterion that nothing else covers, and accepts the work (R14)."""

    criterion: Criterion

    @property
    def complaint(self) -> str:
        """Why automation cannot say that it passes."""
        return f"only a person can judge: {self.criterion.text}"


class ProtectedFiles(NamedTuple):
    """The files that define the checks are compared with those that the task began from (R18)."""

    name: str = "protected files"
    shown: str = "what defines the checks is as it was"
    complaint: str = "the task changed files that define its checks"


Machine: TypeAlias = Shell | Command | Artifact | Browser
"""What is run or looked at in the workspace of a verification."""
Check: TypeAlias = Machine | ReviewCheck | ProtectedFiles
"""What a program does to confirm that a commit does what was approved: it ends in a `CheckResult`."""
_REVIEW: Final = "review: "


# --- Check results at one commit: the evidence behind a verdict


HEAD_LINES = 50
TAIL_LINES = 20
# Lines can be of any length, and an event that quotes them must stay readable: 64 KiB, escapes included (R1).
HEAD_BYTES = 24 * 1024
TAIL_BYTES = 12 * 1024


CANNOT_TELL: Final = 77
"""The exit code by which a command that looks in a browser leaves it to a person."""
CheckEnd = Literal["exited", "timeout", "cancelled", "not_started"]


class CheckResult(Value):
    """One check's end; see `result_of`. `output` is truncated for people, `output_digest` is over all of it."""

    name: str
    command: str
    """The shell command; of a review, who reviewed."""
    ended: CheckEnd
    exit_code: int | None
    seconds: float
    output: str
    output_digest: str
    review: bool = False
    """Whether a reviewer said it, and no command."""
    protection: bool = Field(default=False, exclude_if=lambda protection: not protection)
    """Whether it is about the files that define the checks, and no command ran."""
    usage: dict[str, float] | None = Field(default=None, exclude_if=lambda usage: usage is None)
    """What a reviewer took, as far as it says so: `input_tokens`, `output_tokens`, `cost_usd`; None of a command."""
    looked_at: Artifact | Browser | None = Field(default=None, exclude_if=lambda check: check is None)
    """The check of a step, if it is no command."""

    @property
    def passed(self) -> bool:
        """True only for a command that ran to its end with exit code 0, or a review that approved."""
        return self.ended == "exited" and self.exit_code == 0

    @property
    def is_open(self) -> bool:
        """Whether the command that looks in a browser could not tell: a person judges."""
        return isinstance(self.looked_at, Browser) and self.ended == "exited" and self.exit_code == CANNOT_TELL

    @property
    def failed(self) -> bool:
        """Whether it neither passed nor is left to a person."""
        return not (self.passed or self.is_open)

    @property
    def check(self) -> Check:
        """The check whose result it is."""
        if self.looked_at:
            return self.looked_at
        if self.protection:
            return ProtectedFiles()
        if self.review:
            return ReviewCheck(self.name.removeprefix(_REVIEW))
        return Shell.model_construct(name=self.name, run=self.command)


class CheckReport(Value):
    """What the commands of `commands_digest` came to at *anchor*, in order, up to the first that failed."""

    issue_number: int
    anchor: CodeRef
    commands_digest: str
    results: tuple[CheckResult, ...]
    versions: dict[str, str] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    cited: dict[str, str] = Field(default_factory=dict)
    """Where reviewers found evidence, by the text of the criterion that it covers (R18)."""
    protected: tuple[str, ...] = Field(default=(), exclude_if=lambda paths: not paths)
    """The paths that define the checks and that the task changed; where it may not, a result says so."""
    as_before: str = Field(default="", exclude_if=lambda words: not words)
    """How the checks come out with these files as they were, in words; empty if they did not run so."""

    @model_validator(mode="before")
    @classmethod
    def _as_written_before(cls, found: object) -> object:
        """Without `complete`, which an earlier version wrote into every report."""
        return {key: value for key, value in found.items() if key != "complete"} if isinstance(found, dict) else found

    @property
    def protected_words(self) -> str:
        """What the task changed of what defines its checks, and how they come out without that."""
        changed = f"this task changed files that define its own checks: {', '.join(self.protected)}"
        return "; ".join(filter(None, (changed, self.as_before)))

    @property
    def failed(self) -> CheckResult | None:
        """The first check that failed; None if all passed, or are left to a person."""
        return next((result for result in self.results if result.failed), None)


def result_of(
    check: Check,
    ended: CheckEnd,
    exit_code: int | None,
    *,
    seconds: float,
    output: str,
    output_digest: str = "",
    usage: dict[str, float] | None = None,
) -> CheckResult:
    """The result of *check*; *output_digest* is that of its whole output, where *output* is only a part."""
    match check:
        case Shell() | Command() | Artifact() | Browser():
            command, reviewed = check.does, False
        case ReviewCheck():
            command, reviewed = check.shown, True
        case ProtectedFiles():
            command, reviewed = check.shown, False
        case _:
            assert_never(check)
    return CheckResult(
        name=check.name,
        command=command,
        ended=ended,
        exit_code=exit_code,
        seconds=round(seconds, 3),
        output=truncate(output),
        output_digest=output_digest or hashlib.sha256(output.encode()).hexdigest(),
        review=reviewed,
        protection=isinstance(check, ProtectedFiles),
        usage=usage,
        looked_at=check if isinstance(check, Artifact | Browser) else None,
    )


def truncate(output: str) -> str:
    """The first 50 lines, a marker line and the last 20 (protocol, phase 5); fewer if lines are very long."""
    lines = output.splitlines()
    if len(lines) > HEAD_LINES + TAIL_LINES:
        output = "\n".join([*lines[:HEAD_LINES], TRUNCATION_MARKER, *lines[-TAIL_LINES:]])
    encoded = output.encode(errors="replace")
    if len(encoded) <= HEAD_BYTES + TAIL_BYTES:
        return output
    head, tail = (part.decode(errors="ignore") for part in (encoded[:HEAD_BYTES], encoded[-TAIL_BYTES:]))
    return f"{head}\n{TRUNCATION_MARKER}\n{tail}"


# --- Which commands verify a task, what covers its criteria, and the verdict


ITS_PARTS: Final = "its parts, all done"
NOTHING_CITED: Final[Mapping[str, str]] = MappingProxyType({})


class Coverage(NamedTuple):
    """One criterion and what covers it; `by` is `None` if a person must judge it."""

    criterion: Criterion
    by: str | None


@dataclass(frozen=True, slots=True)
class Passed:
    """Outcome A, once the code is published."""


class Failed(NamedTuple):
    """Outcomes B (`retryable`) and C: *check* is the first that failed."""

    check: CheckResult
    retryable: bool


class Pending(NamedTuple):
    """Outcome D: why automation cannot decide, one line each."""

    reasons: tuple[str, ...]


Verdict = Passed | Failed | Pending


def checks_for(node: PlanNode, policy: ExecutionPolicy, present: Collection[str]) -> tuple[Machine, ...]:
    """What verifies *node*: the configured commands, then its own; detection only when there are neither.

    *present* are the names of files at the top of the workspace. A criterion's own command runs too: what
    covers a criterion must have run. (The contract lets configured commands replace the task's own; see
    docs/decisions/0004-check-selection.md.) A step of a workflow file is judged by its own checks alone.
    """
    if node.step:
        return tuple(filter(None, (_of_step(check, policy) for check in node.step.checks)))
    own = [Shell(name=f"task: {command}", run=command) for command in node.verification]
    criteria = [Shell(name=f"criterion: {c.command}", run=c.command) for c in node.criteria if c.command]
    chosen = [*policy.checks, *own] or _detected(policy, present)
    return _without_repeats([*chosen, *criteria])


def _of_step(check: StepCheck, policy: ExecutionPolicy) -> Machine | None:
    """What runs of a check of a step; None for what is left to a person."""
    match check:
        case Command() | Artifact():
            return check
        case Browser():
            return check if policy.browser else None
        case Review():
            return None


def configured_checks(policy: ExecutionPolicy, present: Collection[str]) -> tuple[Shell, ...]:
    """The commands that verify every task, whatever it brings itself."""
    return policy.checks or tuple(_detected(policy, present))


CANNOT_RUN: Final = frozenset({126, 127})
"""Exit codes by which a shell says that there is no such program, or that it may not run it."""


def trouble_without_work(result: CheckResult) -> str:
    """What a configured check shows that no work can be blamed for, in words; empty if it can judge work."""
    if result.passed:
        return f"`{result.command}` passes whatever happens: it proves nothing" if is_trivial(result.command) else ""
    if result.ended == "timeout":
        how = "does not end in time, without any change"
    elif result.ended == "not_started" or result.exit_code in CANNOT_RUN:
        how = f"cannot be run here (exit code {result.exit_code})"
    else:
        how = "fails without any change"
    return ": ".join(
        (f"`{result.command}` {how}", *(line[:EXCERPT_CHARACTERS] for line in telling_lines(result.output)[-1:]))
    )


def coverage(node: PlanNode, policy: ExecutionPolicy, cited: Mapping[str, str] = NOTHING_CITED) -> tuple[Coverage, ...]:
    """What covers each criterion (R18); shown at approval and used for the verdict.

    *cited* is the evidence that reviewers found, by the criterion's text. A container is not verified: it is done
    when its parts are, and so are its criteria.
    """
    return tuple(Coverage(criterion, _cover(criterion, node, policy, cited)) for criterion in node.criteria)


def left_to_people(covered: Iterable[Coverage]) -> tuple[Human, ...]:
    """The checks that only a person can make."""
    return tuple(Human(item.criterion) for item in covered if item.by is None)


def judge(
    report: CheckReport, covered: Collection[Coverage], *, attempt: int, max_retry: int, of_step: bool = False
) -> Verdict:
    """The verdict on complete check results; attempt N is retryable iff N <= max_retry_count (contract).

    A task that nothing checks is put to a person; a step of a workflow file passes, as its author wrote it.
    """
    failed = report.failed
    if failed:
        return Failed(failed, retryable=attempt <= max_retry)
    reasons = [human.complaint for human in left_to_people(covered)]
    if not report.results and not of_step:
        reasons.insert(0, "no check command is configured, listed or detected")
    return Pending(tuple(reasons)) if reasons else Passed()


def _cover(criterion: Criterion, node: PlanNode, policy: ExecutionPolicy, cited: Mapping[str, str]) -> str | None:
    if node.executability == "container":
        return ITS_PARTS
    if node.step:
        gates = policy.gates_of(node)
        guarded = gates is not None and gates.acceptance is not None
        if found := node.step.cover(criterion.text, cited, guarded=guarded):
            return found
    if criterion.manual:
        return None
    if criterion.command:
        return criterion.command
    if criterion.check:
        found = next((check.run for check in policy.checks if check.name == criterion.check), None)
    else:
        found = "; ".join(node.verification)
    return found or cited.get(criterion.text)


def _detected(policy: ExecutionPolicy, present: Collection[str]) -> list[Shell]:
    for row in policy.detection:
        if all(any(fnmatchcase(name, pattern) for name in present) for pattern in row.files):
            return list(row.commands)
    return []


def _without_repeats(commands: list[Shell]) -> tuple[Shell, ...]:
    """Each command line once, in order; running one twice at the same commit proves nothing more."""
    first: dict[str, Shell] = {}
    for check in commands:
        first.setdefault(check.run, check)
    return tuple(first.values())


# --- Whether two failures of a check are the same


EXCERPT_LINES: Final = 8
EXCERPT_CHARACTERS: Final = 160
# Texts: `re` compiles and keeps each with its first use, and most commands look at no output.
_TELLING: Final = (
    r"\b(?:[a-z]*(?:error|exception|fail(?:ed|ure|ures|s)?)|assert\w*|panic\w*|fatal|traceback|undefined|unresolved|"
    r"undeclared|missing|cannot|can't|not found|no such|not ok|expected|unexpected|refused|denied|invalid|timed? ?out|"
    r"segmentation fault|killed)\b|^E\s|[\u2717\u2718\u2715\u00d7]"
)
_TEMPORARY: Final = (
    r"(?:/private)?(?:/var/folders/[^/\s]+/[^/\s]+/T|/(?:var/)?tmp|[a-z]:[\\/](?:[^\\/\s]+[\\/])*te?mp)"
    r"[\\/][^\\/\s:'\"]+(?:[\\/](?:pytest-\d+|tmp[^\\/\s:'\"]*))*"
)
# The order matters: a later pattern must not match what an earlier one has substituted.
_CHANGING: Final = (
    (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "<time>"),
    (r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
    (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>"),
    (_TEMPORARY, "<temporary>"),
    (r"\b0x[0-9a-f]+\b", "<address>"),
    (r"\b(localhost|(?:\d{1,3}\.){3}\d{1,3}|\[::1?\]):\d+\b", r"\1:<port>"),
    (r"\b(pid|process|thread|port|seed|gw)([ =:#]*)\d+\b", r"\1\2<number>"),
    (r"\b\d+(?:\.\d+)?\s*(?:ns|µs|us|ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b", "<duration>"),
    (r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}\b", "<sha>"),
    (r"\bline \d+\b", "line <line>"),
    (r"(\.\w+)(?::\d+(?::\d+)?\b|\(\d+(?:,\d+)?\))", r"\1:<line>"),
    (r"\[\s*\d+(?:%|/\d+)\s*\]|\b\d+(?:\.\d+)?%", ""),
    (r"([=\-_*#.~^])\1{2,}", r"\1\1\1"),
)


def fingerprint(failed: CheckResult) -> str:
    """16 hex digits over what failed and how: check, command, end, exit code, and the lines that tell why.

    Times, durations, addresses, temporary paths, ids, commits, line numbers and the order of lines are ignored; so is
    the output of a check that did not end by itself, because it was cut off at an arbitrary point.
    """
    output = failed.output if failed.ended == "exited" else ""
    return fingerprint_of((failed.name, failed.command, failed.ended, failed.exit_code), output)


def fingerprint_of(facts: Sequence[str | int | None], output: str) -> str:
    """The same for a failure that is not a result of our own checks, such as one of CI."""
    return canonical_digest([*facts, sorted(map(normalised, telling_lines(output)))])[:16]


def telling_lines(output: str) -> tuple[str, ...]:
    """The lines that name what failed, as printed; all lines if none seems to."""
    lines = tuple(line for raw in output.split("\n") if (line := _plain(raw)))
    return tuple(line for line in lines if re.search(_TELLING, line, re.IGNORECASE)) or lines


def excerpt(failed: CheckResult) -> str:
    """The last telling lines, few and short enough to stand beside those of another attempt."""
    lines = [line[:EXCERPT_CHARACTERS] for line in telling_lines(failed.output)[-EXCERPT_LINES:]]
    return "\n".join(lines) or failed.check.complaint


def complaint_of(failed: CheckResult) -> str:
    """What failed, with the last line of its output that tells why, if it printed any."""
    return ": ".join(
        (failed.check.complaint, *(line[:EXCERPT_CHARACTERS] for line in telling_lines(failed.output)[-1:]))
    )


def normalised(line: str) -> str:
    """The line with each value that changes from run to run replaced by the name of its kind."""
    for pattern, instead in _CHANGING:
        line = re.sub(pattern, instead, line, flags=re.IGNORECASE)
    return " ".join(line.split())


def _plain(raw: str) -> str:
    """The line as a terminal leaves it: the text after its last carriage return, without colours."""
    return re.sub(ENDED_ESCAPES, "", raw).rstrip("\r").rpartition("\r")[2].strip()


# --- What is run if nothing is configured


def _row(files: str, **commands: str) -> DetectionRow:
    """Not validated: what validates a class is made with its first value, and most commands need none of these."""
    shells = tuple(Shell.model_construct(name=name, run=run) for name, run in commands.items())
    return DetectionRow.model_construct(files=tuple(files.split()), commands=shells)


def _yarn(script: str) -> str:
    """Emulate `--if-present` for yarn, which has no such option."""
    return f"if grep -q '\"{script}\" *:' package.json; then yarn {script}; fi"


# The first row whose files are all at the top of the repository wins; a file may be a glob pattern.
# Scripts that package.json does not define are skipped, as the contract asks, by the commands themselves.
DETECTION: Final = (
    _row(
        "package.json pnpm-lock.yaml",
        install="pnpm install --frozen-lockfile",
        build="pnpm run --if-present build",
        test="pnpm run --if-present test",
        lint="pnpm run --if-present lint",
    ),
    _row(
        "package.json yarn.lock",
        install="yarn install --frozen-lockfile",
        build=_yarn("build"),
        test=_yarn("test"),
        lint=_yarn("lint"),
    ),
    _row(
        "package.json",
        install="npm ci",
        build="npm run build --if-present",
        test="npm test --if-present",
        lint="npm run lint --if-present",
    ),
    _row("pyproject.toml", test="pytest"),
    _row("setup.py", test="pytest"),
    _row("Cargo.toml", build="cargo build", test="cargo test", lint="cargo clippy -- -D warnings"),
    _row("Package.swift", build="swift build", test="swift test"),
    _row("*.xcodeproj", test='xcodebuild -scheme "$(basename *.xcodeproj .xcodeproj)" test'),
    _row("Makefile", test="make test"),
)
