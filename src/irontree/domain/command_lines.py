"""What command lines run, as far as their words tell: files, targets of make, and the places of Python's modules (R18).

No shell is understood here. A word too many has a person asked; a word too few lets a change pass unseen.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from irontree.domain.text import FILLERS, without_secrets


def names(text: str) -> tuple[str, ...]:
    """The names in a table that is written as words."""
    return tuple(text.split())


_HERE: Final = re.compile(r"^(?:\$\{?PWD\}?|\$\(pwd\)|`pwd`)/")
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}|\$\w+")
_KEYWORDS: Final = ("if", "then", "elif", "else", "do", "while", "until", "!", "{", "(")
_INTERPRETERS: Final = names(
    """
    sh bash dash zsh ksh ash fish pwsh node nodejs deno bun tsx ts-node ruby perl php Rscript lua luajit tclsh java
    julia elixir
    """
)
_RUNNERS: Final = (
    *_INTERPRETERS,
    *names(
        """
        source . env exec eval command builtin time nice ionice nohup setsid sudo timeout stdbuf taskset chrt flock
        watch parallel xargs xvfb-run busybox strace run uv uvx pipx poetry pdm hatch rye pixi mise npx bunx
        pnpm yarn coverage
        """
    ),
)
"""Programs of which a later word names what is run."""
_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*")
_DURATION: Final = re.compile(r"[\d.]+[smhd]?")
_MODULE: Final = re.compile(r"-[bBdEiIOPqsSuvx]*m(\w.*)?")
_WITH_VALUE: Final = names("-W -X -o +o -O +O -r -I -u -s -k -n --require --import --loader --init-file")
"""Options behind which the next word is theirs, also where there is a file of its name."""
_CONFIGURED_BY: Final = names(
    """
    --config --config-file --rcfile --init-file --settings --makefile --file --require --import --loader --from-file
    """
)
"""Options whose value may be a file that says what is done; short ones mean other things elsewhere."""
_CONFIGURED_BY_SHORT: Final = (
    *(("make", "-f"), ("gmake", "-f"), ("pytest", "-c"), ("tsc", "-p"), ("jest", "-c"), ("vitest", "-c")),
    *(("eslint", "-c"), ("awk", "-f"), ("sed", "-f"), ("grep", "-f"), ("nox", "-f"), ("cmake", "-P"), ("ruby", "-r")),
    *(("node", "-r"), ("md5sum", "-c"), ("sha1sum", "-c"), ("sha256sum", "-c"), ("sha512sum", "-c")),
)
_COMPARE: Final = ("diff", "cmp", "comm", "sdiff")
"""Programs whose operands say what is right."""
_JUDGE: Final = (*_COMPARE, "grep", "egrep", "fgrep", "rg", "jq", "wc")
"""Programs that judge what another one prints."""
_READERS: Final = names(
    """
    test [ [[ ls stat file cat head tail wc jq echo printf grep egrep fgrep rg git shellcheck shfmt ruff mypy flake8
    pylint black isort eslint prettier markdownlint yamllint gofmt
    """
)
"""Programs that look at files, and run none."""
_PATH: Final = re.compile(r"[\w./@+-]+")
_SUBSTITUTED: Final = re.compile(r"\$\(.*\)", re.DOTALL)
_CHECKS: Final = re.compile(
    r"(?i)\.sh$|(?:^|[/_.-])(?:checks?|tests?|verif\w*|lint\w*|accept\w*|ci|specs?|e2e|scripts?|tools?)(?=[/_.-]|$)"
)
"""Paths of what checks rather than of what is checked."""
_MOVES: Final = ("cd", "pushd")
_MOVES_BY: Final = ("-C", "--directory", "--prefix", "--chdir", "--cwd")
_MAKES: Final = ("make", "gmake", "bmake", "ninja")
_OF_TESTS: Final = (
    "pytest",
    "py.test",
    "unittest",
    "nose2",
    "trial",
    "mocha",
    "jest",
    "vitest",
    "rspec",
    "bats",
    "ava",
)
"""Programs and modules whose operands are tests."""
_OF_PYTHON: Final = ("pytest", "py.test", "nose2", "trial", "unit2")
_SOURCES: Final = ("", "src", "lib")
"""Folders that Python is often told to look in, by settings that are not read here."""
_ENDINGS_RUN: Final = ("", ".js", ".mjs", ".cjs", "/index.js", "/__main__.py")
"""What an interpreter may add to the name that it is given."""


class _Command(NamedTuple):
    """The words of one command, and whether another one judges what it prints."""

    words: tuple[str, ...]
    judged: bool = False


@dataclass(slots=True)
class Named:
    """What some command lines name, as paths from the folder that they run in."""

    run: set[str] = field(default_factory=set)
    """What is run or says what is run; patterns too."""
    written: set[str] = field(default_factory=set)
    """Files that stand anywhere in a line and may be run by it, in a way that is not read here."""
    tests: set[str] = field(default_factory=set)
    """Files and folders that a program of tests is told to run."""
    targets: set[str] = field(default_factory=set)
    """What make is asked for: where there is such a file or folder, it may do nothing."""
    makes: set[str] = field(default_factory=set)
    """The folders that make runs in."""
    modules: set[str] = field(default_factory=set)
    """The modules that `-m` names."""
    folders: set[str] = field(default_factory=set)
    """Where Python looks for modules before it looks for its own, as the lines say."""
    programs: set[str] = field(default_factory=set)
    """Folders in which a program is looked for."""


def named_by(lines: Iterable[str], files: Collection[str], folders: Collection[str]) -> Named:
    """What the command *lines* name, in a folder with these *files* and *folders*."""
    named = Named()
    for line in lines:
        _Line(named, files, folders).read(line)
    return named


def folders_of(files: Iterable[str]) -> frozenset[str]:
    """The folders that *files* are in, without the top."""
    found = set[str]()
    for file in files:
        for folder in _above(file):
            if folder in found:
                break
            found.add(folder)
    return frozenset(found)


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


class _Line:
    """One line, read command by command."""

    def __init__(self, named: Named, files: Collection[str], folders: Collection[str]) -> None:
        self._named, self._files, self._folders = named, files, folders
        self._places = {""}
        """Where a command may run: a folder that is gone to counts until the end of the line."""

    def read(self, line: str) -> None:
        commands = _commands(line)
        for command in commands:
            self._take(command)
        for command in commands:
            self._named.written |= self._written(command)
        words = [word for command in commands for word in command.words]
        if any(_runs_what_it_is_given(command.words) for command in commands):
            self._named.run |= self._existing(words)
        run = [path for path in self._named.run if "$" in path]
        self._named.run |= {pattern for path in run if (pattern := _VARIABLE.sub("*", path)).strip("*/.")}
        if any(not _VARIABLE.sub("", path).strip("/.") for path in run):
            self._named.run |= self._existing(words) | self._paths(
                word for command in commands if command.words[:1] == ("for",) for word in command.words[3:]
            )

    def _written(self, command: _Command) -> set[str]:
        """Files that look like checks, or are written as programs (`./gate`), wherever they stand in a command.

        A shell has more ways to run a file than are read here: options of unknown wrappers, substitutions in quotes,
        variables, traps. What it prints to another program is the work, unless it looks like a check.
        """
        programs = [_program(word) for word in command.words if word not in _KEYWORDS and "=" not in word]
        looks = bool(programs) and programs[0] in _READERS
        found = set[str]()
        for word in command.words:
            if looks and not _SUBSTITUTED.search(word) and ";" not in word:
                continue
            text = _VARIABLE.sub(" ", word)
            found |= {path for path in self._paths(_PATH.findall(text)) if _CHECKS.search(path)}
            if not command.judged:
                outside = _PATH.findall(_SUBSTITUTED.sub(" ", text))
                found |= self._paths(path for path in outside if path.startswith("./"))
        return found & set(self._files)

    def _take(self, command: _Command) -> None:
        words = list(self._assigned(command.words))
        if not words:
            return
        called = [_program(word) for word in words]
        moved = (
            [word for word in words[1:] if not word.startswith("-")][:1]
            if words[0] in _MOVES
            else list(_values(words, _MOVES_BY))
        )
        self._places |= self._paths(moved)
        run = [words[0], *_configuration(words, called)]
        modules = [] if any(name in _INTERPRETERS for name in called) else list(_modules(words))
        if not modules:  # what stands behind a module is what that works on
            run += (f"{word}{end}" for word in self._run_behind(words, called) for end in _ENDINGS_RUN)
        found = self._paths(run)
        self._named.run |= {path for path in found if _CHECKS.search(path)} if command.judged else found
        self._take_operands(words, called, modules, moved)
        for word in words:
            if any(map(str.isspace, word)) and any(map(_interprets, called)):  # `sh -c 'cd ci; ./check'`
                self.read(word)
        if modules or "-c" in words or any(_PYTHON.fullmatch(name) or name in _OF_PYTHON for name in called):
            self._take_python(words, called, modules)

    def _assigned(self, words: Iterable[str]) -> Iterator[str]:
        """The words without keywords and assignments, whose folders are noted."""
        first = True
        for word in words:
            name, assigned, value = word.partition("=")
            if assigned and name.isidentifier():
                folders = {"PATH": self._named.programs, "PYTHONPATH": self._named.folders}.get(name)
                if folders is not None:
                    folders |= {path for path in self._paths(value.split(":")) if "$" not in path}
                continue
            if first and word in (*_KEYWORDS, "export"):
                continue
            first = False
            yield word

    def _take_operands(self, words: list[str], called: list[str], modules: list[str], moved: list[str]) -> None:
        operands = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        if called[0] in _COMPARE:
            self._named.run |= self._existing(operands)
        if any(name in _OF_TESTS for name in (*called, *modules)):
            self._named.tests |= self._paths((*operands, *(f"{word.replace('.', '/')}.py" for word in operands)))
        if called[0] == "go" and words[1:2] == ["run"]:
            self._named.run |= {f"{path}/*" for path in self._paths(operands[1:2])}
        if called[0] == "run-parts":
            self._named.run |= {f"{path}/*" for path in self._paths(operands)}
        if any(name in _MAKES for name in called):
            self._named.makes |= self._places
            self._named.targets |= self._paths(
                word for word in operands if word not in moved and _program(word) not in _MAKES
            )

    def _existing(self, words: Iterable[str]) -> set[str]:
        """Those that are files here, and what is in those that are folders."""
        found = self._paths(words)
        return {path for path in found if path in self._files} | {
            f"{path}/*" for path in found if path in self._folders
        }

    def _take_python(self, words: list[str], called: list[str], modules: list[str]) -> None:
        scripts = [word for word in words if word.endswith((".py", ".pyz"))]
        for module in modules:
            path = module.replace(".", "/")
            packages = (f"{folder}/__init__.py" for folder in _above(f"{path}/x"))
            self._named.run |= self._paths((f"{path}.py", f"{path}/__main__.py", *packages))
        self._named.modules.update(module.partition(".")[0] for module in modules)
        sources = _SOURCES if modules or "-c" in words or any(name in _OF_PYTHON for name in called) else ()
        self._named.folders |= self._paths((*sources, *map(posixpath.dirname, scripts)))

    def _run_behind(self, words: list[str], called: list[str]) -> Iterator[str]:
        """What each program that runs others may be told to run."""
        for at, name in enumerate(called):
            if _interprets(name) or (at == 0 and name in _RUNNERS):
                yield from self._first_arguments(words[at + 1 :])

    def _first_arguments(self, words: list[str]) -> Iterator[str]:
        """The words up to the first that is neither an option, nor its value, nor another program that runs one."""
        before = ""
        for word in words:
            option, before = before, word
            if word.startswith(("-", "+")) or "=" in word or _DURATION.fullmatch(word):
                continue
            yield word
            is_value = option in (*_WITH_VALUE, *_CONFIGURED_BY) or (
                option.startswith("-") and self._paths([word]).isdisjoint(self._files)
            )
            if not is_value and not _interprets(_program(word)) and _program(word) not in _RUNNERS:
                return

    def _paths(self, words: Iterable[str]) -> set[str]:
        """What words may mean as paths, in each folder that the line has come to."""
        bare = [_HERE.sub("", word).lstrip("/") for word in words]
        there = (posixpath.join(place, word) for word in bare for place in self._places)
        return {"" if path == "." else path for path in map(posixpath.normpath, there)}


def _commands(line: str) -> list[_Command]:
    """The commands of a line, without quotes."""
    lexer = shlex.shlex(line.replace("\n", " ; ").replace("`", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:  # a quote without its end
        words = re.sub(r"([;&|()<>]+)", r" \1 ", re.sub("[\"'\n`]", " ", line)).split()
    found: list[list[str]] = [[]]
    between: list[str] = []
    for word in words:
        if word.strip(";&|()"):
            found[-1].append(word)
        else:
            found.append([])
            between.append(word)
    judges = [bool(words) and _program(words[0]) in _JUDGE for words in found]
    piped = [judge and sign == "|" for judge, sign in zip(judges[1:], between, strict=True)]
    return [_Command(tuple(words), judged) for words, judged in zip(found, (*piped, False), strict=True) if words]


def _runs_what_it_is_given(words: Sequence[str]) -> bool:
    """Whether it runs what it reads, or what another program finds: `| sh`, `sh < file`, `xargs sh`, `-exec sh`."""
    called = [_program(word) for word in words]
    if "xargs" in called or "-exec" in words or "parallel" in called:
        return any(map(_interprets, called))
    operands = [word for word in words[1:] if not word.startswith("-")]
    return bool(called) and called[0] in _INTERPRETERS and (not operands or "<" in operands)


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def _interprets(program: str) -> bool:
    return program in _INTERPRETERS or _PYTHON.fullmatch(program) is not None


def _values(words: Iterable[str], options: Collection[str]) -> Iterator[str]:
    for word, following in pairwise((*words, "")):
        option, assigned, value = word.partition("=")
        if option in options:
            yield value if assigned else following
        elif word[:2] in options and not word.startswith("--"):
            yield word[2:]


def _configuration(words: list[str], called: Iterable[str]) -> Iterator[str]:
    short = {option for program, option in _CONFIGURED_BY_SHORT if program in called}
    return _values(words, {*_CONFIGURED_BY, *short})


def _modules(words: Iterable[str]) -> Iterator[str]:
    for word, following in pairwise((*words, "")):
        if option := _MODULE.fullmatch(word):
            yield option[1] or following


_TRIVIAL: Final = frozenset({"", "true", ":", "exit", "exit 0", "/bin/true"})


def is_trivial(command: str) -> bool:
    """Whether a command proves nothing (`true`, `echo ...`, `... || true`): pointed out at approval."""
    words = command.split()
    says_something = words[:1] in (["echo"], ["printf"]) and not set(command) & set("&|;")
    last = re.split(r"\|\||;", " ".join(words).rstrip("; "))[-1].strip()
    return says_something or last in _TRIVIAL


_BLANK: Final = FILLERS + "\N{BRAILLE PATTERN BLANK}"
"""Letters and signs that show nothing."""
_FOR_BASH: Final = frozenset("\n\t")


def unshown(text: str) -> tuple[str, str] | None:
    """What an approval would not show of a command or setting, and what to do: it names all that runs (R6)."""
    hidden = next((c for c in text if c in _BLANK or not (c.isprintable() or c in _FOR_BASH)), None)
    if hidden:
        return f"the invisible character U+{ord(hidden):04X}", "Remove it, or put the command into a script"
    if without_secrets(text) != text:
        what = "what looks like a secret, which an approval would not show"
        return what, "Let it be read from a variable of the environment, or by a script"
    return None
