"""Writes down which functions of ours are called, in each Python process that finds this file as `sitecustomize`.

For tools/trace_way.py, which says in the environment where our sources are and where to write. What runs because a
module is loaded is left out. A line is written at once: many of our processes end by SIGKILL.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType

FOLDER = "TRACE_WAY_FOLDER"
SOURCES = "TRACE_WAY_SOURCES"
AGAIN = 0.01
"""Seconds after which another call of the same function is written down too: what was called before counts no more."""
PARTS_OF_FUNCTIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class Tracer:
    """Is told of every call of a Python function in this process."""

    def __init__(self, folder: Path, sources: tuple[str, ...]) -> None:
        self._sources = sources
        self._foreign: set[str] = set()
        self._latest: dict[tuple[str, str], float] = {}
        self._target = os.open(folder / f"{os.getpid()}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._now, self._write, self._text = time.time, os.write, json.dumps
        self._note(list(sys.orig_argv))

    def called(self, frame: FrameType, _event: str, _argument: object) -> None:
        """Write it down if it is ours; nothing is asked about the lines in it."""
        code = frame.f_code
        file = code.co_filename
        if file in self._foreign:
            return
        if not file.startswith(self._sources):
            self._foreign.add(file)
            return
        if not code.co_flags & inspect.CO_OPTIMIZED or code.co_name in PARTS_OF_FUNCTIONS:
            return
        now, function = self._now(), (file, code.co_qualname)
        if now - self._latest.get(function, 0.0) >= AGAIN and not is_loading(frame):
            self._latest[function] = now
            self._note([now, *function])

    def _note(self, words: list[object] | list[str]) -> None:
        self._write(self._target, self._text(words).encode() + b"\n")


def is_loading(frame: FrameType | None) -> bool:
    """Whether this is called because somebody imports a module."""
    while frame is not None:
        caller = frame.f_back
        if frame.f_code.co_name == "<module>" and caller and caller.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = caller
    return False


if __name__ == "sitecustomize" and FOLDER in os.environ:
    tracer = Tracer(Path(os.environ[FOLDER]), tuple(os.environ[SOURCES].split(os.pathsep)))
    threading.settrace(tracer.called)
    sys.settrace(tracer.called)
