"""The streams of a command: its output in plain text, with Rich or as JSON; its notes and errors; and the keyboard."""

from __future__ import annotations

import io
import sys
import termios
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from irontree.cli.output import OutputBlock, plain, with_commands
from irontree.domain.text import one_line, piped, printable, unmarked
from irontree.errors import IrontreeError, RequirementsRefused

_FAINT: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"
_CLEAR: Final = "\x1b[H\x1b[2J"


@dataclass(frozen=True, slots=True)
class Console:
    """The two streams of a command. Also the port `Progress`: notes go to stderr as they come."""

    out: TextIO
    err: TextIO
    json: bool = False
    draws: bool = False
    """Whether stdout is a terminal that Rich can draw on."""
    faint_notes: bool = False
    """Whether stderr is a terminal with colours."""
    typed: Callable[[str], str] = str
    """A command of ours as it has to be typed here."""

    def show(self, data: Callable[[], Any], blocks: Iterable[OutputBlock]) -> None:
        """Print *data* as JSON if requested, else *blocks*, the same in human-readable form."""
        told = (with_commands(block, self.typed) for block in blocks)
        if self.json:
            self.dump(data())
        elif self.draws:
            from irontree.cli.drawing import draw

            draw(told, self.out)
        else:
            self.out.writelines(f"{line}\n" for line in plain(told))

    def dump(self, data: Any) -> None:
        """Print *data* as JSON, whichever format was requested."""
        self.out.write(_json(data))

    def write(self, text: str) -> None:
        """Print *text* unchanged: a document, a schema."""
        self.out.write(text)

    def clear(self) -> None:
        """Begin a new page: an empty screen on a terminal, nothing elsewhere."""
        if self.draws and not self.json:
            self.out.write(_CLEAR)

    def note(self, text: str) -> None:
        """Report progress; a failure to write to stderr never stops the work."""
        if self.json:
            return
        with suppress(OSError, ValueError):
            for line in printable(text).splitlines():
                self.err.write(f"{_FAINT}{line}{_PLAIN}\n" if self.faint_notes else f"{line}\n")

    def refused(self, error: IrontreeError) -> None:
        """Say what happened, where, and what to do next."""
        problems = error.problems if isinstance(error, RequirementsRefused) else ()
        self.failed(_kind(error), error.message, error.remedy, problems=problems)

    def usage(self, message: str, usage: str) -> None:
        """Say what is wrong with the command line, and what can be typed."""
        self.failed("usage", message, usage=usage)

    def bug(self, error: Exception, report: Path) -> None:
        """Admit a bug of ours, and say how to report it."""
        self.failed(
            "bug",
            f"this is a bug of irontree: {type(error).__name__}: {error}",
            f"report it with {report}: versions, the command line and where it happened are in it. "
            "Nothing recorded is lost; the same command can be typed again",
            report=str(report),
        )

    def failed(self, kind: str, message: str, remedy: str | None = None, **more: Any) -> None:
        """Print an error on stderr: as JSON if requested, else the message and, after `-> `, its remedy."""
        if self.json:
            known = {"kind": kind, "message": message, "remedy": remedy}
            self.err.write(_json({"error": known | {key: value for key, value in more.items() if value}}))
            return
        if more.get("usage"):
            self.err.write(printable(more["usage"]))
        self.err.write(f"irontree: {printable(message)}\n")
        if remedy:
            self.err.write(f"  -> {one_line(remedy)}\n")

    def flush(self) -> None:
        """Write what is left of the output; raises BrokenPipeError, as each line before did, if nothing reads it."""
        self.out.flush()


def open_console(out: TextIO, err: TextIO, environment: Mapping[str, str], *, json: bool) -> Console:
    """The console on these two streams; a character that a stream cannot encode becomes `?`.

    Each line is written when it is complete: both streams in one file are in the order in which they were written.
    """
    for stream in (out, err):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace", line_buffering=True)
    dumb = environment.get("TERM") == "dumb"
    return Console(
        out,
        err,
        json=json,
        draws=out.isatty() and not dumb,
        faint_notes=err.isatty() and not dumb and not environment.get("NO_COLOR"),
    )


def _kind(error: IrontreeError) -> str:
    """`NotEligible` -> `not_eligible`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in type(error).__name__).lstrip("_")


def _json(data: Any) -> str:
    """ASCII-only JSON: any stream can encode it, and no character in it affects a terminal."""
    import json

    return json.dumps(data, indent=2, default=_plain_value) + "\n"


def _plain_value(value: Any) -> Any:
    """Convert mappings, sets and paths to JSON values."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)


# --- Markdown on a terminal: an approval, a report


def show_markdown(console: Console, text: str) -> None:
    """Render *text* on a terminal, print it as it is elsewhere; control sequences and marks of ours are removed.

    No image is made of what somebody wrote, where that is read as Markdown.
    """
    if not console.draws:
        console.write(f"{piped(printable(text))}\n")
        return
    from rich.console import Console as RichConsole  # not where text is piped
    from rich.markdown import Markdown

    rich = RichConsole(file=console.out)
    with rich.capture() as drawn:  # the marks are needed until it is parsed: an image would hide its address
        rich.print(Markdown(printable(text), hyperlinks=False))
    console.write(unmarked(drawn.get()))


# --- The keyboard


def forget_keys(keys: TextIO) -> None:
    """Drop what was typed before a question was shown: it cannot be meant as its answer."""
    if keys.isatty():
        termios.tcflush(keys, termios.TCIFLUSH)


_YES: Final = frozenset({"y", "yes"})
_NO: Final = frozenset({"n", "no"})


def says_yes(console: Console, prompt: str, *, unless_told: str = "") -> bool:
    """Ask until the answer is yes or no; end of input (Ctrl-D) is no, Enter alone what is *unless_told*."""
    while True:
        forget_keys(sys.stdin)
        try:
            typed = input(prompt).strip()
        except EOFError:
            return False
        answer = typed.lower() or unless_told
        if answer in _YES | _NO:
            return answer in _YES
        console.write(f"“{printable(typed)}” is neither yes nor no.\n")
