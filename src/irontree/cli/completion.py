"""`irontree completion SHELL`: a script that completes verbs, options and files, and the words that a repository has.

The script asks `irontree completion --words KIND` for issues, loops, checks and settings: it reads the names of files,
or the configuration, and starts neither git nor anything else.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from irontree.cli.context import Context, Verb
from irontree.cli.parser import OK, UsageError, argument
from irontree.domain.ids import typed_issue
from irontree.errors import IrontreeError
from irontree.store.layout import STATE_FOLDER, Layout

_PLAIN: Final = re.compile(r"[\w.][\w.-]*")
SHELLS: Final = ("bash", "zsh", "fish")


def run(context: Context) -> int:
    """Print the script, or with `--words` the words of a kind; no repository is needed."""
    options = context.options
    if options.words:
        context.console.write("".join(f"{word}\n" for word in words_of(options.words, context.folder)))
        return OK
    if options.shell is None:
        raise UsageError(f"name the shell: irontree completion {'|'.join(SHELLS)}")
    import shtab

    context.console.write(f"{shtab.complete(whole_parser(), options.shell, preamble=_functions(options.shell))}\n")
    return OK


# --- The words of a repository


def words_of(kind: str, folder: Path) -> tuple[str, ...]:
    """The words of that kind in the repository that contains *folder*; none without one, or if it cannot be read.

    Who wrote the repository may have named a check `$(…)`, which bash would run with a Tab: only plain words are given.
    """
    folder = folder.resolve()
    root = next((place for place in (folder, *folder.parents) if (place / STATE_FOLDER).is_dir()), None)
    if root is None:
        return ()
    with suppress(IrontreeError, OSError):
        return tuple(filter(_PLAIN.fullmatch, KINDS[kind](Layout(root))))
    return ()


def _issues(layout: Layout) -> Iterator[str]:
    numbers = (typed_issue(path.name) for path in layout.events.iterdir())
    return map(str, sorted(filter(None, numbers)))


def _loops(layout: Layout) -> Iterator[str]:
    return (path.stem for path in sorted(layout.loops.glob("*.yml"), reverse=True))


def _either(layout: Layout) -> Iterator[str]:
    yield from _issues(layout)
    yield from _loops(layout)


def _checks(layout: Layout) -> Iterator[str]:
    from irontree.config_file import load_config

    return (check.name for check in load_config(layout.config).verify.commands)


def _settings(layout: Layout) -> Iterator[str]:
    from irontree.cli.config import settings_of
    from irontree.config_file import load_config

    return (setting.key for setting in settings_of(load_config(layout.config)))


KINDS: Final[Mapping[str, Callable[[Layout], Iterator[str]]]] = MappingProxyType(
    {"issues": _issues, "loops": _loops, "either": _either, "checks": _checks, "settings": _settings}
)
"""What reads the words of each kind; `either` are issues and loops."""
_COMPLETED: Final = {
    ("answer", "asked"): "either",
    ("checkup", "issue"): "issues",
    ("config", "name"): "settings",
    ("doctor", "run"): "checks",
    ("ui", "what"): "either",
    "issue": "issues",
    "loop_id": "loops",
}
"""The kind of each argument, by its name (argparse `dest`), where need be with its verb."""


# --- The script


def whole_parser() -> argparse.ArgumentParser:
    """One parser with all verbs; every other command imports the module of its own verb only."""
    import shtab

    from irontree.cli.main import HELP, PAGES, VERBS, fill_parser

    paths = {"intent": shtab.FILE, "file": shtab.FILE, "text": shtab.FILE, "folder": shtab.DIRECTORY}
    parser = argparse.ArgumentParser(prog="irontree")
    verbs = parser.add_subparsers(metavar="VERB")
    for verb, text in VERBS.items():
        fill_parser(verb, filled := verbs.add_parser(verb, help=text))
        for action in filled._actions:  # noqa: SLF001  (argparse has no public way)
            kind = _COMPLETED.get((verb, action.dest)) or _COMPLETED.get(action.dest)
            completes = paths.get(action.dest) or (_function_of(kind) if kind else None)
            if completes:
                action.complete = completes  # type: ignore[attr-defined]
    verbs.add_parser(HELP, help="explain a verb").add_argument("topic", nargs="?", choices=(*PAGES, *VERBS))
    return parser


def _function(kind: str) -> str:
    return f"_irontree_{kind}"


def _function_of(kind: str) -> dict[str, str]:
    """What completes that kind, by shell."""
    return {"bash": _function(kind), "zsh": _function(kind), "fish": f"({_function(kind)})"}


_FORMS: Final = {
    "bash": '{name}() {{ compgen -W "$({command})" -- "$1"; }}',
    "zsh": '{name}() {{ compadd -- ${{(f)"$({command})"}}; }}',
    "fish": "function {name}; {command}; end",
}


def _functions(shell: str) -> str:
    """The shell functions that ask for the words of each kind, when they are wanted."""
    commands = {_function(kind): f"irontree completion --words {kind} 2>/dev/null" for kind in KINDS}
    return "\n".join(_FORMS[shell].format(name=name, command=command) for name, command in commands.items())


VERBS: Final = {
    "completion": Verb(
        run,
        argument("shell", choices=SHELLS, nargs="?", help="how to load its script: docs/reference-cli.md"),
        argument("--words", choices=tuple(KINDS), help=argparse.SUPPRESS),
    )
}
