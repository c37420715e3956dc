"""`irontree` as it starts: a process that has imported no more than its command line, and forks for each command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

_PROGRAM = """\
import json, os, sys
from irontree.cli.main import main
told = os.fdopen(os.dup(1), "w")
silent = os.open(os.devnull, os.O_RDWR)
for line in sys.stdin:
    words, folder, environment = json.loads(line)
    if os.fork():
        os.wait()
        continue
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    code = None
    try:
        code = main(words)
    finally:
        print(json.dumps([code, sorted(sys.modules)]), file=told, flush=True)
        os._exit(0)
"""


class Started(NamedTuple):
    """How a command ended that was started anew, and the modules it has loaded by then."""

    code: int | None
    modules: frozenset[str]


class Starter:
    """Starts commands, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self, words: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Started:
        """Run `irontree *words` in *folder*, by default in the environment of this process; its output is dropped."""
        assert self._process.stdin
        assert self._process.stdout
        given = dict(os.environ if environment is None else environment)
        print(json.dumps([list(words), str(folder), given]), file=self._process.stdin, flush=True)
        code, modules = json.loads(self._process.stdout.readline())
        return Started(code, frozenset(modules))

    @classmethod
    @contextmanager
    def ready(cls) -> Iterator[Self]:
        """One for the block."""
        command = [sys.executable, "-c", _PROGRAM]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            yield cls(process)
