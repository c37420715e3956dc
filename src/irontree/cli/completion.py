"""`irontree completion SHELL`: a script that lets the shell complete verbs, options and file names."""

from __future__ import annotations

import argparse
from typing import Final

import shtab

from irontree.cli.context import Context
from irontree.cli.exit_codes import OK

_PATHS: Final = {"intent": shtab.FILE, "file": shtab.FILE, "folder": shtab.DIRECTORY}
"""Arguments that name a path, by argparse's name for them."""
SHELLS = tuple(shell for shell in shtab.SUPPORTED_SHELLS if shell in ("bash", "zsh", "fish"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the shell."""
    parser.add_argument("shell", choices=SHELLS, help="how to load its script: docs/how-to/complete-in-the-shell.md")


def run(context: Context) -> int:
    """Print the script; it needs no repository."""
    context.console.write(f"{shtab.complete(whole_parser(), context.options.shell)}\n")
    return OK


def whole_parser() -> argparse.ArgumentParser:
    """All verbs in one parser: otherwise the module of one verb is imported alone."""
    from irontree.cli.main import VERBS, fill_parser

    parser = argparse.ArgumentParser(prog="irontree")
    verbs = parser.add_subparsers(metavar="VERB")
    for verb, text in VERBS.items():
        fill_parser(verb, filled := verbs.add_parser(verb, help=text))
        for argument in filled._actions:  # noqa: SLF001  (argparse has no other way to ask)
            if completes := _PATHS.get(argument.dest):
                argument.complete = completes  # type: ignore[attr-defined]
    return parser
