"""Hand secrets to processes of ours by a socket that only this user can open (docs/decisions/0018-tokens.md).

No file, environment or command line holds them.

Run as a program, `handing.py SOCKET get`, it is a credential helper of git. It imports the standard library alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 10.0
"""A whole request takes no longer."""
MOST_AT_ONCE = 32
"""Requests: further ones wait for one of these to end."""
ALIVE = ".irontree-alive"
"""The file that stays locked as long as we live, as in each of our scratch folders (`irontree.files`)."""
_PR_SET_DUMPABLE = 4
_LONGEST = 1 << 20
_LONGEST_FOLDER = 60
"""Characters: the address of a socket has at most 104 on some systems."""


def protect() -> None:
    """Let no other process of this user read our memory and initial environment, which may hold secrets; on Linux."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  (most commands hand over nothing and start nobody's programs)

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def folder_of_sockets() -> Path:
    """That of temporary files, or `/tmp` if its name leaves no room in a socket's address."""
    usual = tempfile.gettempdir()
    return Path(usual if len(usual) <= _LONGEST_FOLDER else "/tmp")  # noqa: S108  (a folder of our own is made in it)


@contextmanager
def handing(answer: Callable[[bytes], bytes]) -> Iterator[Path]:
    """The socket at which each request gets its *answer*, from a thread of its own, for as long as the block lasts.

    A client that connects and says nothing keeps nobody waiting. The folder is readable by this user alone; if this
    process is killed, nothing secret is left in it.
    """
    protect()
    with (
        tempfile.TemporaryDirectory(
            prefix="irontree-handing-", ignore_cleanup_errors=True, dir=folder_of_sockets()
        ) as folder,
        (Path(folder) / ALIVE).open("w", encoding="ascii") as alive,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
    ):
        fcntl.flock(alive, fcntl.LOCK_EX)
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
                _connected(str(path)).close()
            thread.join(SECONDS)


def _serve(listener: socket.socket, answer: Callable[[bytes], bytes], over: threading.Event) -> None:
    free = threading.Semaphore(MOST_AT_ONCE)
    while not over.is_set():
        asking, _ = listener.accept()
        free.acquire()
        threading.Thread(target=_reply, args=(asking, answer, free), name="handing one", daemon=True).start()


def _reply(asking: socket.socket, answer: Callable[[bytes], bytes], free: threading.Semaphore) -> None:
    try:
        with asking, contextlib.suppress(OSError):
            asking.sendall(answer(_everything(asking)))
    finally:
        free.release()


def ask(path: str, request: bytes = b"") -> bytes:
    """The answer at that socket. Raises OSError if nobody answers there."""
    with _connected(path) as asking:
        asking.sendall(request)
        asking.shutdown(socket.SHUT_WR)
        return _everything(asking)


def _connected(path: str) -> socket.socket:
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        asking.settimeout(SECONDS)
        asking.connect(path)
    except OSError:
        asking.close()
        raise
    return asking


def _everything(talking: socket.socket) -> bytes:
    """What the other side says until it ends. Raises TimeoutError if that takes too long as a whole."""
    end, said = time.monotonic() + SECONDS, bytearray()
    while len(said) < _LONGEST:
        talking.settimeout(max(end - time.monotonic(), 0.001))
        more = talking.recv(4096)
        if not more:
            break
        said += more
    return bytes(said)


if __name__ == "__main__" and sys.argv[2:] == ["get"]:
    sys.stdout.buffer.write(ask(sys.argv[1], sys.stdin.buffer.read()))
