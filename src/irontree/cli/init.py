"""`irontree init`: set up a repository and explain the chosen settings; `--from-backup` restores a lost log (R13).

It is an option of `init` because no other verb works without a log, a configuration or `.mino/`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from irontree.adapters import ask_program
from irontree.app import SystemClock
from irontree.bootstrap import open_set_aside, require_log, require_settled
from irontree.cli.context import Context, Verb, place_of
from irontree.cli.init_proposals import (
    GITHUB,
    LEFT_BEHIND,
    SUBJECTS,
    Facts,
    ProposedSetting,
    lacks_agent,
    open_points,
    settings_for,
    settings_missing,
    why_local,
)
from irontree.cli.output import Cell, OutputBlock, Table, TextLines, listing, next_commands, soundness
from irontree.cli.parser import JSON, argument
from irontree.config import Config
from irontree.config_file import load_config, write_config
from irontree.domain.agents import KNOWN_AGENTS
from irontree.domain.settings import default_remote
from irontree.domain.text import shell_path, shell_word
from irontree.errors import EnvironmentRefused
from irontree.files import Disk
from irontree.forges import Location, location_of
from irontree.forges.credentials import find_credential, find_gitea_token
from irontree.ports import RepositoryFacts
from irontree.repository import GitRepository
from irontree.repository.backup import LOG_REF, fetch, versions
from irontree.services.consistency.audit import AuditFinding, audit
from irontree.services.delivery.deliver import LABELS
from irontree.services.work.preflight import tracker_blockers
from irontree.store.archive import restore
from irontree.store.layout import Layout, create
from irontree.store.locks import FileLock, flock_works


def access_line(facts: RepositoryFacts) -> str:
    """The repository, our account there and its rights."""
    right = "may write" if facts.can_write else "may only read"
    return f"issues go to {facts.url} as {facts.account}, who {right}"


# --- `irontree init --from-backup`


_SHOWN = 10


def restored_blocks(paths: tuple[str, ...], findings: Iterable[AuditFinding]) -> Iterator[OutputBlock]:
    """The restored files, and the audit's findings."""
    what = f"Restored {len(paths)} file(s) from {LOG_REF}" if paths else "Nothing was lost"
    more = len(paths[_SHOWN:])
    yield TextLines((Cell(what, "title"), *paths[:_SHOWN], *((f"and {more} more",) if more else ())))
    yield from soundness(finding.line() for finding in findings)


def require_backup(git: GitRepository, remote: str) -> None:
    """Ensure the backup is here; fetch it from *remote* if named. Raises EnvironmentRefused, RemoteFailed."""
    if remote:
        fetch(git.git, remote)
    if git.read_ref(LOG_REF) is None:
        raise EnvironmentRefused(
            f"{git.root} has no {LOG_REF} to restore from",
            remedy="if it was pushed to a remote: `irontree init --from-backup REMOTE`; without that: `irontree init`",
        )


def bring_config_back(git: GitRepository, layout: Layout) -> bool:
    """Restore a missing configuration, which no backup has, from the last commit; returns whether it did."""
    committed = git.committed(layout.shown(layout.config))
    if committed is None or layout.config.exists():
        return False
    Disk().write_durably(layout.config, committed)
    return True


def bring_back(git: GitRepository, layout: Layout) -> tuple[str, ...]:
    """Restore every missing file of the log from the backup; returns the paths. Raises Busy, LogDamaged."""
    with FileLock(layout.driver_lock, SystemClock(), socket.gethostname()).hold("init --from-backup"):
        written = restore(layout.root, versions(git.git, git.lost_files()))
        if layout.events.is_dir():
            git.mark_history()
        git.back_up()
    return written


# --- `irontree init`


_READ: Final = re.compile(r"\.gitattributes|pyproject\.toml|package\.json|Makefile|[\w-]*requirements[\w-]*\.txt")
_READ_BYTES: Final = 256 * 1024
_TEST_FOLDERS: Final = ("tests", "test", ".")
_TEST_FILES: Final = 40
_PYTEST: Final = re.compile(r"^\s*(?:import pytest|from pytest|(?:async )?def test_\w*\((?!self))", re.MULTILINE)
_UNITTEST: Final = re.compile(r"^\s*(?:import|from) unittest", re.MULTILINE)
LABELS_WAIT: Final = 10.0
"""Seconds to wait for a running step before creating labels: changing the forge takes the driver lock (R3)."""


@dataclass(frozen=True, slots=True)
class InitOutcome:
    """What `init` did: settings written, other changes, and what is left to the user."""

    root: Path
    repository_id: str
    settings: tuple[ProposedSetting, ...]
    is_new: bool
    changes: tuple[str, ...]
    open: tuple[str, ...]
    next: tuple[str, ...]
    """What to type next."""
    restored: tuple[str, ...] = ()
    forge: str = ""
    """Where issues go and under which account, if they leave this machine."""
    local: str = ""
    """Why they do not, and what to set so that they do; empty otherwise."""
    config_is_back: bool = False
    """Whether the configuration was missing and restored from the last commit."""


def run(context: Context) -> int:
    """Set up the current repository."""
    backup = context.options.from_backup
    outcome = set_up(context, os.environ, backup)
    if backup is None:
        context.console.show(lambda: as_json(outcome), blocks(outcome))
        return 0
    findings = audit(context.look())
    restored = {"restored": list(outcome.restored), "findings": [finding.as_json() for finding in findings]}
    context.console.show(
        lambda: as_json(outcome) | restored,
        chain(restored_blocks(outcome.restored, findings), blocks(outcome)),
    )
    return 1 if findings else 0


def set_up(context: Context, environment: Mapping[str, str], backup: str | None = None) -> InitOutcome:
    """Make `.mino/`, its configuration, the repository's identity and labels.

    *backup* restores what is lost of the log; it names the remote that has the backup, or is empty if the backup
    is here. Raises NotARepository, LogDamaged if the log is lost, or ConfigRefused for an existing configuration,
    all before anything is written; Busy if a running step leaves no time for the labels.
    """
    git = open_set_aside(context.folder, environment)
    layout = Layout(git.root)
    require_settled(git)
    config_is_back = False
    if backup is None:
        require_log(git, layout)
    else:
        require_backup(git, backup)
        config_is_back = bring_config_back(git, layout)
    is_new, before = not layout.config.exists(), load_config(layout.config)
    facts = look(git, environment, before)
    settings = settings_for(facts) if is_new else settings_missing(facts, before)
    changes = (*_make_folder(layout), *_adopt(git))
    restored = () if backup is None else bring_back(git, layout)
    if is_new or settings:
        values = {setting.key: setting.value for setting in settings}
        write_config(layout.config, values, {setting.key: setting.why for setting in settings})
    config = load_config(layout.config)
    app = context.open()
    forge = app.forge()
    about = None if config.forge.adapter == "local" else forge.about()
    blocked = tuple(blocker.message for blocker in tracker_blockers(about)) if about else ()
    if not blocked:
        with app.driver.hold("init, labels", wait_seconds=LABELS_WAIT):
            forge.ensure_labels(LABELS.values())
    left = (*blocked, *open_points(facts, config))
    is_committed = git.committed(layout.shown(layout.config)) == layout.config.read_bytes()
    return InitOutcome(
        git.root,
        git.id,
        settings,
        is_new,
        changes,
        left,
        next=_AFTER_RESTORING
        if backup is not None
        else tuple(next_lines(config, facts, is_committed=is_committed, place=place_of(git.root))),
        restored=restored,
        forge=access_line(about) if about else "",
        local="" if about else why_local(facts),
        config_is_back=config_is_back,
    )


# --- what is there ------------------------------------------------------------------------------------------


def look(git: GitRepository, environment: Mapping[str, str], config: Config) -> Facts:
    """Collect everything that the settings are derived from."""
    remotes = git.remotes()
    style, folder = _test_style(git.root)
    path = environment.get("PATH", os.defpath)
    remote = default_remote(remotes)
    location = location_of(git.remote_url(remote), None, None, None) if remote else None
    return Facts(
        files={entry.name: _content(entry) for entry in sorted(git.root.iterdir())},
        remotes=remotes,
        current_branch=git.current_branch(),
        default_branch=git.default_target(default_remote(remotes)),
        programs=frozenset(program for program in KNOWN_AGENTS.values() if shutil.which(program, path=path)),
        agent_found=not config.agent.program or shutil.which(config.agent.program, path=path) is not None,
        variables=frozenset(environment),
        test_style=style,
        test_folder=folder,
        ignored=git.ignored(LEFT_BEHIND),
        location=location,
        subjects=git.git.subjects(SUBJECTS),
        credential=_credential(git.root, environment, location) if location else None,
    )


def _credential(root: Path, environment: Mapping[str, str], location: Location) -> str | None:
    if location.url == GITHUB:
        found = find_credential(environment, lambda argv: ask_program(argv, root, environment), GITHUB)
    else:
        found = find_gitea_token(environment)
    return found.source if found else None


def _content(path: Path) -> str:
    return _text(path) if _READ.fullmatch(path.name) and path.is_file() else ""


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _test_style(root: Path) -> tuple[str, str]:
    """The Python test framework, and the tests' folder if discovery needs it."""
    for name in _TEST_FOLDERS:
        files = sorted((root / name).glob("**/test*.py" if name != "." else "test*.py"))[:_TEST_FILES]
        texts = [_text(path) for path in files]
        folder = "" if name == "." or (root / name / "__init__.py").exists() else name
        if any(_PYTEST.search(text) for text in texts):
            return "pytest", folder
        if any(_UNITTEST.search(text) for text in texts):
            return "unittest", folder
    return "", ""


# --- what is written ----------------------------------------------------------------------------------------


def _make_folder(layout: Layout) -> Iterator[str]:
    was_there = layout.state.is_dir()
    create(layout.root)
    if not flock_works(layout.state):
        raise EnvironmentRefused(
            f"{layout.state}: this file system has no working locks",
            remedy="keep the repository on a local disk of Linux or macOS, or inside WSL",
        )
    if not was_there:
        yield "made .mino/"


def _adopt(git: GitRepository) -> Iterator[str]:
    """Make this clone the repository's home if it is not (R21)."""
    host, before = socket.gethostname(), git.home
    if before == f"{host}:{git.root}":
        return
    git.adopt_home(host)
    yield "gave the repository an id" if before is None else f"moved the repository's home here from {before}"


# --- what is said -------------------------------------------------------------------------------------------


def next_lines(config: Config, facts: Facts, *, is_committed: bool, place: str) -> Iterator[str]:
    """What to type next, with the repository at *place*, if not here.

    *is_committed* says whether the last commit has the configuration unchanged.
    """
    folder = Path(place)
    if lacks_agent(config):
        yield f"${{EDITOR:-vi}} {shell_path(str(folder / '.mino/config.yml'))}   # name an agent under agent.command"
    if not is_committed:
        git = f"git -C {shell_word(place)}" if place else "git"
        push = f" && {git} push" if facts.remotes else ""
        yield f"{git} add .mino/.gitignore .mino/config.yml && {git} commit -m 'Set up irontree'{push}"
    if "SPEC.md" not in facts.files:
        yield f"irontree example > {shell_path(str(folder / 'SPEC.md'))}   # then edit it"
    yield "irontree doctor --run # try the commands"
    yield "irontree task SPEC.md"


_AFTER_RESTORING: Final = (
    "irontree checkup reconcile   # write the briefs again, deliver what is due",
    "irontree status",
)


def as_json(outcome: InitOutcome) -> dict[str, Any]:
    """The documented JSON keys."""
    return {
        "root": str(outcome.root),
        "id": outcome.repository_id,
        "config": str(Layout(outcome.root).config),
        "created": outcome.is_new,
        "changes": list(outcome.changes),
        "settings": [{"key": s.key, "value": s.value, "why": s.why} for s in outcome.settings],
        "open": list(outcome.open),
        "forge": outcome.forge or None,
    }


def blocks(outcome: InitOutcome) -> Iterator[OutputBlock]:
    """The same for people."""
    yield TextLines((Cell(_headline(outcome), "title"), *outcome.changes, outcome.forge or outcome.local))
    if outcome.settings:
        rows = tuple((s.key, Cell(_shown(s.value), "command"), Cell(s.why, "faint")) for s in outcome.settings)
        yield Table(("SETTING", "VALUE", "WHY"), rows, names=(0, 1))
    yield from listing(outcome.open, "asks", "Needs your attention")
    yield from next_commands(*outcome.next)


def _headline(outcome: InitOutcome) -> str:
    config = Layout(outcome.root).config
    if outcome.is_new:
        return f"Wrote {config}"
    if outcome.config_is_back:
        added = ", and added to" if outcome.settings else ""
        return f"{config} was gone: it is back as it was last committed{added}"
    if outcome.settings:
        return f"Added to {config}; everything else in it is as it was"
    if outcome.changes or outcome.restored:
        return f"{config} is as it was"
    return f"{outcome.root} is set up already; nothing was changed"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if all(isinstance(item, str) for item in value):
        return shlex.join(value)
    return "; ".join(f"{item['name']}: {item['run']}" for item in value)


VERBS: Final = {
    "init": Verb(
        run,
        argument(
            "--from-backup",
            metavar="REMOTE",
            nargs="?",
            const="",
            help="restore what is lost of the log from refs/irontree/log, fetched from REMOTE first if one is named",
        ),
        JSON,
    )
}
