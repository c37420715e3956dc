"""What defines the checks of a repository, and a task must not change unseen (R18).

Who changes what judges him passes. New tests are no such change, also in a file that is there, nor are files that the
approved task declares as its own; a new file that configures tests which are there is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from irontree.domain.added_tests import only_adds_tests
from irontree.domain.plan import ExecutionPolicy, PlanNode


class LineCount(NamedTuple):
    """Lines of a file added and removed between two commits; both `None` for a binary file."""

    path: str
    added: int | None
    removed: int | None
    new: bool = False
    """Whether the first of the two commits does not have it."""


CONFIGURATION: Final = (
    *("makefile", "gnumakefile", "*.mk", "justfile", "taskfile.yml", "cmakelists.txt", "dockerfile", "compose*.y*ml"),
    *("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "noxfile.py", "pytest.ini", ".pytest.ini", "conftest.py"),
    *("sitecustomize.py", "usercustomize.py", "*.pth", "mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml", ".flake8"),
    *(".coveragerc", ".pre-commit-config.yaml", "package.json", ".npmrc", ".yarnrc*", ".mocharc*", ".babelrc*"),
    *("jest.config*", "vitest.*", "vite.config*", "playwright.config*", "karma.conf*", "tsconfig*.json", "biome.json*"),
    *("eslint.config*", ".eslintrc*", ".eslintignore", "cargo.toml", "build.rs", "rust-toolchain*", "clippy.toml"),
    *("go.mod", "go.work", ".golangci.y*ml", "pom.xml", "build.gradle*", "settings.gradle*", "package.swift"),
    *("gemfile", "rakefile", ".rspec", "composer.json", "phpunit.xml*", "*.csproj", "directory.build.*"),
    *(".github/workflows/*", ".gitea/workflows/*", ".forgejo/workflows/*", ".gitlab-ci.yml"),
    *(
        ".cargo/*",
        ".gitattributes",
        "babel.config*",
        ".swcrc",
        ".nycrc*",
        ".c8rc*",
        ".taprc",
        "ava.config*",
        "cypress.config*",
    ),
    *(
        "web-test-runner.config*",
        ".prettierrc*",
        ".pnpmfile.*js",
        "pnpm-workspace.yaml",
        "turbo.json",
        "nx.json",
        "lerna.json",
    ),
    *("deno.json*", "bunfig.toml", ".justfile", "taskfile.yaml", ".bazelrc", "cmakepresets.json", "ctest*.cmake"),
    *(".clang-tidy", "gradle.properties", ".mvn/*", "nuget.config", "*.runsettings", ".bundle/config", ".rubocop*.yml"),
    *(
        ".simplecov",
        "phpstan*.neon*",
        "psalm.xml*",
        ".phpcs.xml*",
        "phpcs.xml*",
        "mix.exs",
        ".formatter.exs",
        ".credo.exs",
    ),
    *("stack.yaml", "cabal.project*", "build.zig", ".swiftlint.yml", "*.xctestplan", "dub.json", "pyrightconfig.json"),
    *(".pylintrc", "pylintrc", "uv.toml", "poetry.toml", "pixi.toml", "hatch.toml", "mise.toml", ".mise.toml"),
    *(".tool-versions", ".python-version", ".nvmrc", ".node-version", ".env", ".env.test", ".envrc"),
)
"""Build and test configuration, in small letters."""
_PROJECTS: Final = (
    *(
        "makefile",
        "justfile",
        "pyproject.toml",
        "setup.py",
        "setup.cfg",
        "package.json",
        "deno.json*",
        "cargo.toml",
        "go.mod",
    ),
    *(
        "pom.xml",
        "build.gradle*",
        "package.swift",
        "gemfile",
        "rakefile",
        "composer.json",
        "*.csproj",
        "cmakelists.txt",
    ),
    *("mix.exs", "stack.yaml", "build.zig"),
)
"""What is at the top of a project, which may have its tests among its sources."""
TESTS: Final = (
    *("test/*", "tests/*", "spec/*", "specs/*", "testing/*", "testdata/*", "__tests__/*", "__snapshots__/*", "e2e/*"),
    *("test_*", "*_test.*", "*_tests.*", "*_spec.*", "*.test.*", "*.spec.*", "*test.java", "*tests.cs", "tests.*"),
)
"""Tests and what they compare with, in small letters."""
_COMMANDS: Final = re.compile(r"&&|\|\||[;&|\n(){}`]")
_MODULE: Final = re.compile(r"\bpython[\d.]*(?:\s+-(?!m)\S+)*\s+-m\s*([A-Za-z_]\w*)")
_ENDINGS: Final = ("py", "pyc", "so")
_TOOLS: Final = frozenset(
    {
        *("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "coverage", "xdist", "pytest_cov", "hypothesis"),
        *("nose2", "tox", "nox", "mypy", "ruff", "flake8", "pylint", "pyright", "black", "isort", "bandit", "build"),
        "pip",
    }
)
"""Modules that checks are run by."""
_RUNNERS: Final = frozenset(
    {
        *("sh", "bash", "dash", "zsh", "source", ".", "python", "python3", "node", "deno", "bun", "ruby", "perl"),
        *("php", "Rscript", "lua", "tclsh", "env", "exec", "time", "nice", "timeout", "xvfb-run", "run", "uv"),
        *("npx", "poetry"),
    }
)
"""Programs of which a later word names what is run."""
_CONFIGURED_BY: Final = frozenset({"--config", "--config-file", "--rcfile", "--settings", "--makefile"})
"""Options whose value may be a file that says what is done; short ones mean other things elsewhere."""
_CONFIGURED_BY_SHORT: Final = frozenset(
    {("make", "-f"), ("gmake", "-f"), ("pytest", "-c"), ("tsc", "-p"), ("jest", "-c")}
)


def changes_checks(
    counts: Iterable[LineCount],
    node: PlanNode,
    policy: ExecutionPolicy,
    before: Callable[[], Collection[str]],
    texts: Callable[[], Mapping[str, tuple[str, str]]],
    standard: Collection[str],
) -> tuple[str, ...]:
    """The paths among *counts* that define the checks of *node* and that the task had no leave to change.

    *before* gives the paths of the commit that the task began from, *texts* what is in each file before and after,
    *standard* are the modules of Python's library.
    """
    approved = [check.run for check in policy.checks]
    commands = [*approved, *node.verification, *_of_criteria(node)]
    named, hidden = _run_by(commands), _hidden_by_files(approved, commands, standard)
    excepted = (*node.target_files, *policy.unprotected_files)
    tested = cache(lambda: _folders_with_tests(before()))

    def counted(count: LineCount) -> bool:
        path = count.path
        if fits(path, excepted):
            return False
        if fits(path, policy.protected_files):
            return True
        if fits(path.lower(), CONFIGURATION):
            return not count.new or _place(path) in tested()
        if count.new:
            return _is_module(path, hidden)
        if path in named:
            return True
        return fits(path.lower(), TESTS) and (count.removed != 0 or not only_adds_tests(path, *texts()[path], standard))

    return tuple(count.path for count in counts if counted(count))


def fits(path: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern names the path, a folder that it is in, or, without `/` in it, the file at any depth.

    `*` stands for anything, `/` too.
    """
    return any(_fits(path, pattern.removeprefix("./").rstrip("/")) for pattern in patterns)


def _fits(path: str, pattern: str) -> bool:
    if fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}/*") or fnmatchcase(path, f"*/{pattern}"):
        return True
    return "/" not in pattern and fnmatchcase(path.rpartition("/")[2], pattern)


def _of_criteria(node: PlanNode) -> list[str]:
    return [criterion.command for criterion in node.criteria if criterion.command]


def _run_by(commands: Iterable[str]) -> frozenset[str]:
    """The paths that the commands run or are configured by; what they only look at is the task's own."""
    return frozenset(
        path.removeprefix("./") for line in commands for command in _COMMANDS.split(line) for path in _run(command)
    )


def _hidden_by_files(approved: Iterable[str], commands: Iterable[str], standard: Collection[str]) -> frozenset[str]:
    """Modules that a new file at the top hides from `python -m`: what its own checks run, and all that tools import."""
    if not any(map(_MODULE.search, commands)):
        return frozenset()
    run = (module for line in approved for module in _MODULE.findall(line))
    return _TOOLS.union(run, {*standard} - {"test"})  # a usual folder


def _is_module(path: str, names: Collection[str]) -> bool:
    top, _, inside = path.partition("/")
    name, _, ending = top.partition(".")
    return name in names and (inside in ("__init__.py", "__main__.py") if inside else ending.endswith(_ENDINGS))


def _run(command: str) -> Iterator[str]:
    words = [word.strip("'\"") for word in command.split()]
    called = {word.rpartition("/")[2] for word in words}
    for word, following in pairwise((*words, "")):
        option, _, value = word.partition("=")
        if option in _CONFIGURED_BY or any((program, option) in _CONFIGURED_BY_SHORT for program in called):
            yield value or following
        if word == "-m":
            path = following.replace(".", "/")
            yield from (f"{path}.py", f"{path}/__main__.py")
    arguments = (word for word in words if not word.startswith("-") and "=" not in word and not word.isdecimal())
    for word in arguments:
        yield word
        if word.rpartition("/")[2] not in _RUNNERS:
            break


def _place(path: str) -> str:
    """The folder whose checks a configuration file is about: the one above `.cargo/`, `.mvn/` and the like."""
    folder = path.rpartition("/")[0]
    while folder.rpartition("/")[2].startswith("."):
        folder = folder.rpartition("/")[0]
    return folder


def _folders_with_tests(paths: Iterable[str]) -> frozenset[str]:
    """The folders with a project or a test in them or below; the top is the empty path."""
    found = set[str]()
    for path in paths:
        if fits(path.lower(), (*TESTS, *_PROJECTS)):
            while path and (path := path.rpartition("/")[0]) not in found:
                found.add(path)
    return frozenset(found)
