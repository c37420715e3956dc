"""`hotl-rt …`: the runtime that HOTL's skills call, for agents that know nothing of Iron Tree (docs/hotl.md).

Commands, output and files are upstream's. Exit codes: 0 done, 1 anything else, 130 interrupted; every error is a line
`ERROR: …` on stderr. It needs no `.mino`, no Prefect, and git only for `prepare` and `locate`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from irontree.cli import hotl_commands as commands
from irontree.cli.hotl_commands import FAILED, OK, Misused, say, tell
from irontree.errors import IrontreeError

INTERRUPTED: Final = 130
_HELP: Final = ("--help", "-h")


class Command(NamedTuple):
    """What runs a command, what the usage says of it, and how many words it takes."""

    run: Callable[[list[str]], int]
    usage: str
    fewest: int = 0
    most: int = 1000


COMMANDS: Final[Mapping[str, Command]] = {
    "init": Command(
        commands.run_init,
        """\
  init <workflow-file> [--executor-mode <mode>] [--repo-root <path>]
       [--execution-root <path>] [--source-workflow-path <path>]
       [--worktree-path <path>] [--branch <name>] [--source-branch <name>]
       [--source-head <commit>]         Begin a run of a workflow file; what is
                                        not given is as `prepare` had it
""",
        fewest=1,
    ),
    "step": Command(
        commands.run_step,
        """\
  step <N> start [--run-id <run-id>]    Begin step N, or its next attempt
  step <N> verify [--run-id <run-id>]   Run its checks: it is done, failed or blocked
  step <N> retry [--run-id <run-id>]    Let a failed or blocked step be tried again
  step <N> block --reason "..." [--run-id <run-id>]
                                        Stop at step N for a reason
""",
        fewest=2,
    ),
    "gate": Command(
        commands.run_gate,
        """\
  gate <N> <approved|rejected> [--mode auto|human] [--run-id <run-id>]
                                        Record the decision of a gate or review
""",
        fewest=2,
    ),
    "finalize": Command(
        commands.run_finalize,
        """\
  finalize [--json] [--run-id <run-id>] End the run, print its summary
""",
    ),
    "summary": Command(
        commands.run_summary,
        """\
  summary <run-id> [--json]             Print the summary of any run
""",
        fewest=1,
    ),
    "log-decision": Command(
        commands.run_log_decision,
        """\
  log-decision <json>                   Append a line to decision_log_path of
                                        .hotl/config.yml; nothing without it
""",
    ),
    "lint": Command(
        commands.run_lint,
        """\
  lint <file>                           Name every mistake in a workflow file
                                        or design document
""",
        fewest=1,
        most=1,
    ),
    "prepare": Command(
        commands.run_prepare,
        """\
  prepare <workflow-file> [--executor-mode <mode>]
                                        Make the branch and worktree of a workflow
""",
        fewest=1,
    ),
    "locate": Command(
        commands.run_locate,
        """\
  locate [--workflow <file>] [--run-id <run-id>] [--all]
                                        List runs here and in all worktrees
""",
    ),
    "render": Command(
        commands.run_render,
        """\
  render --platform <codex|claude|cline> <summary-json>
                                        Show a summary; - reads it from stdin
""",
        fewest=3,
        most=3,
    ),
}
USAGE: Final = "usage: hotl-rt <command> [args]\n\ncommands:\n" + "".join(each.usage for each in COMMANDS.values())


def entry() -> None:
    """Entry point of the console script."""
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line *argv* (without the program's name) and return the exit code; raises nothing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        print(end="", flush=True)  # a reader that went away is noticed here, where it is no error
    except BrokenPipeError:  # the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return INTERRUPTED
    except IrontreeError as error:
        return _failed(error.message, error.remedy or "")
    except Exception as error:  # noqa: BLE001  (the boundary: agents read one line, and no traceback)
        return _failed(f"{type(error).__name__}: {error}")
    return code


def _failed(message: str, remedy: str = "") -> int:
    tell(f"ERROR: {message}")
    if remedy:
        tell(f"       {remedy}")
    return FAILED


def _dispatch(words: list[str]) -> int:
    if not words:
        say(USAGE.rstrip())
        return FAILED
    command, *rest = words
    if command in (*_HELP, "help"):
        say(USAGE.rstrip())
        return OK
    if command not in COMMANDS:
        tell(f"ERROR: Unknown command: {command}")
        say(USAGE.rstrip())
        return FAILED
    if _asks_for_help(rest):
        say(_usage_of(command))
        return OK
    return _run(command, rest)


def _run(command: str, words: list[str]) -> int:
    known = COMMANDS[command]
    try:
        if known.fewest <= len(words) <= known.most:
            return known.run(words)
    except Misused as error:
        if error.message:
            tell(f"ERROR: {error.message}")
    tell(_usage_of(command))
    return FAILED


def _usage_of(command: str) -> str:
    return f"usage: hotl-rt {COMMANDS[command].usage.strip()}"


def _asks_for_help(words: Sequence[str]) -> bool:
    """Whether the first or last word does; the value of an option does not."""
    return bool(words) and (words[0] in _HELP or (words[-1] in _HELP and not words[-2].startswith("-")))
