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
from irontree.domain.command_lines import folders_of, named_by, names
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
    .github/workflows/* .gitea/workflows/* .forgejo/workflows/* gruntfile.js gulpfile.js cucumber.js pubspec.yaml
    requirements*.txt constraints*.txt pipfile* poetry.lock uv.lock pdm.lock package-lock.json npm-shrinkwrap.json
    yarn.lock pnpm-lock.yaml bun.lock* deno.lock gemfile.lock cargo.lock composer.lock mix.lock
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
_ONLY_IF_THERE: Final = names("dockerfile compose*.y*ml")
"""Of it, what says nothing of the checks as long as it is new."""
_OF_AGENTS: Final = names(
    """
    .claude/* claude.md agents.md .mcp.json .codex/* opencode.json* .opencode/* .gemini/* gemini.md .cursor/*
    .cursorrules .windsurfrules .clinerules .aider* .github/copilot-instructions.md .github/agents/*
    """
)
"""What coding agents read on their own, reviewers too."""
_GENERATED: Final = names("makefile *.mk ctest*.cmake .env")
"""Of it, what `configure`, CMake and people write before the checks."""
COMPILED: Final = ("__pycache__", "__pycache__/*", "*.pyc")
_INSTALLED: Final = (
    *COMPILED,
    *(
        f"{name}{end}"
        for name in names(
            """
            *.dist-info *.egg-info site-packages .venv venv .tox .nox node_modules .yarn .mypy_cache .ruff_cache
            .pytest_cache .eslintcache .turbo .task *.tsbuildinfo
            """
        )
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
TESTS: Final = names(
    """
    test/* tests/* spec/* specs/* testdata/* __tests__/* __snapshots__/* e2e/* test_* *_test.* *_tests.*
    *_spec.* *.test.* *.spec.* *test.java *tests.cs *tests[0-9]*.cs *test[0-9]*.cs tests.* *.t *.feature
    features/* integrationtest/*
    """
)
"""Tests and what they compare with, in small letters."""
_PLUG_INS: Final = ("pytest_", "_hypothesis")
_OF_NODE: Final = ("js", "mjs", "cjs", "ts", "json", "node")
_ENDINGS: Final = ("py", "pyc", "pyd", "so")
_TOOLS: Final = names(
    """
    pytest _pytest pluggy iniconfig packaging coverage xdist pytest_cov pytest_asyncio hypothesis nose nose2 tox nox
    mypy mypyc ruff flake8 pycodestyle pyflakes mccabe pylint astroid pyright black isort bandit build pip setuptools
    pkg_resources wheel installer django celery twisted zope behave robot invoke doit mock six attr attrs yaml toml
    tomli anyio faker sitecustomize usercustomize click typer colorama pygments
    exceptiongroup typing_extensions distutils
    """
)
"""Modules that checks are run by."""


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
    gone = frozenset(count.path for count in counts if not count.kept)
    guarded = Guarded(node, policy, before(), standard, gone)
    return tuple(count.path for count in counts if guarded.counts(count, texts))


Texts = Callable[[], Mapping[str, tuple[str, str]]]


class Guarded:
    """What one task must not change unseen, in a repository that had these *files* before; *gone* are without them."""

    def __init__(
        self,
        node: PlanNode,
        policy: ExecutionPolicy,
        files: Mapping[str, str],
        standard: Collection[str],
        gone: Collection[str] = (),
    ) -> None:
        self._node, self._policy, self._files, self._standard, self._gone = node, policy, files, standard, gone
        self._folders = folders_of(files)
        approved = (*(check.run for check in policy.checks), *policy.workspace.setup)
        self._approved = named_by(approved, files, self._folders)
        self._named = named_by((*approved, *node.commands), files, self._folders)
        written = (path for path in self._named.written if not fits(path.lower(), TESTS))  # those are tests
        self._run, self._run_anew = _one_of((*self._named.run, *written)), _one_of(tuple(self._approved.run))
        self._hidden = {*_TOOLS, *self._approved.modules, *standard} - {"test"}  # a usual folder
        """Modules in whose place there must be no other: what checks are run by, and all that those import."""

    def counts(self, count: LineCount, texts: Texts) -> bool:
        """Whether the change of a file changes what defines the checks."""
        if _within(count.path, self._node.target_files) or fits(count.path, self._policy.unprotected_files):
            return False
        return any(self._defines(name, count, texts) for name in (count.path, *self._by_links(count.path)))

    def planted(self, path: str) -> bool:
        """Whether something that a check left beside the files of the commit must not be there for the next one.

        Anything else may be what the next one needs: a build, packages, a report to read.
        """
        small = path.lower()
        if self.replaces_a_module(path):
            return True
        return fits(small, CONFIGURATION) and not fits(small, _GENERATED) and _place(path) in self._with_tests

    def replaces_a_module(self, path: str) -> bool:
        """Whether Python would take something that is left there for a module of its own, of a tool, or of the work."""
        return fits(path.lower(), COMPILED) or self._hides_a_module(path, link=True)

    def _defines(self, path: str, count: LineCount, texts: Texts) -> bool:
        small = path.lower()
        if fits(path, self._policy.protected_files) or fits(small, (*_INSTALLED, *_OF_AGENTS)):
            return True
        if _name(small) == ".gitignore" and count.removed == 0:
            return self._ignores_sources(*texts()[count.path])
        if self._configures(path, new=count.new):
            return True
        return self._stands_before_another(path, link=count.link) if count.new else self._checks(path, count, texts)

    def _configures(self, path: str, *, new: bool) -> bool:
        folder, name = posixpath.split(path.lower())
        if name == ".gitattributes" or posixpath.dirname(path) in self._named.programs:
            return True
        if fits(path.lower(), CONFIGURATION) and (not new or self._is_configured(path)):
            return True
        return name in _AT_THE_TOP and folder in self._projects

    def _checks(self, path: str, count: LineCount, texts: Texts) -> bool:
        """Whether a file that was there is run by the commands, or a test that is not as it was."""
        if self._run.fullmatch(path):
            return True
        if not (fits(path.lower(), TESTS) or _within(path, tuple(self._named.tests))):
            return False
        return not count.kept or count.removed != 0 or not only_adds_tests(path, *texts()[count.path], self._standard)

    def _is_configured(self, path: str) -> bool:
        """Whether new configuration is about checks that were there."""
        return _place(path) in self._with_tests and not fits(path.lower(), _ONLY_IF_THERE)

    def _ignores_sources(self, before: str, after: str) -> bool:
        """Whether lines that were added leave out what somebody wrote: checkers of style read that file too."""
        lines = {line.strip() for line in after.splitlines()} - {line.strip() for line in before.splitlines()}
        patterns = [line.strip("/").removeprefix("**/") for line in lines if line and not line.startswith("#")]
        if any(pattern.startswith("!") for pattern in patterns):
            return True
        left_out = _named_by(tuple(patterns)) if patterns else None
        return left_out is not None and any(map(left_out.fullmatch, self._files))

    def _stands_before_another(self, path: str, *, link: bool) -> bool:
        """Whether a new file is taken in the place of what was there, or of what is installed."""
        if self._run_anew.fullmatch(path) or self._is_target(path) or self._goes_before(path):
            return True
        folder, name = posixpath.split(path)
        if name == "__init__.py" and folder in self._of_python_tests:
            return True
        return self._hides_a_module(path, link=link)

    def _is_target(self, path: str) -> bool:
        """Whether make takes it for something that it has made: by a name that was asked for, or of a rule."""
        for target in self._named.targets:
            if _within(path, [target]) and target not in self._files and target not in self._folders:
                return True
        folder, name = posixpath.split(path)
        return folder in self._named.makes and "." not in name and not name[:1].isupper()

    def _goes_before(self, path: str) -> bool:
        """Whether an import or a path without an ending finds it rather than the file beside it that was there."""
        folder, name = posixpath.split(path)
        stem, _, ending = name.partition(".")
        if name == "__init__.py":
            beside: tuple[str, ...] = (f"{folder}.py",)
        elif ending.endswith(("so", "pyd")):
            beside = (f"{posixpath.join(folder, stem)}.py",)
        elif folder in self._of_checks and ending in ("", *_OF_NODE):
            others = (*(f".{other}" for other in _OF_NODE), "/index.js")
            beside = tuple(f"{posixpath.join(folder, stem)}{other}" for other in others)
        else:
            return False
        return any(other in self._files and other not in self._gone for other in beside)

    def _hides_a_module(self, path: str, *, link: bool) -> bool:
        return any(_is_module(path, place, self._hidden, link=link) for place in self._places)

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
        tops = (path.lower() for path in self._files if _one_of(_PROJECTS).fullmatch(_name(path.lower())))
        return frozenset(map(posixpath.dirname, tops))

    @cached_property
    def _places(self) -> frozenset[str]:
        """Where Python looks for modules first, as far as can be told; nowhere where there is no Python."""
        tests = frozenset(map(self._above_packages, self._of_python_tests))
        usual = ("", "src", "lib") if tests else ()
        return frozenset(map(self._above_packages, self._named.folders)) | tests | {*usual}

    def _above_packages(self, folder: str) -> str:
        while folder and f"{folder}/__init__.py" in self._files:
            folder = posixpath.dirname(folder)
        return folder

    @cached_property
    def _of_checks(self) -> frozenset[str]:
        """The folders of tests and of what commands run."""
        tests = (path for path in self._files if fits(path.lower(), TESTS) or path in self._named.run)
        return frozenset(map(posixpath.dirname, tests)) - {""}

    @cached_property
    def _of_python_tests(self) -> frozenset[str]:
        named, python = tuple(self._named.tests), (path for path in self._files if path.endswith(".py"))
        tests = (path for path in python if fits(path.lower(), TESTS) or _within(path, named))
        return frozenset(map(posixpath.dirname, tests))

    @cached_property
    def _with_tests(self) -> frozenset[str]:
        """The folders with a project or a test in them or below; the top is the empty path."""
        named = tuple(self._named.tests)
        found = [path for path in self._files if fits(path.lower(), (*TESTS, *_PROJECTS)) or _within(path, named)]
        return folders_of(found) | ({""} if found else frozenset())


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
    """The folder whose checks a configuration file is about: the one above `.cargo/`, `vendor/` and the like."""
    folder = posixpath.dirname(path)
    while _name(folder).startswith(".") or _name(folder) == "vendor":
        folder = posixpath.dirname(folder)
    return folder


def _is_module(path: str, folder: str, names: Collection[str], *, link: bool) -> bool:
    """Whether Python, looking in *folder*, finds the file for one of the *names*."""
    if folder and not path.startswith(f"{folder}/"):
        return False
    top, _, inside = path[len(folder) + 1 if folder else 0 :].partition("/")
    name, _, ending = top.partition(".")
    if inside:
        return (top in names or top.startswith(_PLUG_INS)) and inside in ("__init__.py", "__main__.py")
    return (name in names or name.startswith(_PLUG_INS)) and (link or ending.endswith(_ENDINGS))
