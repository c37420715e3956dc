"""`irontree import FILE`: make this clone the home of a log that `irontree export` packed (ruling R21)."""

# ruff: noqa: N999  (a module is named after its verb)

from __future__ import annotations

import argparse
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irontree.app import App
from irontree.bootstrap import open_set_aside
from irontree.cli.blocks import Block, Cell, Lines
from irontree.cli.context import Context
from irontree.cli.parser import add_json, add_wait
from irontree.clock import SystemClock
from irontree.domain.detection import DETECTION
from irontree.domain.plan import ExecutionPolicy
from irontree.domain.verdict import commands_for
from irontree.errors import ConfigRefused
from irontree.repository import GitRepository
from irontree.services.consistency.audit import Finding, audit
from irontree.services.loops.loop import open_loops
from irontree.services.world import read_world
from irontree.store.arrival import Arrival, plan_arrival
from irontree.store.layout import STATE_FOLDER, Layout, create
from irontree.store.locks import FileLock
from irontree.store.parcel import BUNDLE, Manifest, Parcel, read_parcel
from irontree.store.parcel_names import CONFIG


@dataclass(frozen=True, slots=True)
class Imported:
    """What came, the commands in it, what a person has to see to, what the audit says, and what to type next."""

    archive: Path
    manifest: Manifest
    root: Path
    written: int
    commands: tuple[str, ...]
    open: tuple[str, ...]
    findings: tuple[Finding, ...]
    next: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "root": str(self.root),
            "id": self.manifest.workspace_id,
            "from": self.manifest.home,
            "written": self.written,
            "commands": list(self.commands),
            "open": list(self.open),
            "findings": [finding.as_json() for finding in self.findings],
            "next": list(self.next),
        }

    def blocks(self) -> Iterator[Block]:
        """The same for people."""
        count = f"{sum(self.manifest.events.values())} event(s); {self.written} file(s) written"
        yield Lines((Cell(f"{self.root} is the home now, before it was {self.manifest.home}", "title"), count))
        if self.findings:
            yield Lines(tuple(Cell(found.line(), "bad") for found in self.findings), title="The audit is not content")
        else:
            yield Lines((Cell("The audit finds the whole log sound.", "good"),))
        if self.commands:
            yield Lines(self.commands, title="Commands that came along, and run here when work goes on")
        if self.open:
            yield Lines(tuple(Cell(point, "asks") for point in self.open), title="For you to see to")
        yield Lines(tuple(Cell(line, "command") for line in self.next), title="Next")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the archive."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the archive that `irontree export` wrote")
    add_wait(parser)
    add_json(parser)


def run(context: Context) -> int:
    """Take the archive in; 1 if the audit finds anything afterwards."""
    archive = (context.folder / context.options.file).resolve()
    parcel = read_parcel(archive)
    repository = open_set_aside(context.folder, os.environ)
    arrival = take_in(parcel, repository, wait_seconds=context.options.wait)
    app = context.look()
    following = (*(f"irontree task resume {loop.id}" for loop in open_loops(app)), "irontree status")
    points = tuple(_open_points(arrival, repository))
    done = Imported(
        archive=archive,
        manifest=parcel.manifest,
        root=repository.root,
        written=len(arrival.writes),
        commands=tuple(dict.fromkeys(_commands(app, arrival))),
        open=points,
        findings=audit(app),
        next=following,
    )
    context.console.show(done.as_json, done.blocks())
    return 1 if done.findings else 0


def take_in(parcel: Parcel, repository: GitRepository, *, wait_seconds: float = 0) -> Arrival:
    """Bring refs and files over and make this the home. Every step can be repeated after a kill.

    Raises Refused or EnvironmentRefused before the first write, if the archive is not whole or another log is here.
    """
    layout, host = Layout(repository.root), socket.gethostname()
    with tempfile.TemporaryDirectory(prefix="irontree-import-") as folder:
        bundle = Path(folder) / BUNDLE
        parcel.copy_bundle(bundle)
        repository.require_whole_refs(bundle, parcel.manifest.refs)
        plan_arrival(parcel, layout)
        create(layout.root)
        with FileLock(layout.driver_lock, SystemClock(), host).hold("import", wait_seconds=wait_seconds):
            arrival = plan_arrival(parcel, layout)  # nobody changes it from here on
            repository.unpack_refs(bundle)
            repository.begin_import(str(parcel.path))
            arrival.carry_out()
            repository.mark_history()
            repository.take_over(host, parcel.manifest.workspace_id)
            repository.back_up()
    return arrival


def _commands(app: App, arrival: Arrival) -> Iterator[str]:
    """What the archive has this machine run: for approved tasks that are not done, and by a configuration it brought.

    An approval came along with each, so that nobody is asked again.
    """
    world = read_world(app)
    for key, plan in world.plans.items():
        if key not in world.cancelled and not world.is_done(key):
            yield from _commands_of(plan.policy)
            yield from (check.run for check in commands_for(world.nodes[key], plan.policy, present=()))
    if any(entry.path == CONFIG for entry in arrival.writes):
        with suppress(ConfigRefused):  # whatever needs it next says so
            yield from _commands_of(app.policy(None))


def _commands_of(policy: ExecutionPolicy) -> Iterator[str]:
    """Of the agent, of a fresh workspace and of the checks; of detection what this version would not run itself."""
    if policy.agent.program:
        yield policy.agent.line
    yield from policy.workspace.setup
    yield from (check.run for check in policy.checks)
    yield from (check.run for row in policy.detection if row not in DETECTION for check in row.commands)


def _open_points(arrival: Arrival, repository: GitRepository) -> Iterator[str]:
    manifest = arrival.parcel.manifest
    if arrival.keeps_config:
        yield (
            f"{CONFIG} here is not the exported one and stays as it is; to see that one: "
            f"tar -xOf {arrival.parcel.path} {CONFIG}"
        )
    if manifest.branch and manifest.tip and not _has(repository, manifest.branch, manifest.tip):
        yield (
            f"the old home has {manifest.branch} at {manifest.tip[:12]}, not in {manifest.branch} here: "
            f"have it pushed from there, and `{_pull(repository)}` here, before work goes on"
        )


def _pull(repository: GitRepository) -> str:
    """Git overwrites no untracked file, not even by the same: one that is staged may come with the commits."""
    return "git pull" if repository.committed(CONFIG) is not None else f"git add {STATE_FOLDER} && git pull"


def _has(repository: GitRepository, branch: str, tip: str) -> bool:
    return repository.contains(f"refs/heads/{branch}", tip)
