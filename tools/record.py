"""Record the demo as the README shows it: an SVG that plays what a terminal showed, made from a real run.

`make recording` plays the demo in a terminal of its own, answers as the rules below say, and shortens the waits.
"""

from __future__ import annotations

import argparse
import fcntl
import html
import os
import pty
import re
import select
import shutil
import struct
import sys
import termios
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import pyte

COLUMNS, ROWS = 92, 32
LONGEST_WAIT: Final = 1.2
"""Seconds that a picture is shown at most; people need more to read what they are asked."""
GLIMPSE: Final = 0.25
"""What a spinner shows is shorter, and is left out."""
READING: Final = 4.0
LAST: Final = 5.0
TYPED: Final = "$ irontree demo"
ANSWERS: Final = ((r"\[yes/no\] $", "yes\r"), (r"number or word\): $", "1\r"), (r"may be empty\): $", "\r"))
"""What is typed once the terminal shows this."""
COLOURS: Final = {
    "default": "#d6dde4",
    "black": "#6b7682",
    "red": "#ff7b72",
    "green": "#57d364",
    "brown": "#e3b341",
    "yellow": "#e3b341",
    "blue": "#79b8ff",
    "magenta": "#d2a8ff",
    "cyan": "#56d4dd",
    "white": "#f0f6fc",
}
_CELL, _LINE, _EDGE = 7.8, 17, 14
"""Pixels: a character's width, a line's height, the space around."""


class Span(NamedTuple):
    """Some characters of one look."""

    text: str
    colour: str
    bold: bool


Row = tuple[Span, ...]


class Picture(NamedTuple):
    """What the terminal showed, and for how many seconds."""

    rows: tuple[Row, ...]
    seconds: float


def play(words: Sequence[str], environment: dict[str, str], folder: Path) -> Iterator[tuple[float, bytes]]:
    """Run a program in a terminal and answer it; yields what it wrote, with the time of each piece."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(words[0], words, environment)  # noqa: S606 - no shell is wanted
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    answers, shown = list(ANSWERS), ""
    while True:
        if not select.select([terminal], [], [], 600)[0]:
            raise SystemExit("the demo shows nothing any more")
        try:
            written = os.read(terminal, 65536)
        except OSError:  # it has ended
            break
        yield time.monotonic(), written
        shown = (shown + re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.decode("utf-8", "replace")))[-200:]
        if answers and re.search(answers[0][0], shown):
            time.sleep(GLIMPSE * 2)
            os.write(terminal, answers.pop(0)[1].encode())
            shown = ""
    _, status = os.waitpid(child, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise SystemExit(f"the demo ended with exit code {code}")


def pictures(written: Iterable[tuple[float, bytes]], *, renamed: tuple[str, str]) -> Iterator[Picture]:
    """The pictures that differ, with shortened waits; the folder is *renamed*, to one of a name of the same length."""
    yield from (Picture((((Span(TYPED[:end], "default", False),)),), 0.09) for end in range(3, len(TYPED) + 1))
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    shown: tuple[Row, ...] | None = None
    since = 0.0
    for at, piece in written:
        stream.feed(piece)
        rows = _rows(screen, renamed)
        if rows == shown:
            continue
        if shown is not None and at - since >= GLIMPSE:
            yield Picture(shown, _shortened(at - since, shown))
            since = at
        shown, since = rows, since or at
    yield Picture(shown or (), LAST)


def _shortened(seconds: float, rows: tuple[Row, ...]) -> float:
    asked = any(re.search(pattern, _text(rows[-1]) + " ") for pattern, _ in ANSWERS[:2]) if rows else False
    return READING if asked else min(seconds, LONGEST_WAIT)


def _text(row: Row) -> str:
    return "".join(span.text for span in row)


def _rows(screen: pyte.Screen, renamed: tuple[str, str]) -> tuple[Row, ...]:
    rows = [_row(screen, number, renamed) for number in range(ROWS)]
    while rows and not rows[-1]:
        rows.pop()
    return tuple(rows)


def _row(screen: pyte.Screen, number: int, renamed: tuple[str, str]) -> Row:
    cells = [screen.buffer[number][column] for column in range(COLUMNS)]
    while cells and cells[-1].data == " ":
        cells.pop()
    looks = groupby(cells, key=lambda cell: (cell.fg, cell.bold))
    spans = (Span("".join(cell.data for cell in each), fg, bold) for (fg, bold), each in looks)
    return tuple(span._replace(text=span.text.replace(*renamed)) for span in spans)


def svg(film: Sequence[Picture]) -> str:
    """The pictures one below the other, of which a window shows one after the other (CSS); each row is drawn once."""
    width, height = COLUMNS * _CELL + 2 * _EDGE, ROWS * _LINE + 2 * _EDGE
    drawn = {row: number for number, row in enumerate(dict.fromkeys(row for each in film for row in each.rows if row))}
    total = sum(each.seconds for each in film)
    at, steps = 0.0, list[str]()
    for number, each in enumerate(film):
        steps.append(f"{100 * at / total:.3f}%{{transform:translateY({-number * height:g}px)}}")
        at += each.seconds
    rows = "".join(f'<g id="r{number}">{_drawn(row)}</g>' for row, number in drawn.items())
    frames = "".join(
        f'<use href="#r{drawn[row]}" y="{number * height + _EDGE + (line + 0.8) * _LINE:g}"/>'
        for number, each in enumerate(film)
        for line, row in enumerate(each.rows)
        if row
    )
    font = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img"><title>The demo, from the approval to the last issue</title><style>'
        f"text{{font:13px {font};white-space:pre;fill:{COLOURS['default']}}}.b{{font-weight:700}}"
        f".film{{animation:film {total:.2f}s steps(1,end) infinite}}@keyframes film{{{''.join(steps)}}}"
        f'</style><rect width="100%" height="100%" rx="8" fill="#0d1117"/><defs>{rows}</defs>'
        f'<svg width="{width:g}" height="{height:g}"><g class="film">{frames}</g></svg></svg>\n'
    )


def _drawn(row: Row) -> str:
    """A row as text; each span stands at its place, whatever the font makes of what is before it."""
    texts, column = list[str](), 0
    for span in row:
        look = ' class="b"' if span.bold else ""
        colour = "" if span.colour == "default" else f' style="fill:{_colour(span.colour)}"'
        if span.text.strip():
            place, long = _EDGE + column * _CELL, len(span.text) * _CELL
            texts.append(
                f'<text x="{place:g}" textLength="{long:g}"{look}{colour} xml:space="preserve">'
                f"{html.escape(span.text, quote=False)}</text>"
            )
        column += len(span.text)
    return "".join(texts)


def _colour(name: str) -> str:
    return COLOURS.get(name.removeprefix("bright"), f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else "#d6dde4")


def main() -> None:
    """Write the recording to the file that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    home = Path("/tmp/rec-ada-1")  # noqa: S108 - its name is as long as the one that is shown
    home.mkdir(mode=0o700)
    try:
        environment = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(home),
            "TERM": "xterm-256color",
            "COLORTERM": "",
            "PYTHONUTF8": "1",
            "XDG_STATE_HOME": f"{home}/.state",
            "XDG_CACHE_HOME": f"{home}/.cache",
        }
        words = [str(Path(sys.executable).with_name("irontree")), "demo"]
        film = list(pictures(play(words, environment, home), renamed=(str(home), "/home/ada/code")))
    finally:
        shutil.rmtree(home)
    here = str(Path(sys.executable).parent)
    shown = "/home/ada".ljust(len(here) - len("/.venv/bin"), "a") + "/.venv/bin"
    file.write_text(svg(film).replace(here, shown), encoding="utf-8")
    seconds = sum(each.seconds for each in film)
    print(f"{file}: {len(film)} pictures, {seconds:.0f} s, {file.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
