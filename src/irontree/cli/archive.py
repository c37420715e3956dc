"""`irontree move export|import FILE`: pack the home of a repository and give it up, or make a clone the home (R21)."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from irontree import __version__
from irontree.app import App, SystemClock
from irontree.bootstrap import agent_requests_of, open_set_aside, results_of
from irontree.cli.console import says_yes
from irontree.cli.context import Context, Verb
from irontree.cli.output import Cell, OutputBlock, TextLines, listing, next_commands, soundness
from irontree.cli.parser import JSON, UsageError, argument, wait
from irontree.domain import typed
from irontree.domain.checks import DETECTION, checks_for
from irontree.domain.gates import name_of, names
from irontree.domain.plan import ExecutionPolicy, Plan
from irontree.domain.text import few
from irontree.errors import ApprovalRefused, ConfigRefused, EnvironmentRefused, NotEligible
from irontree.files import ScratchFolder
from irontree.repository import GitRepository
from irontree.services.consistency.audit import audit
from irontree.services.loops.loop import open_loops
from irontree.services.record import read_world
from irontree.services.views.overview import SERVING
from irontree.store.archive import (
    BUNDLE,
    CONFIG,
    Archive,
    Manifest,
    PlannedImport,
    entry_of,
    files_to_pack,
    plan_import,
    plans_in,
    read_archive,
    write_archive,
)
from irontree.store.layout import STATE_FOLDER, Layout, create
from irontree.store.locks import FileLock


def run_export(context: Context) -> int:
    """Write the archive while no work is running here, then give up the home."""
    app = context.open()
    target = (context.folder / context.options.file).resolve()
    repository = open_set_aside(context.folder)
    # The lease itself would leave `active.lock` in the log's backup, as if there had been a loop.
    no_loop = FileLock(Layout(repository.root).lease_lock, app.clock, socket.gethostname())
    no_session = app.alive(SERVING)  # a terminal that asks would record the answer here, where it is lost
    with (
        no_session.hold("export"),
        app.driver.hold("export", wait_seconds=context.options.wait),
        no_loop.hold("export"),
    ):
        manifest = export(app, repository, target)
    context.console.show(lambda: exported_json(target, manifest), exported_blocks(target, manifest))
    return 0


def exported_json(archive: Path, manifest: Manifest) -> dict[str, Any]:
    """The documented JSON keys."""
    return {
        "archive": str(archive),
        "id": manifest.workspace_id,
        "home": manifest.home,
        "files": len(manifest.files),
        "refs": len(manifest.refs),
        "events": manifest.events,
    }


def exported_blocks(archive: Path, manifest: Manifest) -> Iterator[OutputBlock]:
    """The human-readable output."""
    count = f"{sum(manifest.events.values())} event(s), {len(manifest.files)} file(s)"
    given_up = f"{manifest.home} is given up: nothing works on its issues from here any more"
    yield TextLines((Cell(f"Wrote {archive}: {count}", "title"), given_up))
    yield from listing(
        (f"irontree move import {archive.name}", "irontree status"), "command", "Next, in a clone elsewhere"
    )
    back = f"irontree move import {archive}   # only if it was imported nowhere else, and never will be"
    yield from listing((back,), "typed", "To take it back here")


def export(app: App, repository: GitRepository, target: Path) -> Manifest:
    """Write the complete archive, then record that the home was given up; if killed in between, it is still the home.

    Raises Refused if *target* exists, and NotEligible if there is no log to export.
    """
    repository.back_up()
    if failed := repository.backup_failure():  # the archive's refs would be older than its files
        raise EnvironmentRefused(failed.reason, remedy=failed.remedy)
    layout = Layout(repository.root)
    events = _events(app)
    if not events:
        raise NotEligible(f"{repository.root} has no log to move", remedy="set the other place up: irontree init")
    with ScratchFolder("export") as scratch:
        bundle = scratch.path / BUNDLE
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
        write_archive(target, manifest, sources)
    repository.give_up_home(str(target))
    return manifest


def _events(app: App) -> dict[str, int]:
    issues = {f"issue-{number}": app.log.read(number).highest_sequence for number in app.log.streams()}
    return issues | {loop_id: app.loops.read(loop_id).highest_sequence for loop_id in app.loops.ids()}


# --- `irontree move import FILE`


class Imported:
    """What was imported, the commands it runs, what is left to the user, the audit's findings, what to type next."""

    def __init__(self, app: App, repository: GitRepository, planned: PlannedImport) -> None:
        self.manifest = planned.archive.manifest
        self.root = repository.root
        self.written = len(planned.writes)
        self.commands = tuple(dict.fromkeys(_commands(app, planned)))
        self.open = tuple(_open_points(planned, repository))
        self.findings = audit(app)
        self.next = (*(typed.resume(loop.id) for loop in open_loops(app)), "irontree status")

    def as_json(self) -> dict[str, Any]:
        """The documented JSON keys."""
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

    def blocks(self) -> Iterator[OutputBlock]:
        """The human-readable output."""
        count = f"{sum(self.manifest.events.values())} event(s); {self.written} file(s) written"
        yield TextLines((Cell(f"{self.root} is the home now, before it was {self.manifest.home}", "title"), count))
        yield from soundness(finding.line() for finding in self.findings)
        yield from listing(self.commands, title="Commands that came along, and run here when work goes on")
        yield from listing(self.open, "asks", "Needs your attention")
        yield from next_commands(*self.next)


def run_import(context: Context) -> int:
    """Show what the archive brings, ask, and import it; exit code 1 if the audit finds anything afterwards."""
    options = context.options
    archive = read_archive((context.folder / options.file).resolve())
    repository = open_set_aside(context.folder, os.environ)
    if not options.trust:
        _ask(context, archive, plan_import(archive, Layout(repository.root)))
    planned = take_in(archive, repository, wait_seconds=options.wait, trusted=options.trust)
    done = Imported(context.look(), repository, planned)
    context.console.show(done.as_json, done.blocks())
    return 1 if done.findings else 0


def _ask(context: Context, archive: Archive, planned: PlannedImport) -> None:
    """Return once the user wants exactly this; raises ApprovalRefused otherwise. Nothing is written yet."""
    given, name = context.options.approve, name_of(archive.digest)
    if given is not None:
        if not names(given, archive.digest):
            raise ApprovalRefused(f"{given} was approved, but this archive is {name}", remedy="look at it again")
        return
    if not context.options.json:
        context.console.show(dict, _brought(archive, planned))
    if not sys.stdin.isatty():
        raise ApprovalRefused(
            f"{archive.path.name} is not approved, and nobody is here to ask",
            remedy=f"look at what it brings, then add --approve {name}; with --trust its approvals count here as well",
        )
    if not says_yes(context.console, "Take it in? Its approvals do not count here: you are asked again. [yes/no] "):
        raise ApprovalRefused("not imported; nothing was written")


def _brought(archive: Archive, planned: PlannedImport) -> Iterator[OutputBlock]:
    """What the archive brings, the commands first."""
    manifest = archive.manifest
    plans = tuple(plans_in(archive))
    yield from listing(
        dict.fromkeys(command for plan in plans for command in _commands_of_plan(plan)),
        "command",
        "Commands that it brings, which run here once they are approved",
    )
    if any(entry.path == CONFIG for entry in planned.writes):
        yield TextLines((f"It also brings {CONFIG}, with all settings of its home.",))
    yield from listing((f"{plan.spec_path}: {few([node.title for node in plan.nodes])}" for plan in plans), "", "Tasks")
    count = f"{sum(manifest.events.values())} event(s), {len(planned.writes)} file(s), {len(manifest.refs)} ref(s)"
    yield TextLines((Cell(f"{archive.path} of {manifest.home}: {count}", "title"),))


def _commands_of_plan(plan: Plan) -> Iterator[str]:
    yield from commands_of(plan.policy)
    for node in plan.nodes:
        yield from (check.does for check in checks_for(node, plan.policy, present=()))


def take_in(
    archive: Archive, repository: GitRepository, *, wait_seconds: float = 0, trusted: bool = False
) -> PlannedImport:
    """Import refs and files and make this the home. Every step can be repeated after a kill.

    Approvals and results of checks count here only if it is *trusted*; otherwise they are asked for, and run, again.

    Raises Refused or EnvironmentRefused before the first write if the archive is incomplete or another log is here.
    """
    layout, host = Layout(repository.root), socket.gethostname()
    with ScratchFolder("import") as scratch:
        bundle = scratch.path / BUNDLE
        archive.copy_bundle(bundle)
        repository.require_whole_refs(bundle, archive.manifest.refs)
        plan_import(archive, layout)
        create(layout.root)
        with FileLock(layout.driver_lock, SystemClock(), host).hold("import", wait_seconds=wait_seconds):
            planned = plan_import(archive, layout)  # no other command changes it from here on
            repository.unpack_refs(bundle)
            repository.begin_import(str(archive.path), archive.manifest.workspace_id)
            results = results_of(repository)
            results.begin_sealing()  # from here on, results of others do not count
            planned.carry_out(trusted=trusted)
            if trusted:
                results.vouch()
                agent_requests_of(repository).vouch()
            repository.mark_history()
            repository.take_over(host)
            repository.back_up()
    return planned


def _commands(app: App, planned: PlannedImport) -> Iterator[str]:
    """Commands that the archive makes this machine run: for approved unfinished tasks, and by its configuration.

    They run once they are approved here, or at once where the archive is trusted.
    """
    world = read_world(app)
    for key, plan in world.plans.items():
        if key not in world.cancelled and not world.is_done(key):
            yield from commands_of(plan.policy)
            yield from (check.does for check in checks_for(world.nodes[key], plan.policy, present=()))
    if any(entry.path == CONFIG for entry in planned.writes):
        with suppress(ConfigRefused):  # the next command that needs it reports it
            yield from commands_of(app.policy(None))


def commands_of(policy: ExecutionPolicy) -> Iterator[str]:
    """Commands of the agent, the workspace set-up and the checks, and detection rows that are not built in."""
    yield from (agent.line for agent in policy.agents if agent.program)
    yield from policy.workspace.setup
    yield from (check.run for check in policy.checks)
    if policy.browser:
        yield policy.browser
    yield from (check.run for row in policy.detection if row not in DETECTION for check in row.commands)


def _open_points(planned: PlannedImport, repository: GitRepository) -> Iterator[str]:
    manifest = planned.archive.manifest
    if planned.keeps_config:
        yield (
            f"{CONFIG} here is not the exported one and stays as it is; to see that one: "
            f"tar -xOf {planned.archive.path} {CONFIG}"
        )
    if manifest.branch and manifest.tip and not repository.contains(f"refs/heads/{manifest.branch}", manifest.tip):
        yield (
            f"the old home has {manifest.branch} at {manifest.tip[:12]}, not in {manifest.branch} here: "
            f"have it pushed from there, and `{_pull(repository)}` here, before work goes on"
        )


def _pull(repository: GitRepository) -> str:
    """The command to pull. An untracked configuration is staged first: git would refuse to overwrite it."""
    return "git pull" if repository.committed(CONFIG) is not None else f"git add {STATE_FOLDER} && git pull"


_ACTIONS: Final = {"export": run_export, "import": run_import}


def run(context: Context) -> int:
    """Export or import, as the action says."""
    options = context.options
    if options.action == "export" and (options.approve or options.trust):
        raise UsageError("--approve and --trust belong to move import")
    return _ACTIONS[options.action](context)


VERBS: Final = {
    "move": Verb(
        run,
        argument(
            "action",
            choices=tuple(_ACTIONS),
            help="pack the home and give it up here; or make this clone the home of what was packed",
        ),
        argument("file", metavar="FILE", type=Path, help="the archive, a tar file"),
        argument("--approve", metavar="NAME", help="import: take in exactly the archive with this name, for scripts"),
        argument(
            "--trust",
            action="store_true",
            help="import: ask nothing, and let its approvals and results of checks count here",
        ),
        wait(),
        JSON,
    ),
}
