"""Runs a command to its end and prints its seconds, its peak memory in KiB and its exit code.

A small process of its own, started with `-I -S`: the kernel counts the memory of the process that starts a program
into that program's peak, and this one is smaller than anything measured here.
"""

import os
import sys
import time


def main(argv: list[str]) -> None:
    """Run *argv* with its output thrown away."""
    silence = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    began = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=silence)
    _, status, used = os.wait4(pid, 0)
    seconds = time.perf_counter() - began
    kibibytes = used.ru_maxrss // (1024 if sys.platform == "darwin" else 1)
    sys.stdout.write(f"{seconds} {kibibytes} {os.waitstatus_to_exitcode(status)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
