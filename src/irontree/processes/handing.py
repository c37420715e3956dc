"""Hand secrets to processes of ours by a socket that only this user can open (docs/decisions/0018-tokens.md).

No file, environment or command line holds them.

Run as a program, `handing.py SOCKET get`, it is a credential helper of git. It imports the standard library alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SECONDS = 10.0
_LONGEST = 1 << 20
_LONGEST_FOLDER = 60
"""Characters: the address of a socket has at most 104 on some systems."""


@contextmanager
def handing(answer: Callable[[bytes], bytes]) -> Iterator[Path]:
    """The socket at which each request gets its *answer*, from a thread, for as long as the block lasts.

    Its folder is readable by this user alone; if this process is killed, nothing secret is left in it.
    """
    short = None if len(tempfile.gettempdir()) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108  (a folder of our own in it)
    with (
        tempfile.TemporaryDirectory(prefix="irontree-handing-", ignore_cleanup_errors=True, dir=short) as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
    ):
        path = Path(folder) / "socket"
        listener.bind(str(path))
        listener.listen()
        over = threading.Event()
        thread = threading.Thread(target=_serve, args=(listener, answer, over), name="handing", daemon=True)
        thread.start()
        try:
            yield path
        finally:
            over.set()
            with contextlib.suppress(OSError):  # wakes the thread: closing alone does not, on every system
                ask(str(path))
            thread.join(SECONDS)


def _serve(listener: socket.socket, answer: Callable[[bytes], bytes], over: threading.Event) -> None:
    while not over.is_set():
        asking, _ = listener.accept()
        with asking, contextlib.suppress(OSError):
            if over.is_set():
                return
            asking.settimeout(SECONDS)
            asking.sendall(answer(_everything(asking)))


def ask(path: str, request: bytes = b"") -> bytes:
    """The answer at that socket. Raises OSError if nobody answers there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(SECONDS)
        asking.connect(path)
        asking.sendall(request)
        asking.shutdown(socket.SHUT_WR)
        return _everything(asking)


CREDENTIALS = "IRONTREE__CREDENTIALS"
"""The variable with the socket at which a flow process is told the credential for the forge that its runner has."""


def given_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """This process's environment, and the credential for the forge that its runner has, if it has one."""
    path = environ.get(CREDENTIALS)
    if path is None:
        return dict(environ)
    try:
        return {**environ, **json.loads(ask(path))}
    except OSError:  # the runner is gone, and a flow process ends with it
        return dict(environ)


def _everything(talking: socket.socket) -> bytes:
    said = bytearray()
    while len(said) < _LONGEST and (more := talking.recv(4096)):
        said += more
    return bytes(said)


if __name__ == "__main__" and sys.argv[2:] == ["get"]:
    sys.stdout.buffer.write(ask(sys.argv[1], sys.stdin.buffer.read()))
