"""`irontree doctor`: what on this machine and in this repository would prevent work. Changes nothing."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

import platformdirs
from packaging.requirements import Requirement

from irontree import __version__
from irontree.agents.presets import PRESETS
from irontree.app import App
from irontree.cli.context import Context, Verb
from irontree.cli.init import access_line
from irontree.cli.output import Cell, OutputBlock, Style, Table
from irontree.cli.parser import JSON, OK, REFUSED, argument
from irontree.cli.trial import try_now
from irontree.domain.agents import KNOWN_AGENTS, AgentSpec
from irontree.domain.checks import configured_checks, excerpt, trouble_without_work
from irontree.domain.places import PlaceSpec
from irontree.domain.plan import ExecutionPolicy
from irontree.errors import EnvironmentRefused, IrontreeError, NotARepository, NotEligible
from irontree.ports import Blocker
from irontree.repository.git import require_new_git
from irontree.services.consistency.audit import audit
from irontree.services.execution.trial import top_level
from irontree.services.record import World, read_world
from irontree.services.views.checkout import lagging, not_part_of_work, targets, unpushed
from irontree.services.views.overview import backup_trouble
from irontree.services.work.preflight import blockers_of, forge_blockers, require_agent, tracker_blockers
from irontree.store.locks import flock_works

Severity = Literal["good", "note", "bad"]
_STYLES: Final[dict[Severity, Style]] = {"good": "good", "note": "asks", "bad": "bad"}


@dataclass(frozen=True, slots=True)
class Examined:
    """One thing that was examined. `note`: it does not prevent work, but the user may want to know."""

    verdict: Severity
    what: str
    found: str
    remedy: str = ""


def run(context: Context) -> int:
    """Print what was examined; exit code 1 if anything prevents work."""
    found = (*machine(os.environ), *repository(context, os.environ))
    if context.options.run is not None:
        found = (*found, *_tried(context, context.options.run))
    bad = any(item.verdict == "bad" for item in found)
    context.console.show(lambda: {"ok": not bad, "findings": [asdict(item) for item in found]}, blocks(found))
    return REFUSED if bad else OK


def blocks(found: tuple[Examined, ...]) -> Iterator[OutputBlock]:
    """The human-readable output."""
    rows = tuple((Cell(f.verdict, _STYLES[f.verdict]), f.what, _with_remedy(f)) for f in found)
    yield Table(("", "LOOKED AT", "FOUND"), rows, names=(0, 1))


def _with_remedy(item: Examined) -> str:
    return f"{item.found} -> {item.remedy}" if item.remedy else item.found


# --- the machine --------------------------------------------------------------------------------------------


def machine(environment: Mapping[str, str]) -> Iterator[Examined]:
    """Programs, libraries and folders of this machine, independent of the repository."""
    yield Examined("good", "irontree", f"{__version__} on Python {platform.python_version()}, {platform.system()}")
    yield from _libraries()
    yield _git(environment)
    yield _agents(environment)
    for name, folder in (("cache", platformdirs.user_cache_path()), ("state", platformdirs.user_state_path())):
        yield _folder(name, folder / "irontree")
    yield _server(environment)


def _libraries() -> Iterator[Examined]:
    """Whether the installed versions are those required: another Prefect or FastAPI breaks flows."""
    wrong = tuple(misfits(metadata.requires("irontree") or []))
    if not wrong:
        yield Examined("good", "libraries", f"as needed; Prefect {metadata.version('prefect')}")
    for what in wrong:
        yield Examined("bad", "libraries", what, "install irontree again, into an environment of its own")


def misfits(requirements: list[str]) -> Iterator[str]:
    """Packages that are missing or do not satisfy *requirements* (as in a package's metadata)."""
    for requirement in map(Requirement, requirements):
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield f"{requirement.name} is missing"
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            yield f"{requirement.name} is {version}, but {requirement.specifier} is needed"


def _git(environment: Mapping[str, str]) -> Examined:
    try:
        return Examined("good", "git", require_new_git(environment))
    except EnvironmentRefused as error:
        return _bad("git", error)


def _agents(environment: Mapping[str, str]) -> Examined:
    path = environment.get("PATH", os.defpath)
    there = [name for name, program in KNOWN_AGENTS.items() if shutil.which(program, path=path)]
    if there:
        return Examined("good", "agents", ", ".join(there))
    known = ", ".join(KNOWN_AGENTS.values())
    return Examined("note", "agents", f"none of {known} is on PATH", "any program will do: agent.command")


def _folder(name: str, folder: Path) -> Examined:
    """Whether we can write there: one folder holds workspaces, the other the private server."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if os.access(there, os.W_OK | os.X_OK):
        return Examined("good", f"{name} folder", str(folder))
    return Examined(
        "bad", f"{name} folder", f"{there} is not writable", f"make it writable, or set XDG_{name.upper()}_HOME"
    )


def _server(environment: Mapping[str, str]) -> Examined:
    from irontree.flows.server.connection import ServerState, chosen_api_url, state_folder

    configured = chosen_api_url(environment, None)
    if configured:
        return _configured_server(environment, configured, "PREFECT_API_URL")
    folder = state_folder()
    address = ServerState(folder).address() if folder.is_dir() else None
    if address:
        return Examined("good", "Prefect server", f"the private one runs: {address.api_url}")
    return Examined("good", "Prefect server", "the private one is not running; it starts with the first loop")


def _configured_server(environment: Mapping[str, str], url: str, source: str) -> Examined:
    from irontree.flows.serve.approvals import asks_nobody

    found = f"{url}, from {source}"
    if not asks_nobody({**environment, "PREFECT_API_URL": url}):
        return Examined("note", "Prefect server", found)
    return Examined(
        "note",
        "Prefect server",
        f"{found}; it asks nobody for a password, so everyone who reaches it can answer questions",
        "set PREFECT_SERVER_API_AUTH_STRING where it runs, and PREFECT_API_AUTH_STRING here",
    )


# --- the repository -----------------------------------------------------------------------------------------


def repository(context: Context, environment: Mapping[str, str]) -> Iterator[Examined]:
    """The repository that contains the current folder; nothing if there is none."""
    try:
        app = context.look()
    except NotARepository as error:
        yield Examined("note", "repository", error.message, error.remedy or "")
        return
    except IrontreeError as error:
        yield _bad("repository", error)
        return
    yield Examined("good", "repository", f"{app.repository.root}, id {app.repository.id}")
    yield _locks(app)
    yield from _runway(app, environment)
    yield from _forge(app)
    yield from left_behind(app)
    yield from _log(app)


def _tried(context: Context, only: str) -> Iterator[Examined]:
    """How set-up and the configured checks, or *only* one, come out without any change; they are run for this."""
    try:
        app = context.open()
        results = try_now(app, _with_check(app, only) if only else app.policy(None))
    except IrontreeError as error:
        yield _bad("checks", error)
        return
    if not results:
        yield Examined("note", "checks", "none is configured or found", "name them under verify.commands")
    for result in results:
        trouble = trouble_without_work(result)
        printed = "" if result.passed or result.output.count("\n") < 2 else f"\n{excerpt(result)}"  # noqa: PLR2004
        yield Examined("bad" if trouble else "good", f"check {result.name}", f"{trouble or 'passes'}{printed}")


def _with_check(app: App, name: str) -> ExecutionPolicy:
    """The settings with that check alone. Raises NotEligible if there is none of that name."""
    policy = app.policy(None)
    checks = configured_checks(policy, top_level(app.repository.root))
    chosen = tuple(check for check in checks if check.name == name)
    if not chosen:
        known = ", ".join(check.name for check in checks)
        raise NotEligible(f"there is no check {name}", remedy=f"one of {known}" if known else "")
    return policy.model_copy(update={"checks": chosen})


def _bad(what: str, error: IrontreeError) -> Examined:
    return Examined("bad", what, error.message, error.remedy or "")


def _locks(app: App) -> Examined:
    if flock_works(app.repository.root / ".mino"):
        return Examined("good", "locks", "the file system has working locks")
    return Examined("bad", "locks", "this file system has no working locks", "keep the repository on a local disk")


def _runway(app: App, environment: Mapping[str, str]) -> Iterator[Examined]:
    """What would prevent an attempt from starting now, with the current configuration."""
    try:
        policy = app.policy(None)
    except IrontreeError as error:
        yield _bad("configuration", error)
        return
    yield Examined("good", "configuration", str(app.repository.root / ".mino" / "config.yml"))
    if (url := app.preferences().api_url) and not environment.get("PREFECT_API_URL"):
        yield _configured_server(environment, url, "prefect.api_url")
    for agent in policy.agents:
        yield from _agent(app, agent, environment)
    world = read_world(app)
    documents = tuple({plan.spec_path for plan in world.plans.values()})
    found = blockers_of(app, policy)
    yield from (Examined("bad", blocker.check, blocker.message, blocker.remedy) for blocker in found)
    told = (*not_part_of_work(app, policy.publish, documents), *unpushed(app, policy.publish))
    yield from (Examined("note", "checkout", words) for words in told)
    yield from (Examined("note", "checkout", *behind) for behind in lagging(app, targets(world)))
    yield from _place(app, policy.place, found)
    if not found:
        where = f"{policy.publish.remote or 'no remote:'} {policy.publish.target_branch}"
        yield Examined("good", "checkout", f"ready; code goes to {where}{_own_branches(world)}")


def _own_branches(world: World) -> str:
    """Where the unfinished work of plans goes that have a branch of their own, such as those of workflow files."""
    at_work = (plan for key, plan in world.plans.items() if not world.is_done(key) and key not in world.cancelled)
    own = {plan.spec_path: plan.policy.publish.target_branch for plan in at_work if plan.policy.publish.merge_into}
    return "".join(f"; that of {path} to {branch}" for path, branch in own.items())


def _place(app: App, place: PlaceSpec, found: Sequence[Blocker]) -> Iterator[Examined]:
    """What confines agents and checks; a place that cannot be had is among the blockers that were *found*."""
    if not place.confined:
        why = f": {app.places.unconfined()}" if app.places.unconfined() else ""
        yield Examined("note", "sandbox", f"not confined{why}", "install bubblewrap: docs/how-to/sandbox.md")
    elif not found:
        container = place.container
        yield Examined("good", "sandbox", f"{container.image} ({container.engine})" if container else place.kind)


def _forge(app: App) -> Iterator[Examined]:
    """Where issues are kept, our account there, and its rights."""
    try:
        forge = app.forge()
        facts = forge.about()
    except IrontreeError as error:
        yield _bad("forge", error)
        return
    if forge.name == "local":
        yield Examined("good", "forge", "local: issues are files under .mino/forge/")
        return
    publish, found = None, tuple(tracker_blockers(facts))
    with suppress(IrontreeError):  # what is wrong with the configuration is said above
        publish = app.policy(None).publish
        found = tuple(forge_blockers(forge, facts, publish))
    yield from (Examined("bad", "forge", blocker.message, blocker.remedy) for blocker in found)
    if facts.hides_writers:
        words = f"not everybody who may write is heard: {facts.hides_writers}"
        yield Examined("note", "forge", words, "make the account an administrator, and see docs/forges.md")
    if publish and publish.mode == "pull_request" and facts.keeps_merged_branches:
        words = "the branches of merged requests stay"
        yield Examined(
            "note", "forge", words, "set in the repository on the forge that they are deleted after the merge"
        )
    yield Examined("good", "forge", f"{forge.name}: {access_line(facts)}")


def _agent(app: App, agent: AgentSpec, environment: Mapping[str, str]) -> Iterator[Examined]:
    """Whether that agent can be started here, and has what it needs."""
    name = agent.known_as
    try:
        require_agent(agent)
        yield Examined("good", name, agent.line)
        if agent.place.container is None:
            yield from _access(app, agent, environment)
    except IrontreeError as error:
        yield _bad(name, error)
    if unset := [each for each in agent.environment if each not in environment]:
        yield Examined("note", f"{name}.environment", f"not set here: {', '.join(unset)}", "the agent may need them")


def _access(app: App, agent: AgentSpec, environment: Mapping[str, str]) -> Iterator[Examined]:
    """Whether a known agent lacks access: it says so, or has neither a key that it may see nor its own log-in."""
    preset = PRESETS.get(agent.adapter)
    if preset is None:
        return
    if not agent.command and (said := app.agent(agent).no_access()):  # what the configuration names is not approved yet
        yield Examined("bad", "agent", said, preset.log_in)
    elif preset.signed_in_here(environment, agent.environment) is False:
        yield Examined("note", "agent", f"{agent.adapter} may not be logged in here", preset.log_in)


def left_behind(app: App) -> Iterator[Examined]:
    """A back-up of the log that fails, and locks of git that nobody seems to hold."""
    if trouble := backup_trouble(app):
        words, overdue = trouble
        yield Examined("bad" if overdue else "note", "back-up", words)
    for lock in app.repository.left_locks():
        yield Examined("note", "git lock", lock.what, lock.remedy)


def _log(app: App) -> Iterator[Examined]:
    """The findings of `irontree audit`, or in one line that there are none."""
    found = audit(app)
    for item in found:
        yield Examined("bad", "event log", f"{item.where}: {item.what}", item.remedy)
    if not found:
        yield Examined("good", "event log", f"sound: {len(app.log.streams())} issue(s), {len(app.loops.ids())} loop(s)")


VERBS: Final = {
    "doctor": Verb(
        run,
        argument(
            "--run",
            metavar="CHECK",
            nargs="?",
            const="",
            help="also run set-up and the checks once, or this one alone, where they will run",
        ),
        JSON,
    )
}
