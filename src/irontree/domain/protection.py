"""What defines the checks of a repository, and a task must not change unseen (R18).

Who changes what judges him passes. New tests are no such change, also in a file that is there, nor are files that the
approved task declares as its own; a new file that configures tests which are there is one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import translate
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from irontree.domain.added_tests import only_adds_tests
from irontree.domain.command_lines import named_by, names
from irontree.domain.plan import ExecutionPolicy, PlanNode


class LineCount(NamedTuple):
    """Lines of a file added and removed between two commits; both `None` for a binary file."""

    path: str
    added: int | None
    removed: int | None
    new: bool = False
    """Whether the first of the two commits does not have it."""
    kept: bool = True
    """Whether, where the first has it, the second has it too, as the same kind of file with the same mode."""
    link: bool = False
    """Whether it is a symbolic link in the second."""


CONFIGURATION: Final = names(
    """
    makefile gnumakefile *.mk justfile .justfile taskfile.y*ml taskfile.dist.y*ml cmakelists.txt ctest*.cmake
    cmakepresets.json meson.build dockerfile compose*.y*ml .pre-commit-config.yaml lefthook.y*ml .env .env.test
    .envrc .tool-versions mise.toml .mise.toml turbo.json nx.json lerna.json .gitattributes .gitignore .ignore
    .editorconfig .yamllint* .shellcheckrc build.bazel workspace.bazel module.bazel .bazelrc .gitlab-ci.yml
    .github/workflows/* .gitea/workflows/* .forgejo/workflows/*
    pyproject.toml setup.cfg setup.py tox.ini tox.toml noxfile.py pytest.ini .pytest.ini pytest.toml
    .pytest.toml conftest.py sitecustomize.py usercustomize.py *.pth mypy.ini .mypy.ini ruff.toml .ruff.toml
    .flake8 .coveragerc .pylintrc pylintrc pyrightconfig.json .isort.cfg .bandit uv.toml poetry.toml
    pixi.toml hatch.toml .python-version pyvenv.cfg
    package.json .npmrc .yarnrc* .pnpmfile.*js pnpm-workspace.yaml .mocharc* .babelrc* babel.config* .swcrc
    .nycrc* .c8rc* .taprc ava.config* jest.config* jest.setup* vitest.* vite.config* playwright.config*
    cypress.config* karma.conf* web-test-runner.config* tsconfig*.json biome.json* eslint.config* .eslintrc*
    .eslintignore .oxlintrc.json .prettierrc* .prettierignore .stylelintrc* deno.json* bunfig.toml
    .nvmrc .node-version
    cargo.toml build.rs rust-toolchain* clippy.toml .clippy.toml rustfmt.toml .rustfmt.toml .cargo/*
    go.mod go.work .golangci.y*ml vendor/modules.txt package.swift .swiftlint.yml *.xctestplan build.zig
    dub.json .luacheckrc .busted stack.yaml cabal.project* mix.exs .formatter.exs .credo.exs .clang-tidy
    pom.xml build.xml build.sbt build.gradle* settings.gradle* gradle.properties gradle/wrapper/* .mvn/*
    *.csproj directory.build.* directory.packages.props nuget.config *.runsettings
    gemfile rakefile .rspec* .bundle/config .rubocop*.yml .simplecov composer.json phpunit.*xml*
    phpstan*.neon* psalm.xml* .phpcs.xml* phpcs.xml*
    """
)
"""Build and test configuration, in small letters."""
_GENERATED: Final = names("makefile *.mk ctest*.cmake")
"""Of it, what `configure` and CMake write."""
COMPILED: Final = ("__pycache__", "__pycache__/*", "*.pyc")
_INSTALLED: Final = (
    *COMPILED,
    *(
        f"{name}{end}"
        for name in names("*.dist-info *.egg-info site-packages .venv venv .tox .nox node_modules .yarn")
        for end in ("", "/*")
    ),
)
"""What package managers and interpreters make, and take in the place of sources."""
_PROJECTS: Final = names(
    """
    makefile justfile pyproject.toml setup.py setup.cfg package.json deno.json* cargo.toml go.mod pom.xml build.gradle*
    package.swift gemfile rakefile composer.json *.csproj cmakelists.txt mix.exs stack.yaml build.zig
    """
)
"""What is at the top of a project, which may have its tests among its sources."""
_AT_THE_TOP: Final = ("tasks.py", "dodo.py", "build", "workspace")
"""Configuration as well, but elsewhere usual names of something else."""
_SETTINGS: Final = (".*", "*.toml", "*.ini", "*.cfg", "*.config.*", "*rc.json")
"""What new configuration at the top of a project is called, of a tool that is not in the table."""
_NO_SETTINGS: Final = names(
    """
    .env.example .env.sample .dockerignore .npmignore .helmignore .gcloudignore .mailmap .gitkeep .keep .gitmodules
    .git-blame-ignore-revs
    """
)
TESTS: Final = names(
    """
    test/* tests/* spec/* specs/* testing/* testdata/* __tests__/* __snapshots__/* e2e/* test_* *_test.* *_tests.*
    *_spec.* *.test.* *.spec.* *test.java *tests.cs tests.*
    """
)
"""Tests and what they compare with, in small letters."""
_ENDINGS: Final = ("py", "pyc", "pyd", "so")
_TOOLS: Final = names(
    """
    pytest _pytest pluggy iniconfig packaging coverage xdist pytest_cov pytest_asyncio hypothesis nose nose2 tox nox
    mypy mypyc ruff flake8 pycodestyle pyflakes mccabe pylint astroid pyright black isort bandit build pip setuptools
    pkg_resources wheel installer django celery twisted zope behave robot invoke doit mock six attr attrs yaml toml
    tomli click typer colorama pygments exceptiongroup typing_extensions distutils
    """
)
"""Modules that checks are run by."""
_IGNORED_BY_HABIT: Final = names(
    """
    __pycache__ *.pyc *.pyo *.py[cod] *.py[co] .pytest_cache .mypy_cache .ruff_cache .coverage htmlcov .venv venv
    node_modules npm-debug.log* .DS_Store .idea .vscode *.swp *.log .env coverage .nyc_output *.egg-info .tox .nox
    dist build target *.class *.o
    """
)
"""Lines of a `.gitignore` by which no checker overlooks what somebody wrote."""


def changes_checks(
    counts: Collection[LineCount],
    node: PlanNode,
    policy: ExecutionPolicy,
    before: Callable[[], Mapping[str, str]],
    texts: Callable[[], Mapping[str, tuple[str, str]]],
    standard: Collection[str],
) -> tuple[str, ...]:
    """The paths among *counts* that define the checks of *node* and that the task had no leave to change.

    *before* gives the paths of the commit that the task began from, each with where it leads if it is a link, *texts*
    what is in each file before and after, *standard* are the modules of Python's library.
    """
    if not counts:
        return ()
    guarded = _Guarded(node, policy, before(), standard)
    return tuple(count.path for count in counts if guarded.counts(count, texts))


def planted_by_checks(
    node: PlanNode, policy: ExecutionPolicy, files: Mapping[str, str], standard: Collection[str]
) -> Callable[[str], bool]:
    """Whether something that a check left beside the *files* of the commit must not be there for the next one.

    Anything else may be what the next one needs: a build, packages, a report to read.
    """
    return _Guarded(node, policy, files, standard).planted


class _Guarded:
    """What one task must not change unseen."""

    def __init__(
        self, node: PlanNode, policy: ExecutionPolicy, files: Mapping[str, str], standard: Collection[str]
    ) -> None:
        self._node, self._policy, self._files, self._standard = node, policy, files, standard
        approved = (*(check.run for check in policy.checks), *policy.workspace.setup)
        own = (*node.verification, *(criterion.command for criterion in node.criteria if criterion.command))
        self._approved, self._named = named_by(approved, files), named_by((*approved, *own), files)
        self._hidden = {*_TOOLS, *self._approved.modules, *standard} - {"test"}  # a usual folder
        """Modules in whose place there must be no other: what checks are run by, and all that those import."""

    def counts(self, count: LineCount, texts: Callable[[], Mapping[str, tuple[str, str]]]) -> bool:
        if _within(count.path, self._node.target_files) or fits(count.path, self._policy.unprotected_files):
            return False
        return any(self._defines(name, count, texts) for name in (count.path, *self._by_links(count.path)))

    def _defines(self, path: str, count: LineCount, texts: Callable[[], Mapping[str, tuple[str, str]]]) -> bool:
        small = path.lower()
        if fits(path, self._policy.protected_files) or fits(small, _INSTALLED):
            return True
        if _name(small) == ".gitignore" and count.removed == 0 and _is_habit(*texts()[count.path]):
            return False
        if fits(small, CONFIGURATION):
            return not count.new or _place(path) in self._with_tests
        if _name(small) in _AT_THE_TOP and posixpath.dirname(path) in self._projects:
            return True
        if count.new:
            return self._stands_before_another(path, link=count.link)
        if _one_of(tuple(self._named.run)).fullmatch(path):
            return True
        if not fits(small, TESTS):
            return False
        return not count.kept or count.removed != 0 or not only_adds_tests(path, *texts()[count.path], self._standard)

    def planted(self, path: str) -> bool:
        small = path.lower()
        if fits(small, COMPILED) or self._hides_a_module(path, link=True):
            return True
        return fits(small, CONFIGURATION) and not fits(small, _GENERATED) and _place(path) in self._with_tests

    def _stands_before_another(self, path: str, *, link: bool) -> bool:
        """Whether a new file is taken in the place of what was there, or of what is installed."""
        if _one_of(tuple(self._approved.run)).fullmatch(path) or _within(path, tuple(self._named.targets)):
            return True
        folder, name = posixpath.split(path)
        if folder in self._projects and fits(name, _SETTINGS) and name not in _NO_SETTINGS:
            return True
        if name == "__init__.py" and folder in self._of_python_tests:
            return True
        return self._hides_a_module(path, link=link)

    def _hides_a_module(self, path: str, *, link: bool) -> bool:
        places = {*self._named.folders, *self._of_python_tests} if self._named.folders else ()
        return any(_is_module(path, place, self._hidden, link=link) for place in places)

    def _by_links(self, path: str) -> set[str]:
        """The other names of a path, by the links that there were before."""
        found, names = {path}, {path}
        while (
            names := {
                link + name[len(leads) :] for name in names for link, leads in self._links if _within(name, [leads])
            }
            - found
        ):
            found |= names
            if len(found) > len(self._links):  # links that lead into themselves
                break
        return found - {path}

    @cached_property
    def _links(self) -> list[tuple[str, str]]:
        leading = ((path, posixpath.join(posixpath.dirname(path), to)) for path, to in self._files.items() if to)
        return [(path, posixpath.normpath(there)) for path, there in leading]

    @cached_property
    def _projects(self) -> frozenset[str]:
        return frozenset(
            posixpath.dirname(path) for path in self._files if _one_of(_PROJECTS).fullmatch(_name(path.lower()))
        )

    @cached_property
    def _of_python_tests(self) -> frozenset[str]:
        tests = (path for path in self._files if path.endswith(".py") and fits(path.lower(), TESTS))
        return frozenset(map(posixpath.dirname, tests))

    @cached_property
    def _with_tests(self) -> frozenset[str]:
        """The folders with a project or a test in them or below; the top is the empty path."""
        found = set[str]()
        for path in self._files:
            if fits(path.lower(), (*TESTS, *_PROJECTS)):
                while path and (path := posixpath.dirname(path)) not in found:
                    found.add(path)
        return frozenset(found)


def fits(path: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern names the path, a folder that it is in, or, without `/` in it, the file at any depth.

    `*` stands for anything, `/` too.
    """
    return _named_by(tuple(patterns)).fullmatch(path) is not None


@lru_cache(maxsize=64)
def _named_by(patterns: tuple[str, ...]) -> re.Pattern[str]:
    names = [pattern.removeprefix("./").rstrip("/") for pattern in patterns]
    return _one_of(tuple(form for name in names for form in (name, f"{name}/*", f"*/{name}")))


@lru_cache(maxsize=64)
def _one_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)) or r"(?!)")


def _within(path: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern names the path or a folder that it is in, from the top."""
    names = [posixpath.normpath(pattern) for pattern in patterns]
    return _one_of(tuple(form for name in names for form in (name, f"{name}/*"))).fullmatch(path) is not None


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _place(path: str) -> str:
    """The folder whose checks a configuration file is about: the one above `.cargo/`, `.mvn/` and the like."""
    folder = posixpath.dirname(path)
    while _name(folder).startswith("."):
        folder = posixpath.dirname(folder)
    return folder


def _is_module(path: str, folder: str, names: Collection[str], *, link: bool) -> bool:
    """Whether Python, looking in *folder*, finds the file for one of the *names*."""
    if folder and not path.startswith(f"{folder}/"):
        return False
    top, _, inside = path[len(folder) + 1 if folder else 0 :].partition("/")
    name, _, ending = top.partition(".")
    if inside:
        return top in names and inside in ("__init__.py", "__main__.py")
    return name in names and (link or ending.endswith(_ENDINGS))


def _is_habit(before: str, after: str) -> bool:
    """Whether a `.gitignore` gained only what everybody has in it."""
    lines = {line.strip() for line in after.splitlines()} - {line.strip() for line in before.splitlines()}
    return all(
        not line or line.startswith("#") or line.strip("/").removeprefix("**/") in _IGNORED_BY_HABIT for line in lines
    )
