"""A container engine that contains nothing: it records how it is called, and runs the command beside this program.

As with a real one, what runs is no child of who called, bears none of its marks, and goes on when the caller is killed.
Its state is in `$DOCKER_FAKE_STATE`: `calls.jsonl`, and for each living container a file with its session's number.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

STATE = Path(os.environ["DOCKER_FAKE_STATE"])
WITH_VALUE = frozenset(
    {"--name", "--workdir", "--mount", "--user", "--userns", "--network", "--env", "--memory", "--pids-limit"}
)
MARK = "IRONTREE_CHILD"
PATH = "/usr/local/bin:/usr/bin:/bin"
ABSENT = "0" * 64


def main(words: list[str]) -> int:
    with (STATE / "calls.jsonl").open("a", encoding="utf-8") as calls:
        calls.write(json.dumps({"words": words, "cwd": str(Path.cwd())}) + "\n")
    match words:
        case ["run", *rest]:
            return run(rest)
        case ["rm", "--force", name]:
            return remove(name)
        case ["image", "inspect", "--format", _, image]:
            return inspect(image)
    return complain(f"unknown command: {words}")


def run(words: list[str]) -> int:
    options: list[tuple[str, str]] = []
    while words[0].startswith("--"):
        name, value, words = (words[0], words[1], words[2:]) if words[0] in WITH_VALUE else (words[0], "", words[1:])
        options.append((name, value))
    image, *command = words
    if ABSENT in image:
        return complain(f"Unable to find image '{image}' locally", 125)
    given = dict(options)
    try:
        process = subprocess.Popen(
            ["sh", "-c", 'exec "$@"', "sh", *command],
            cwd=given["--workdir"],
            env={"PATH": PATH, **_variables([value for name, value in options if name == "--env"])},
            start_new_session=True,
        )
    except OSError as error:
        return complain(f"OCI runtime create failed: {error}", 127)
    (STATE / given["--name"]).write_text(str(process.pid))
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(process.pid, signal.SIGTERM))
    code = process.wait()
    remove(given["--name"])
    if code == 127:
        return complain(
            "Error response from daemon: OCI runtime create failed: executable file not found in $PATH", 127
        )
    return 128 - code if code < 0 else code


def _variables(given: list[str]) -> dict[str, str]:
    pairs = (text.partition("=") for text in given)
    found = {name: value if sign else os.environ.get(name) for name, sign, value in pairs}
    return {name: value for name, value in found.items() if value is not None and name != MARK}


def remove(name: str) -> int:
    record = STATE / name
    if not record.exists():
        return complain(f"Error response from daemon: No such container: {name}")
    with suppress(ProcessLookupError):
        os.killpg(int(record.read_text()), signal.SIGKILL)
    record.unlink()
    if sys.argv[1] == "rm":
        say(name)
    return 0


def inspect(image: str) -> int:
    if ABSENT in image:
        return complain(f"Error: No such image: {image}")
    say(image)
    return 0


def complain(words: str, code: int = 1) -> int:
    sys.stderr.write(f"docker: {words}\n" if code > 1 else f"{words}\n")
    return code


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
