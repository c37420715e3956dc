"""What a person is told of a run that keeps ending: at which step, how each time, and what ran then.

Nothing here imports Prefect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from irontree.domain.text import few, one_line, times

LONGEST: Final = 80
"""Characters that are shown of a command."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a run without progress: what its state *said*, and which *commands* its process left behind."""

    step: str
    said: str
    commands: tuple[str, ...] = ()

    def in_words(self) -> str:
        """How it ended. Nobody tells us of a process that the system killed for want of memory but its signal."""
        shown = [f"`{_shortened(command)}`" for command in self.commands]
        ran = f", while {few(shown)} ran" if shown else ""
        memory = " (memory ran out, unless somebody killed it)" if "killed by SIGKILL" in self.said else ""
        said = f"its{self.said[3:]}" if self.said.startswith("Its ") else self.said
        return f"{said.rstrip('.')}{ran}{memory}"


def say_ends(task_key: str, ends: Sequence[End]) -> str:
    """Why the loop gives up on the run of that task."""
    steps = tuple(dict.fromkeys(end.step for end in ends))
    kinds = Counter(end.in_words() if len(steps) == 1 else f"at “{end.step}”: {end.in_words()}" for end in ends)
    each = [f"{kind} ({times(number)})" if len(kinds) > 1 else kind for kind, number in kinds.items()]
    where = f" at “{steps[0]}”" if len(steps) == 1 else ""
    return f"the run of {task_key} ended {times(len(ends))} without progress{where}: {'; '.join(each)}"


def _shortened(command: str) -> str:
    line = one_line(command).replace("`", "'")
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
