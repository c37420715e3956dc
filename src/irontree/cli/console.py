"""Where everything is printed: JSON, plain text when piped, Rich on a terminal. Data on stdout, all else on stderr.

Rich is imported when something is drawn on a terminal, and not before.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from irontree.cli.blocks import Block, plain
from irontree.cli.text import one_line, printable
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

    def show(self, data: Callable[[], Any], blocks: Iterable[Block]) -> None:
        """Print *data* as JSON if that was asked for, else *blocks*, which say the same to a person."""
        if self.json:
            self.dump(data())
        elif self.draws:
            from irontree.cli.drawing import draw

            draw(blocks, self.out)
        else:
            self.out.writelines(f"{line}\n" for line in plain(blocks))

    def dump(self, data: Any) -> None:
        """Print *data* as JSON, whatever was asked for."""
        self.out.write(_json(data))

    def write(self, text: str) -> None:
        """Print *text* to the letter: a document, a schema."""
        self.out.write(text)

    def clear(self) -> None:
        """Begin a new page: an empty screen on a terminal, nothing elsewhere."""
        if self.draws and not self.json:
            self.out.write(_CLEAR)

    def note(self, text: str) -> None:
        """Say what is going on; never the reason for work to end, wherever stderr leads."""
        if self.json:
            return
        with suppress(OSError, ValueError):
            for line in printable(text).splitlines():
                self.err.write(f"{_FAINT}{line}{_PLAIN}\n" if self.faint_notes else f"{line}\n")
            self.err.flush()

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
        """Print an error on stderr: as JSON if that was asked for, else the message and `-> ` its remedy."""
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
        """Have everything written by now: a closed pipe shows here."""
        self.out.flush()


def open_console(out: TextIO, err: TextIO, environment: Mapping[str, str], *, json: bool) -> Console:
    """The console on these two streams; a character that a stream cannot encode becomes `?`."""
    for stream in (out, err):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
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
    """ASCII alone: any stream can encode it, and no character in it does anything to a terminal."""
    import json

    return json.dumps(data, indent=2, default=_plain_value) + "\n"


def _plain_value(value: Any) -> Any:
    """Mappings, sets and paths, as JSON knows them."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
