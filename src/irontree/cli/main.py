"""`irontree VERB …`: find the verb, import its module only, and turn errors into exit codes.

Each module here has the verbs of one noun in its `VERBS`; `_MODULES` lists verbs that are not named after their
module. Options stand on either side of the verb. Exit codes: 0 done, 1 refused, halted or failed as expected, 2 wrong
usage, 3 a bug of ours, 130 interrupted.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from irontree import __version__
from irontree.cli.console import Console, open_console
from irontree.cli.parser import BUG, INTERRUPTED, OK, REFUSED, USAGE, Parser, UsageError, argument
from irontree.domain.text import suggestion
from irontree.errors import Cancelled, EnvironmentRefused, IrontreeError

if TYPE_CHECKING:
    from irontree.cli.context import Verb

GROUPS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "first": {
            "demo": "the main job on a sample repository, offline",
            "init": "set this repository up: .mino/config.yml from what is found, labels",
            "task": "approve a requirement document, publish its issues, work through them",
            "status": "the tree, who is busy, what waits for you and how to answer",
            "answer": "answer what waits for you: shows it and asks, or takes the answer that is given",
            "stop": "end a loop; its issues keep their state",
            "resume": "go on with a halted loop, and ask what it waits for",
            "show": "everything about one issue; its report, its events, or why it is where it is",
            "serve": "keep a Prefect server and a worker going for the repositories of this machine",
            "ui": "open the page of the run that waits, or of this repository's runs",
        },
        "decisions": {
            "accept": "accept the work that waits, and publish it",
            "reject": "send the work back; the note tells the next attempt what to change",
            "retry": "try again: another attempt, or go on once what was in the way is put right",
            "skip": "leave an issue out of its loop, with all that depends on it",
        },
        "more": {
            "config": "every setting, its value and where it comes from; get, set or explain one",
            "doctor": "look for what would keep the work from going on, in the event log too",
            "inbox": "what waits for a person, here and in every repository that is served, oldest first",
            "plan": "have the agent turn a free-form text into a requirement document",
            "example": "print a requirement document to start from",
            "move": "pack the home of this repository for another machine or path, or make this clone the home",
            "graph": "the dependency graph, as text for Mermaid or Graphviz, or as a picture",
            "repos": "the repositories that are served here: what runs, what waits; add or remove one",
            "automations": "have the Prefect server notify, start and reconcile by itself",
            "agents": "coding agents on this machine; record and replay what one does, or have a member asked again",
            "toolchain": "labels and issue templates for a team that works in its forge",
            "workflow": "write the scripts that HOTL's skills call, each a call of hotl-rt",
            "completion": "print a script that completes verbs, options, issues and loops in the shell",
        },
        "plumbing": {
            "run": "let the agent make one attempt at an issue",
            "verify": "check an issue's commit, and publish it if the checks pass",
            "checkup": "accept, reject, unblock, aggregate, finalize, reconcile, look for trouble",
            "audit": "check the event log for inconsistencies",
        },
    }
)
"""Every verb, by where it is listed: on the first page (`decisions` in one line), or by `irontree help more|plumbing`.

A feature adds its noun under `more`. `plumbing` has the words of the protocol, for scripts.
"""
VERBS: Final[Mapping[str, str]] = MappingProxyType(
    {verb: text for group in GROUPS.values() for verb, text in group.items()}
)
FORMER: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "events": ("show", "--events"),
        "report": ("show", "--report"),
        "why": ("show", "--why"),
        "loops": ("status", "--loops"),
        "export": ("move", "export"),
        "import": ("move", "import"),
    }
)
"""Verbs of earlier versions with what they are now. They work in this version, and are in no help."""
HELP: Final = "help"
PAGES: Final = {
    "more": "What else there is.",
    "plumbing": "The words of the protocol, for scripts: one step at a time, and the log.",
}
"""The groups with a page of their own in `irontree help`."""

_MODULES: Final = {
    "archive": ("move",),
    "asking": ("answer",),
    "consistency": ("audit",),
    "decisions": ("accept", "reject", "retry", "skip", "stop"),
    "issue": ("show",),
    "plan": ("example",),
    "serve": ("automations",),
    "steps": ("run", "verify"),
}
_MODULE_OF: Final[Mapping[str, str]] = {verb: module for module, verbs in _MODULES.items() for verb in verbs}
"""The modules of verbs that are not named after them."""

_FOLDER: Final = argument("-C", dest="folder", metavar="DIR", help="work in the repository that DIR is in")
_ENVIRONMENT_ERRORS: Final = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room on the disk, then type the same again"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make it writable for you, then type the same again"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "allow more open files (`ulimit -n`), then type the same again"),
    **dict.fromkeys((errno.ENAMETOOLONG, errno.ELOOP), "name a file that can be there"),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.EEXIST), "move what is there away, or see HOME and XDG_*"),
}
"""Errors that the machine causes and not a bug of ours, with their remedies."""


def entry() -> None:
    """Entry point of the console script."""
    import gc

    # A command makes tens of thousands of objects that live until it ends; collecting garbage among them is wasted,
    # both while it runs and at exit.
    gc.set_threshold(100_000)
    _have_streams()
    keep_owners_rights()
    code = main()
    gc.freeze()
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line *argv* (without the program's name) and return the exit code; raises nothing."""
    words = list(sys.argv[1:] if argv is None else argv)
    console = open_console(sys.stdout, sys.stderr, os.environ, json="--json" in words)
    try:
        return guard(lambda: _dispatch(words, console), words, console)
    except BrokenPipeError:  # `irontree show 12 --events | head`: the reader has what it wanted
        _be_quiet()
        return OK


def verb_parser(verb: str) -> Parser:
    """The parser for what follows *verb*."""
    parser = Parser(prog=f"irontree {verb}", description=f"{VERBS[verb][0].upper()}{VERBS[verb][1:]}.")
    fill_parser(verb, parser)
    return parser


def fill_parser(verb: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of *verb*."""
    loaded = _load(verb)
    parser.epilog = loaded.epilog
    if "\n" in (loaded.epilog or ""):
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
    for declare in (*loaded.arguments, _FOLDER):
        declare(parser)


def top_parser() -> Parser:
    """The parser for everything up to the verb."""
    parser = Parser(
        prog="irontree",
        usage="irontree [-C DIR] VERB …",
        description="Requirement documents become approved issues; coding agents work through them.",
        epilog="\n".join(_first_page()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _FOLDER(parser)
    parser.add_argument("--version", action="version", version=f"irontree {__version__}")
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def help_text(topic: str = "") -> str:
    """What `irontree help TOPIC` prints: of a verb, of a group with a page of its own, or without one the first page.

    Raises UsageError for what is neither.
    """
    verb = FORMER[topic][0] if topic in FORMER else topic
    if verb in PAGES:
        return "\n".join((PAGES[verb], "", *_lines_of(verb), "", _EACH, ""))
    if verb in VERBS:
        return verb_parser(verb).format_help()
    if verb in ("", HELP):
        return top_parser().format_help()
    raise _unknown(topic)


def guard(work: Callable[[], int], words: Sequence[str], console: Console) -> int:
    """The only error boundary: turn what *work* raises into a message for the user and an exit code.

    Only BrokenPipeError propagates: nothing reads the output any more.
    """
    try:
        code = work()
        console.flush()
    except SystemExit as end:  # argparse after --help and --version
        return end.code if isinstance(end.code, int) else OK
    except UsageError as error:
        console.usage(error.message, error.usage)
        return USAGE
    except (KeyboardInterrupt, Cancelled) as error:
        console.failed("interrupted", str(error) or "interrupted")
        return INTERRUPTED
    except IrontreeError as error:
        console.refused(error)
        return REFUSED
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  (nothing may reach the user as a traceback)
        return _foreign(error, words, console)
    return code


def _foreign(error: Exception, words: Sequence[str], console: Console) -> int:
    if isinstance(error, OSError) and error.errno in _ENVIRONMENT_ERRORS:
        from irontree.files import no_folder

        in_the_way = no_folder(Path(os.fsdecode(error.filename)), error) if error.filename else ""
        where = f"{error.filename}: " if error.filename else ""
        what = in_the_way or f"{where}{error.strerror}"
        console.refused(EnvironmentRefused(what, remedy=_ENVIRONMENT_ERRORS[error.errno]))
        return REFUSED

    from irontree.cli.bug_report import write_report

    console.bug(error, write_report(error, words, os.environ))
    return BUG


def _dispatch(words: Sequence[str], console: Console) -> int:
    if words[:1] in (["-h"], ["--help"]) and words[1:]:  # `irontree --help VERB`, as one types it for git
        words = [HELP, *words[1:]]
    given, early = top_parser().parse_known_args(words)
    if not given.words:
        if early:
            top_parser().error(f"unrecognized arguments: {' '.join(early)}")
        console.write(help_text())
        return OK
    verb, rest = _split(given.words, early)
    if verb == HELP:
        console.write(help_text(*rest[:1]))
        return OK
    if verb in FORMER:
        console.note(f"`irontree {verb}` is now `irontree {' '.join(FORMER[verb])}`")
        verb, *rest = (*FORMER[verb], *rest)
    if verb not in VERBS:
        raise _unknown(verb)
    options = verb_parser(verb).parse(rest)
    folder = Path(given.folder or ".") / (options.folder or ".")
    # `irontree --help` needs nothing of what a verb works with.
    from irontree.cli.context import Context, as_typed_here

    typed = partial(as_typed_here, verbs=VERBS, folder=folder)
    try:
        return _load(verb).run(Context(options, replace(console, typed=typed), folder))
    except UsageError as error:
        error.message = typed(error.message)
        raise
    except IrontreeError as error:
        if error.remedy:
            error.remedy = typed(error.remedy)
        raise


def _split(words: Sequence[str], early: Sequence[str]) -> tuple[str, list[str]]:
    """The verb, and everything else in its order; *early* are the options that came before *words*.

    Behind such options the first word that is a verb is meant: a word before it may be an option's value.
    """
    known = {*VERBS, *FORMER, HELP}
    at = next((at for at, word in enumerate(words) if word in known), 0) if early else 0
    return words[at], [*early, *words[:at], *words[at + 1 :]]


def _load(verb: str) -> Verb:
    module = importlib.import_module(f"irontree.cli.{_MODULE_OF.get(verb, verb)}")
    return cast("Mapping[str, Verb]", module.VERBS)[verb]


def _unknown(verb: str) -> UsageError:
    close = suggestion(verb, VERBS, "`irontree {}`")
    return UsageError(f"there is no verb {verb!r}{close}", top_parser().format_usage())


_EACH: Final = "`irontree help VERB` says what each one takes."


def _first_page() -> Iterator[str]:
    yield from _lines_of("first")
    yield f"\n  {'|'.join(GROUPS['decisions'])} ISSUE   decide with one word what an issue asks"
    yield f"\n{_EACH}"
    yield "The rest is in `irontree help more`, and for scripts in `irontree help plumbing`."


def _lines_of(group: str) -> Iterator[str]:
    return (f"  {verb:<12}{text}" for verb, text in GROUPS[group].items())


def keep_owners_rights() -> None:
    """Have no umask take the owner's own rights: the log's files could not be read again."""
    os.umask(os.umask(0o077) & ~0o700)


def _have_streams() -> None:
    """Replace streams that the caller closed (`>&-`) by the null device: files opened later would take their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115  (for as long as we live)


def _be_quiet() -> None:
    """Keep the interpreter from reporting the closed pipe at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
