"""`irontree export FILE`: pack the home of a repository for another place, and give it up here (ruling R21)."""

from __future__ import annotations

import argparse
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irontree import __version__
from irontree.app import App
from irontree.bootstrap import open_set_aside
from irontree.cli.blocks import Block, Cell, Lines
from irontree.cli.context import Context
from irontree.cli.parser import add_json, add_wait
from irontree.errors import NotEligible
from irontree.repository import GitRepository
from irontree.services.overview import SERVING
from irontree.store.layout import Layout
from irontree.store.locks import FileLock
from irontree.store.parcel import BUNDLE, Manifest, entry_of, files_to_pack, write_parcel


@dataclass(frozen=True, slots=True)
class Exported:
    """Where the archive is, and what is in it."""

    archive: Path
    manifest: Manifest

    def as_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "archive": str(self.archive),
            "id": self.manifest.workspace_id,
            "home": self.manifest.home,
            "files": len(self.manifest.files),
            "refs": len(self.manifest.refs),
            "events": self.manifest.events,
        }

    def blocks(self) -> Iterator[Block]:
        """The same for people."""
        count = f"{sum(self.manifest.events.values())} event(s), {len(self.manifest.files)} file(s)"
        yield Lines(
            (
                Cell(f"Wrote {self.archive}: {count}", "title"),
                f"{self.manifest.home} is given up: nothing works on its issues from here any more",
            )
        )
        there = (f"irontree import {self.archive.name}", "irontree status")
        yield Lines(tuple(Cell(line, "command") for line in there), title="Next, in a clone elsewhere")
        back = f"irontree import {self.archive}   # only if it was imported nowhere else, and never will be"
        yield Lines((Cell(back, "command"),), title="To take it back here")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the file to write."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the archive to write (a tar file)")
    add_wait(parser)
    add_json(parser)


def run(context: Context) -> int:
    """Write the archive while nobody works here, then give the home up."""
    app = context.open()
    target = (context.folder / context.options.file).resolve()
    repository = open_set_aside(context.folder)
    # The lease itself would leave `active.lock` in the log's backup, as if there had been a loop.
    no_loop = FileLock(Layout(repository.root).lease_lock, app.clock, socket.gethostname())
    nobody_follows = app.alive(SERVING)  # a terminal that asks would record the answer here, where it is lost
    with (
        nobody_follows.hold("export"),
        app.driver.hold("export", wait_seconds=context.options.wait),
        no_loop.hold("export"),
    ):
        done = export(app, repository, target)
    context.console.show(done.as_json, done.blocks())
    return 0


def export(app: App, repository: GitRepository, target: Path) -> Exported:
    """Write the archive whole, then note that the home was given up: killed in between, it is still the home.

    Raises Refused for a *target* that is there, and NotEligible where there is no log to take along.
    """
    repository.back_up()
    layout = Layout(repository.root)
    events = _events(app)
    if not events:
        raise NotEligible(f"{repository.root} has no log to move", remedy="set the other place up: irontree init")
    with tempfile.TemporaryDirectory(prefix="irontree-export-") as folder:
        bundle = Path(folder) / BUNDLE
        refs = repository.pack_refs(bundle)
        sources = {BUNDLE: bundle, **dict(files_to_pack(layout))}
        branch = repository.current_branch()
        manifest = Manifest(
            version=1,
            program=__version__,
            workspace_id=repository.id,
            home=str(repository.home),
            exported_at=app.stamp(),
            branch=branch,
            tip=repository.read_ref(f"refs/heads/{branch}") if branch else None,
            events=events,
            refs=refs,
            files=tuple(entry_of(name, path) for name, path in sources.items()),
        )
        write_parcel(target, manifest, sources)
    repository.give_up_home(str(target))
    return Exported(target, manifest)


def _events(app: App) -> dict[str, int]:
    issues = {f"issue-{number}": app.log.read(number).highest_sequence for number in app.log.streams()}
    return issues | {loop_id: app.loops.read(loop_id).highest_sequence for loop_id in app.loops.ids()}
