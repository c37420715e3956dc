"""Pages of docs/ as a reader follows them: files to save, settings to add, commands to type and what they print.

* ```` ```console ```` blocks: lines behind `$ ` are commands, what follows is their output. `…` alone on a line stands
  for any lines, `…` in a line for anything in it. A command without output below it may print what it likes.
* `<!-- by hand: REASON -->` before a block: no test runs it.
* `<!-- file: PATH -->`: save the block; `<!-- config -->`: add the settings to `.mino/config.yml`.
* `<!-- ends with N -->`: the block's last command has that exit code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>by hand|file|config|ends with)(?:: | )?(?P<value>[^\n]*?) ?-->\n)?"
    r"^```(?P<language>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Command:
    """A line to type; *output* is what the page shows of it, *code* how it ends."""

    line: str
    output: str = ""
    code: int = 0

    def prints(self, text: str) -> bool:
        """Whether *text* is what the page shows."""
        if not self.output:
            return True
        lines = (r"(?:[^\n]*\n)*?" if line == "…" else f"{_in_a_line(line)}\n" for line in self.output.splitlines())
        return re.fullmatch("".join(lines), "".join(f"{line.rstrip()}\n" for line in text.splitlines())) is not None


@dataclass(frozen=True)
class SavedFile:
    """A file that the page says to save."""

    path: str
    text: str


@dataclass(frozen=True)
class Settings:
    """YAML that the page says to add to the configuration."""

    text: str


@dataclass(frozen=True)
class ByHand:
    """Commands that no test runs."""

    reason: str
    lines: tuple[str, ...]


Step = Command | SavedFile | Settings | ByHand


def steps_of(page: Path) -> tuple[Step, ...]:
    """Everything that a reader of the page does, in order."""
    text = page.read_text(encoding="utf-8")
    return tuple(step for match in BLOCK.finditer(text) for step in _steps(match))


def _steps(match: re.Match[str]) -> Iterator[Step]:
    mark, value, body = match["mark"], match["value"] or "", match["body"]
    if mark == "file":
        yield SavedFile(value, body)
    elif mark == "config":
        yield Settings(body)
    elif match["language"] == "console" and mark == "by hand":
        yield ByHand(value, tuple(line.removeprefix("$ ") for line in body.splitlines() if line.startswith("$ ")))
    elif match["language"] == "console":
        yield from _commands(body, int(value) if mark == "ends with" else 0)


def _commands(body: str, code: int) -> Iterator[Command]:
    parts = re.findall(r"^\$ ([^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", body, re.MULTILINE)
    for number, (line, output) in enumerate(parts, start=1):
        yield Command(line, output, code if number == len(parts) else 0)


def _in_a_line(line: str) -> str:
    return "[^\n]*".join(re.escape(part) for part in line.rstrip().split("…"))
