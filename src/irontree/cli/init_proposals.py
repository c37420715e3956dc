"""Derive the settings that `init` writes, with reasons, from facts it is given. Pure: reads nothing itself."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from irontree.cli.agents import installed
from irontree.config import Config
from irontree.domain.agents import KNOWN_AGENTS, leaves_a_type
from irontree.domain.checks import DETECTION
from irontree.domain.plan import Shell
from irontree.domain.settings import default_remote
from irontree.forges import Location

CHECK: Final = "tests"
"""The name under which criteria cite the check: `(check: tests)`."""
# A virtual environment that git ignores whatever .gitignore says: it must never be committed.
_VENV: Final = "test -d .venv || { python3 -m venv .venv && echo '*' > .venv/.gitignore; }"
_VENV_PYTHON: Final = ".venv/bin/python"
_MAKE_TEST: Final = re.compile(r"^test\s*:(?!=)", re.MULTILINE)
_NO_TEST: Final = "no test specified"
_ANY_AGENT: Final = "any program that reads a prompt on its standard input"
_EXAMPLE_AGENT: Final = "claude -p --permission-mode acceptEdits"
# What set-up commands leave in a checkout: an attempt commits everything that git does not ignore.
_LEAVES: Final = (
    (re.compile(r"^(npm|pnpm|yarn) "), "node_modules/"),
    (re.compile(r"^cargo "), "target/"),
    (re.compile(r" -e |^uv sync"), "x.egg-info/"),
)
LEFT_BEHIND: Final = tuple(name for _, name in _LEAVES)
GITHUB: Final = "https://github.com"
_TEST_EXTRAS: Final = ("test", "tests", "dev")


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found: `files` are the names at the top of the repository, with the content of those that matter."""

    files: Mapping[str, str]
    remotes: tuple[str, ...] = ()
    current_branch: str | None = None
    default_branch: str | None = None
    """The remote's default branch as far as known here, else the one checked out."""
    programs: frozenset[str] = frozenset()
    agent_found: bool = True
    """Whether the program of the configured `agent.command` is installed."""
    variables: frozenset[str] = frozenset()
    test_style: str = ""
    """The Python test framework: `pytest`, `unittest` or empty."""
    test_folder: str = ""
    """The folder of Python tests, if it is no package."""
    ignored: frozenset[str] = frozenset()
    """Those of LEFT_BEHIND that git ignores here."""
    location: Location | None = None
    """Where the remote is on the web."""
    subjects: tuple[str, ...] = ()
    """The first lines of the newest commits."""
    credential: str | None = None
    """Where a credential for it was found; `None` without one."""


@dataclass(frozen=True, slots=True)
class ProposedSetting:
    """One setting, and where its value comes from."""

    key: str
    value: Any
    why: str


_GO_ON: Final = ProposedSetting(
    "loop.on_halt", "go_on", "a question about one task holds up only what depends on it; `stop` holds up everything"
)


_TRIED: Final = ProposedSetting(
    "verify.preflight",
    True,
    "the commands run once before any agent works, and you are asked about those that fail then",
)


SUBJECTS: Final = 50
"""How many commits show the style of a repository."""
_CONVENTIONAL: Final = re.compile(r"[a-z]+(?:\([^)]+\))?!?: \S")
_OWN: Final = re.compile(r"\[run\] #\d+: ")


@dataclass(frozen=True, slots=True)
class _Checks:
    """How to set up and test a project, and which file says so."""

    why: str
    commands: tuple[Shell, ...] = ()
    setup: tuple[str, ...] = field(default=())
    cache: tuple[str, ...] = field(default=())
    """What `setup` makes in the workspace."""


_GO: Final = _Checks(
    "go.mod is there",
    (
        Shell(name="build", run="go build ./..."),
        Shell(name=CHECK, run="go test ./..."),
        Shell(name="vet", run="go vet ./..."),
    ),
    ("go mod download",),
)


def settings_for(facts: Facts) -> tuple[ProposedSetting, ...]:
    """All settings that the repository and machine suggest; without an agent, an empty one to fill in."""
    agent = tuple(_agent(facts)) or (ProposedSetting("agent.command", "", f"{_ANY_AGENT}, such as: {_EXAMPLE_AGENT}"),)
    return (
        *agent,
        *_checks_settings(_checks(facts)),
        *_filters(facts),
        *_publish(facts),
        *_subject(facts),
        *_forge(facts),
        _TRIED,
        _GO_ON,
    )


def settings_missing(facts: Facts, config: Config) -> tuple[ProposedSetting, ...]:
    """Missing settings that can be filled in now: an agent only. All others may be missing on purpose."""
    return tuple(_agent(facts)) if lacks_agent(config) else ()


def lacks_agent(config: Config) -> bool:
    """Whether `agent` names no program, and is to work on some type of task."""
    return config.agent.program is None and leaves_a_type(config.team)


def open_points(facts: Facts, config: Config) -> Iterator[str]:
    """What is left to the user, given the current *config*."""
    if lacks_agent(config):
        known = ", ".join(KNOWN_AGENTS.values())
        yield (
            f"No coding agent was found on PATH (known: {known}). Install one and type `irontree init` again, or name "
            f"{_ANY_AGENT} under agent.command in .mino/config.yml, such as: {_EXAMPLE_AGENT}"
        )
    elif leaves_a_type(config.team) and not facts.agent_found:
        yield f"{config.agent.program}, the program of the agent, is not on PATH: install it, or name another"
    if not config.verify.commands:
        yield (
            "No checks were found: every acceptance criterion without a command of its own waits for you. Name "
            "commands under verify.commands in .mino/config.yml, or in the Verification section of each task"
        )
    for name in _unignored(facts, config):
        yield f"git does not ignore {name.replace('x.', '*.')}, which workspace.setup makes: name it in .gitignore"
    if not facts.remotes:
        yield "There is no remote: verified code moves the local branch, and nothing is pushed"
    elif not config.publish.remote:
        remote = default_remote(facts.remotes)
        yield (
            f"publish.remote is not set: what is approved from now on is pushed to {remote}, what was approved before "
            f"there was a remote stays local. To push that too, set publish.remote: {remote} in .mino/config.yml and "
            "approve it again"
        )
    if facts.default_branch is None and not config.publish.target_branch:
        yield "HEAD is on no branch: set publish.target_branch in .mino/config.yml, or `git switch` to a branch"


def _unignored(facts: Facts, config: Config) -> Iterator[str]:
    makes_egg_info = "setuptools" in str(_pyproject(facts).get("build-system", "setuptools"))
    for pattern, name in _LEAVES:
        made = any(pattern.search(command) for command in config.workspace.setup)
        if made and name not in facts.ignored and (makes_egg_info or "egg-info" not in name):
            yield name


def _agent(facts: Facts) -> Iterator[ProposedSetting]:
    found = installed(facts.programs)
    if not found:
        return
    agent = found[0]
    others = f"; also there: {', '.join(other.program for other in found[1:])}" if found[1:] else ""
    why = f"{agent.program} is on PATH{others}; it may edit files unasked"
    yield ProposedSetting("agent.adapter", agent.name, why)
    variables = [name for name in agent.variables if name in facts.variables]
    if variables:
        yield ProposedSetting(
            "agent.environment", variables, "set here, and the agent may need them (names, never values)"
        )


def _checks_settings(checks: _Checks | None) -> Iterator[ProposedSetting]:
    if checks is None:
        return
    commands = [{"name": check.name, "run": check.run} for check in checks.commands]
    if commands:
        yield ProposedSetting("verify.commands", commands, checks.why)
    if checks.setup:
        yield ProposedSetting("workspace.setup", list(checks.setup), f"{checks.why}; makes a fresh checkout ready")
    if checks.cache:
        why = "workspace.setup makes it: kept, and made anew where dependencies change"
        yield ProposedSetting("workspace.cache", list(checks.cache), why)


def _filters(facts: Facts) -> Iterator[ProposedSetting]:
    if re.search(r"^[^#\n]*\sfilter=lfs\b", facts.files.get(".gitattributes", ""), re.MULTILINE):
        why = ".gitattributes keeps files in Git LFS, whose program then runs on what an agent writes"
        yield ProposedSetting("workspace.filters", ["lfs"], why)


def _publish(facts: Facts) -> Iterator[ProposedSetting]:
    remote = default_remote(facts.remotes)
    if remote:
        of = f", of {', '.join(facts.remotes)}" if facts.remotes[1:] else ""
        yield ProposedSetting("publish.remote", remote, f"the remote of this repository{of}")
    branch = facts.default_branch
    if branch:
        why = "the branch that is checked out" if branch == facts.current_branch else f"the default branch of {remote}"
        yield ProposedSetting("publish.target_branch", branch, why)


def _subject(facts: Facts) -> Iterator[ProposedSetting]:
    """The repository's own style of commits, if it has any but ours."""
    subjects = [subject for subject in facts.subjects if not _OWN.match(subject)]
    if not subjects:
        return
    conventional = sum(_CONVENTIONAL.match(subject) is not None for subject in subjects)
    if 2 * conventional > len(subjects):
        why = f"{conventional} of the last {len(subjects)} commits are Conventional Commits"
        yield ProposedSetting("publish.subject", "{kind}: {title}", why)
    else:
        yield ProposedSetting("publish.subject", "{title}", "the first line of a commit, as in this repository")


def _forge(facts: Facts) -> Iterator[ProposedSetting]:
    """The forge that hosts the code, if we have access to it; otherwise the default (files) applies."""
    if facts.location is None:
        return
    if facts.location.url != GITHUB:
        if facts.credential:  # an address does not show which software serves it: a token for Gitea does
            why = f"the remote is {facts.location.repository} at {facts.location.url}, and {facts.credential} is set"
            yield ProposedSetting("forge.adapter", "gitea", why)
        return
    where = f"the remote is {facts.location.repository} on github.com"
    if facts.credential:
        yield ProposedSetting("forge.adapter", "github", f"{where}, and {facts.credential} has a token")
    else:
        why = "but no token was found: set GITHUB_TOKEN or `gh auth login`, and then `github` here"
        yield ProposedSetting("forge.adapter", "local", f"{where}, {why}")


def why_local(facts: Facts) -> str:
    """Where issues go if no forge is used, why, and what to set to use the one that the remote is on."""
    files = "issues go to files under .mino/forge/"
    if facts.location is None:
        return f"{files}: no remote is on a forge that could be used"
    where = f"{facts.location.repository} at {facts.location.url}"
    adapter, token = (
        ("github", "GITHUB_TOKEN, or `gh auth login`")
        if facts.location.url == GITHUB
        else ("gitea", "GITEA_TOKEN, if that is Gitea or Forgejo")
    )
    if facts.credential:
        return f"{files}, as .mino/config.yml says; to have them in {where}, set forge.adapter: {adapter} there"
    return (
        f"{files}: no token was found for {where}; to have them there, set {token}, "
        f"and forge.adapter: {adapter} in .mino/config.yml"
    )


# --- checks, by kind of project -----------------------------------------------------------------------------


def _checks(facts: Facts) -> _Checks | None:
    """A Makefile's `test` target if there is one: it was chosen on purpose; otherwise by kind of project."""
    if _MAKE_TEST.search(facts.files.get("Makefile", "")):
        return _Checks("Makefile has a target `test`", (Shell(name=CHECK, run="make test"),))
    if "package.json" in facts.files:
        return _node(facts)
    if facts.test_style:
        return _python(facts, facts.test_style, f"the tests are written for {facts.test_style}")
    if found := {"pyproject.toml", "setup.py"} & facts.files.keys():
        return _python(facts, "pytest", f"{min(found)} is there")
    if "Cargo.toml" in facts.files:
        return _cargo(facts)
    if "go.mod" in facts.files:
        return _GO
    return _by_table(facts)


def _node(facts: Facts) -> _Checks:
    try:
        scripts = json.loads(facts.files["package.json"]).get("scripts", {})
    except (ValueError, AttributeError):
        scripts = {}
    program, install = _node_program(facts)
    commands = tuple(
        Shell(name=CHECK if script == "test" else script, run=f"{program} run {script}")
        for script in ("build", "test", "lint")
        if isinstance(scripts, dict) and script in scripts and _NO_TEST not in str(scripts[script])
    )
    return _Checks("package.json has these scripts", commands, (install,), ("node_modules",))


def _node_program(facts: Facts) -> tuple[str, str]:
    if "pnpm-lock.yaml" in facts.files:
        return "pnpm", "pnpm install --frozen-lockfile"
    if "yarn.lock" in facts.files:  # yarn 2 and later, which have that file, renamed the option and refuse the old name
        return "yarn", f"yarn install {'--immutable' if '.yarnrc.yml' in facts.files else '--frozen-lockfile'}"
    return "npm", "npm ci" if "package-lock.json" in facts.files else "npm install --no-package-lock"


def _python(facts: Facts, style: str, why: str) -> _Checks:
    setup = _python_setup(facts, style)
    where = f" -s {facts.test_folder}" if facts.test_folder else ""
    arguments = "-m pytest" if style == "pytest" else f"-m unittest discover{where}"
    python = _python_program(facts, setup, style)
    return _Checks(why, (Shell(name=CHECK, run=f"{python} {arguments}"),), setup, (".venv",) if setup else ())


def _python_program(facts: Facts, setup: tuple[str, ...], style: str) -> str:
    if not setup:
        return "python3"
    if "uv.lock" not in facts.files:
        return _VENV_PYTHON
    return "uv run --with pytest python" if _lacks_pytest(facts, style) else "uv run python"


def _python_setup(facts: Facts, style: str) -> tuple[str, ...]:
    """A virtual environment in the workspace; nothing for standard-library tests without dependencies."""
    project = _pyproject(facts)
    if "uv.lock" in facts.files:
        extra = _test_extra(project)
        return (f"uv sync --extra {extra}" if extra else "uv sync",)
    installs = [*_own_package(facts, project), *_requirements(facts)]
    if _lacks_pytest(facts, style):
        installs.append("pytest")
    if not installs:
        return ()
    return (_VENV, f"{_VENV_PYTHON} -m pip install --quiet {' '.join(installs)}")


def _own_package(facts: Facts, project: Mapping[str, Any]) -> Iterator[str]:
    """Install the project itself, editable, with the extra or group of its test tools."""
    about, groups = project.get("project", {}), project.get("dependency-groups", {})
    extras = about.get("optional-dependencies", {})
    if about.get("dependencies") or extras or "src" in facts.files or "setup.py" in facts.files:
        extra = _test_extra(project)
        yield f"-e '.[{extra}]'" if extra else "-e ."
    group = next((name for name in _TEST_EXTRAS if name in groups), "")
    if group:
        yield f"--group {group}"


def _test_extra(project: Mapping[str, Any]) -> str:
    extras = project.get("project", {}).get("optional-dependencies", {})
    return next((name for name in _TEST_EXTRAS if name in extras), "")


def _lacks_pytest(facts: Facts, style: str) -> bool:
    return style == "pytest" and not any("pytest" in text for text in _declared(facts, _pyproject(facts)))


def _requirements(facts: Facts) -> Iterator[str]:
    names = ("requirements.txt", "requirements-dev.txt", "requirements-test.txt", "dev-requirements.txt")
    yield from (f"-r {name}" for name in names if name in facts.files)


def _declared(facts: Facts, project: Mapping[str, Any]) -> Iterator[str]:
    """Texts that would name a test tool as a dependency."""
    yield json.dumps([project.get("project", {}), project.get("dependency-groups", {})], default=str)
    yield from (text for name, text in facts.files.items() if "requirements" in name)


def _pyproject(facts: Facts) -> Mapping[str, Any]:
    try:
        return tomllib.loads(facts.files.get("pyproject.toml", ""))
    except tomllib.TOMLDecodeError:
        return {}


def _cargo(facts: Facts) -> _Checks | None:
    """The protocol's checks, with dependencies fetched during set-up so that they do not count as check time."""
    found = _by_table(facts)
    locked = " --locked" if "Cargo.lock" in facts.files else ""
    return found and replace(found, setup=(f"cargo fetch --quiet{locked}",))


def _by_table(facts: Facts) -> _Checks | None:
    """The protocol's detection table for every other kind of project (phase 5)."""
    for row in DETECTION:
        if row.files != ("Makefile",) and all(name in facts.files for name in row.files):
            commands = (Shell(name=CHECK if c.name == "test" else c.name, run=c.run) for c in row.commands)
            return _Checks(f"{' and '.join(row.files)} is there", tuple(commands))
    return None
