"""What the repository's own checks said at one commit: the evidence behind a verdict."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from irontree.domain.values import CodeRef, Value

HEAD_LINES = 50
TAIL_LINES = 20
TRUNCATION_MARKER = "...(truncated)..."
# Lines can be of any length, and an event that quotes them must stay readable: 64 KiB, escapes included (ruling R1).
HEAD_BYTES = 24 * 1024
TAIL_BYTES = 12 * 1024


class CheckResult(Value):
    """One check's end. `output` is truncated for people, `output_digest` is over all of it."""

    name: str
    command: str
    """The shell command; of a review, who reviewed."""
    ended: Literal["exited", "timeout", "cancelled", "not_started"]
    exit_code: int | None
    seconds: float
    output: str
    output_digest: str
    review: bool = False
    """Whether a reviewer said it, and no command."""
    usage: dict[str, float] | None = Field(default=None, exclude_if=lambda usage: usage is None)
    """What a reviewer took, as far as it says so: `input_tokens`, `output_tokens`, `cost_usd`; None of a command."""

    @property
    def passed(self) -> bool:
        """True only for a command that ran to its end with exit code 0."""
        return self.ended == "exited" and self.exit_code == 0

    @property
    def shown(self) -> str:
        """What was done, for people."""
        return self.command if self.review else f"$ {self.command}"

    @property
    def complaint(self) -> str:
        """That it did not pass, in words."""
        return f"the {self.command} asks for changes" if self.review else f"`{self.command}` fails"


class CheckReport(Value):
    """What the commands of `commands_digest` came to at *anchor*, in order, up to the first that failed."""

    issue_number: int
    anchor: CodeRef
    commands_digest: str
    results: tuple[CheckResult, ...]
    versions: dict[str, str] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    cited: dict[str, str] = Field(default_factory=dict)
    """Where reviewers found evidence, by the text of the criterion that it covers (ruling R18)."""

    @model_validator(mode="before")
    @classmethod
    def _as_written_before(cls, found: object) -> object:
        """Without `complete`, which an earlier version wrote into every report."""
        return {key: value for key, value in found.items() if key != "complete"} if isinstance(found, dict) else found

    @property
    def failed(self) -> CheckResult | None:
        """The first check that did not pass; None if all passed."""
        return next((result for result in self.results if not result.passed), None)


def truncate(output: str) -> str:
    """The first 50 lines, a marker line and the last 20 (protocol, phase 5), of very long lines less."""
    lines = output.splitlines()
    if len(lines) > HEAD_LINES + TAIL_LINES:
        output = "\n".join([*lines[:HEAD_LINES], TRUNCATION_MARKER, *lines[-TAIL_LINES:]])
    encoded = output.encode(errors="replace")
    if len(encoded) <= HEAD_BYTES + TAIL_BYTES:
        return output
    head, tail = (part.decode(errors="ignore") for part in (encoded[:HEAD_BYTES], encoded[-TAIL_BYTES:]))
    return f"{head}\n{TRUNCATION_MARKER}\n{tail}"
