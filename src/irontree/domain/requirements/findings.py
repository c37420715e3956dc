"""What is wrong or doubtful in a requirement document, by line, gathered so that all of it is told at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_MAX_QUOTED: Final = 80


def quoted(text: str) -> str:
    """What the document says, as a message shows it: in quotes, and cut if it is long."""
    return f"'{text}'" if len(text) <= _MAX_QUOTED else f"'{text[: _MAX_QUOTED - 3]}...'"


@dataclass(frozen=True, slots=True, order=True)
class SpecProblem:
    """One thing that a person should change; *line* counts from 1 in the file as it was given."""

    line: int
    what: str
    remedy: str

    def __str__(self) -> str:
        end = "" if self.remedy.endswith("?") else "."
        return f"line {self.line}: {self.what}. {self.remedy}{end}"

    def describe(self, name: str) -> str:
        """The problem in one line for a file of that name: `file:line: what. Remedy.`."""
        return f"{name}:{str(self).removeprefix('line ')}"


@dataclass(slots=True)
class Findings:
    """Gathers problems while one document is read; *numbers* are the file's line numbers of the lines read."""

    numbers: Sequence[int]
    errors: list[SpecProblem] = field(default_factory=list)
    warnings: list[SpecProblem] = field(default_factory=list)

    def line(self, index: int) -> int:
        """The file's line number of the line read at *index* (from 0); 1 for an empty document."""
        return self.numbers[index] if index < len(self.numbers) else 1

    def refuse(self, index: int, what: str, remedy: str) -> None:
        """Note an error: the document cannot be approved."""
        self.errors.append(SpecProblem(self.line(index), what, remedy))

    def warn(self, index: int, what: str, remedy: str) -> None:
        """Note a warning: shown at approval."""
        self.warnings.append(SpecProblem(self.line(index), what, remedy))
