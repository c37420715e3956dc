"""`irontree` as it starts: a process that has imported no more than its command line, and forks for each command.

What a command loads costs most of its time. Where that is not what is tried, the process has imported it all, but for
Prefect, which reads its settings as it is imported.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

_IMPORTS = """\
import importlib, json, os, pkgutil, socket, sys
import irontree
from irontree.cli.main import entry, main
prefect = ("flows", "tasks", "blocks", "__main__")
for found in pkgutil.walk_packages(irontree.__path__, "irontree.") if sys.argv[1:] == ["all"] else ():
    if found.name.split(".")[1] not in prefect:
        importlib.import_module(found.name)
assert "prefect" not in sys.modules
"""
_PROGRAM = """\
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
_SERVER = """\
listener = socket.socket(fileno=0)
while True:
    caller, _ = listener.accept()
    _, streams, _, _ = socket.recv_fds(caller, 1, 3)
    words, folder, environment = json.loads(caller.makefile().read())
    if child := os.fork():
        for stream in streams:
            os.close(stream)
        caller.sendall(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
        caller.close()
        continue
    caller.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    break
os.chdir(folder)
os.environ.clear()
os.environ.update(environment)
sys.argv[1:] = words
sys.stdin, sys.stdout, sys.stderr = (open(number, mode, closefd=False) for number, mode in enumerate("rww"))
entry()
"""
_CALLER = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [b" "], [0, 1, 2])
    server.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    code = int(server.makefile().read())
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
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
    def ready(cls, *, loaded: bool = False) -> Iterator[Self]:
        """One for the block; *loaded* if what commands load is of no interest."""
        command = [sys.executable, "-c", _IMPORTS + _PROGRAM, *(["all"] if loaded else [])]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            yield cls(process)


@contextmanager
def program_that_starts_at_once(path: Path) -> Iterator[None]:
    """Have the program `irontree` at *path*, for the block: a process of its own for each call, one at a time.

    It has the streams, folder and variables of its caller, which ends as it does.
    """
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        address, caller = f"{folder}/irontree", Path(folder, "caller.py")
        listener.bind(address)
        listener.listen()
        caller.write_text(_CALLER.format(address=address), encoding="utf-8")
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{caller}" "$@"\n', encoding="utf-8")
        path.chmod(0o755)
        server = subprocess.Popen([sys.executable, "-c", _IMPORTS + _SERVER, "all"], stdin=listener)
        try:
            yield
        finally:
            server.kill()
            server.wait()
