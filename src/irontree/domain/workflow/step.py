"""What a plan holds of a step of a workflow file: how often it is tried, its checks, its gate (docs/hotl.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pydantic import Field

from irontree.domain.values import Value

APPROVED_ITSELF: Final = "approved, auto"
"""What `meta.gate` says of a gate that needed no person."""
ITSELF: Final = "auto_approve, since the risk is not high"
"""What covers a gate that needs no person."""
NO_VERIFY: Final = "no verify"
"""What is recorded of a step that nothing checked."""


class ShellLine:
    """What a check says of itself that is a shell command, which stands in `run`."""

    if TYPE_CHECKING:
        run: str

    @property
    def does(self) -> str:
        """What is done, in a line of its own."""
        return self.run

    @property
    def shown(self) -> str:
        """The check as users see it."""
        return f"$ {self.run}"

    @property
    def complaint(self) -> str:
        """The failure in words."""
        return f"`{self.run}` fails"


class Command(ShellLine, Value):
    """A shell command, run by bash where there is one: it passes with exit code 0."""

    run: str = Field(min_length=1)

    @property
    def name(self) -> str:
        """The name of its result."""
        return f"step: {self.run}"


class Artifact(Value):
    """A file or folder that the commit must have, and what must be in it."""

    path: str = Field(min_length=1)
    kind: Literal["exists", "contains", "matches-glob"]
    value: str | None = None

    @property
    def name(self) -> str:
        """The name of its result."""
        return f"artifact: {self.path}"

    @property
    def does(self) -> str:
        """What must hold, in words."""
        what = {"exists": "is there", "contains": "contains", "matches-glob": "holds a file named"}[self.kind]
        return f"{self.path} {what}{f' {self.value}' if self.value else ''}"

    @property
    def shown(self) -> str:
        """The check as users see it."""
        return self.does

    @property
    def complaint(self) -> str:
        """The failure in words."""
        return f"the commit lacks an artifact: {self.does}"


class Browser(Value):
    """What a page must show: a person looks, or a configured command does."""

    url: str = Field(min_length=1)
    check: str = Field(min_length=1)

    @property
    def name(self) -> str:
        """The name of its result."""
        return f"browser: {self.check}"

    @property
    def does(self) -> str:
        """What must hold, in words."""
        return f"{self.check} at {self.url}"

    @property
    def shown(self) -> str:
        """The check as users see it."""
        return f"in a browser: {self.does}"

    @property
    def complaint(self) -> str:
        """The failure in words."""
        return f"not seen in the browser: {self.does}"


class Review(Value):
    """What a person must look at, whatever approves itself."""

    prompt: str = Field(min_length=1)


StepCheck: TypeAlias = Command | Artifact | Browser | Review


class StepSpec(Value):
    """A step of a workflow file; its retries are its node's, and what people judge is among its node's criteria."""

    number: int = Field(gt=0)
    name: str = Field(default="", exclude_if=lambda name: not name)
    """Its name, which its gate says; a plan of an earlier version has none, and its gate only a number."""
    condition: str = ""
    """What it is repeated until; empty: it is tried once."""
    checks: tuple[StepCheck, ...] = ()
    """In the written order."""
    gate: Literal["human", "auto"] | None = None
    approves_itself: bool = False
    """Whether its `gate: human` needs no person, unless `gates.acceptance` is configured."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The shell commands among its checks."""
        return tuple(check.run for check in self.checks if isinstance(check, Command))

    @property
    def browsed(self) -> frozenset[str]:
        """The criteria that a browser may show to hold."""
        return frozenset(check.does for check in self.checks if isinstance(check, Browser))

    @property
    def reviewed(self) -> frozenset[str]:
        """The criteria that a person judges in any case."""
        return frozenset(check.prompt for check in self.checks if isinstance(check, Review))

    @property
    def gate_text(self) -> str:
        """The criterion that its gate is."""
        return f"approve step {self.number}{f': {self.name}' if self.name else ''}"

    def cover(self, criterion: str, seen: Mapping[str, str], *, guarded: bool) -> str | None:
        """What takes a person's place for a criterion: what was *seen* in a browser, or a gate that approves itself.

        Where acceptance is *guarded*, no gate does.
        """
        if criterion in self.reviewed:
            return None
        if criterion in self.browsed:
            return seen.get(criterion)
        return ITSELF if criterion == self.gate_text and self.approves_itself and not guarded else None

    def used_up(self, attempts: int) -> str:
        """Why it is tried no more, in HOTL's words; empty for a step that is tried once."""
        if not self.condition:
            return ""
        return f"Step {self.number} reached max iterations ({attempts}). {self.condition} not met."


def passed_in_words(commit: str, reasons: Collection[str], gate: str) -> str:
    """What became of what passed: published or not, and, of a step, what did not check it."""
    words = (
        "passed without a check" if NO_VERIFY in reasons else "verified",
        f"published as {commit}" if commit else "nothing to publish",
        *(("its gate approved itself",) if gate else ()),
    )
    return ", ".join(words)
