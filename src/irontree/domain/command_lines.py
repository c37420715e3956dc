"""What command lines run, as far as their words tell: files, targets of make, and the places of Python's modules (R18).

No shell is understood here. A word too many has a person asked; a word too few lets a change pass unseen.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple


def names(text: str) -> tuple[str, ...]:
    """The names in a table that is written as words."""
    return tuple(text.split())


_BETWEEN: Final = re.compile(r"&&|\|\||[;&|\n(){}`]")
_HERE: Final = re.compile(r"\$\{?PWD\}?/|\$\(pwd\)/|`pwd`/")
_KEYWORDS: Final = frozenset({"if", "then", "elif", "else", "do", "while", "until", "!"})
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
        pnpm yarn coverage run-parts bats
        """
    ),
)
"""Programs of which a later word names what is run."""
_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*")
_DURATION: Final = re.compile(r"[\d.]+[smhd]?")
_MODULE: Final = re.compile(r"-[bBdEiIOPqsSuvx]*m(\w.*)?")
_WITH_VALUE: Final = names("-W -X -o +o -O +O -r -I -u -s -k -n --require --import --loader --init-file")
"""Options behind which the next word is theirs, also where there is a file of its name."""
_CONFIGURED_BY: Final = names("--config --config-file --rcfile --init-file --settings --makefile")
"""Options whose value may be a file that says what is done; short ones mean other things elsewhere."""
_CONFIGURED_BY_SHORT: Final = frozenset(
    {("make", "-f"), ("gmake", "-f"), ("pytest", "-c"), ("tsc", "-p"), ("jest", "-c"), ("awk", "-f"), ("sed", "-f")}
)
_MOVES: Final = frozenset({"cd", "pushd"})
_MOVES_BY: Final = frozenset({"-C", "--directory", "--prefix", "--chdir", "--cwd"})
_MAKES: Final = frozenset({"make", "gmake", "bmake", "ninja", "just"})
_OF_PYTHON: Final = ("pytest", "py.test", "nose2", "trial", "unit2")
_SOURCES: Final = ("", "src", "lib")
"""Folders that Python is often told to look in, by settings that are not read here."""


class Named(NamedTuple):
    """What some command lines name, as paths from the folder that they run in."""

    run: frozenset[str]
    """What is run or says what is run; patterns too."""
    targets: frozenset[str]
    """What make is asked for: where there is such a file or folder, it may do nothing."""
    modules: frozenset[str]
    """The modules that `-m` names."""
    folders: frozenset[str]
    """Where Python looks for modules before it looks for its own; none if it is not run."""


def named_by(lines: Iterable[str], files: Collection[str]) -> Named:
    """What the command *lines* name, in a folder with these *files*."""
    found = [_Line(line, files) for line in lines]
    return Named(
        frozenset[str]().union(*(line.run for line in found)),
        frozenset[str]().union(*(line.targets for line in found)),
        frozenset[str]().union(*(line.modules for line in found)),
        frozenset[str]().union(*(line.folders for line in found)),
    )


class _Line:
    """One line, read command by command."""

    def __init__(self, line: str, files: Collection[str]) -> None:
        self.run, self.targets, self.modules, self.folders = set[str](), set[str](), set[str](), set[str]()
        self._files = files
        self._places = {""}
        """Where a command may run: a folder that is gone to counts until the end of the line."""
        for command in _BETWEEN.split(_HERE.sub("", line)):
            self._take([word.strip("'\"") for word in command.split()])

    def _take(self, words: list[str]) -> None:
        while words and (words[0] in _KEYWORDS or "=" in words[0]):
            name, _, value = words.pop(0).partition("=")
            if name == "PYTHONPATH":
                self.folders |= self._paths(value.split(":"))
        if not words:
            return
        called = [_program(word) for word in words]
        self._places |= self._paths(words[1:2] if words[0] in _MOVES else _values(words, _MOVES_BY))
        self.run |= self._paths([words[0], *_configuration(words, called), *(words[3:] if words[0] == "for" else ())])
        modules = [] if any(name in _INTERPRETERS for name in called) else list(_modules(words))
        if not modules:  # what stands behind a module is what that works on
            self.run |= self._paths(self._run_behind(words, called))
        if modules or any(_PYTHON.fullmatch(name) or name in _OF_PYTHON for name in called):
            self._take_python(words, called, modules)
        if not _MAKES.isdisjoint(called):
            self.targets |= self._paths(word for word in words[1:] if not word.startswith("-"))

    def _take_python(self, words: list[str], called: list[str], modules: list[str]) -> None:
        scripts = [word for word in words if word.endswith((".py", ".pyz"))]
        paths = [module.replace(".", "/") for module in modules]
        self.run |= self._paths(f"{path}{ending}" for path in paths for ending in (".py", "/__main__.py"))
        self.modules.update(module.partition(".")[0] for module in modules)
        sources = _SOURCES if modules or any(name in _OF_PYTHON for name in called) else ()
        self.folders |= self._paths((*sources, *map(posixpath.dirname, scripts)))

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
        there = (posixpath.join(place, word.lstrip("/")) for word in words for place in self._places)
        return {"" if path == "." else path for path in map(posixpath.normpath, there)}


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
