"""`irontree serve` and `automations`: a Prefect server and a worker for the repositories of this machine."""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from irontree.app import App
from irontree.cli.console import Console
from irontree.cli.context import Context, Verb, program_for
from irontree.cli.drive import Server
from irontree.cli.inbox import Newcomers, each, everything_waiting, here, registered
from irontree.cli.output import TextLines
from irontree.cli.parser import INTERRUPTED, JSON, OK, argument, positive, tcp_port
from irontree.domain.text import shell_line
from irontree.errors import ConfigRefused, NotARepository, ServerUnavailable, in_words
from irontree.flows.serve.approvals import anything_waits, page_needs_you
from irontree.flows.server.connection import (
    LOOPBACK,
    LOOPBACK_NAMES,
    ListenAddress,
    ServerState,
    adopt,
    chosen_api_url,
    require_server,
    state_folder,
    ui_url,
)
from irontree.flows.server.credentials import PASSWORD
from irontree.flows.server.links import link_on
from irontree.flows.server.listening import require_free
from irontree.flows.server.private import LocalServer
from irontree.services.loops.loop import read_loops
from irontree.services.questions.listing import Revisions
from irontree.services.questions.questions import Question
from irontree.services.views.overview import SERVING
from irontree.store.registry import user_registry

if TYPE_CHECKING:
    from irontree.flows.serve.service import Service


GRACE: Final = 60
LOOK_EVERY: Final = 0.5
NEWS_EVERY: Final = 2.0
CLOCK: Final = "%H:%M:%S"
"""Times are in UTC, as in all piped output."""
OPEN: Final = "--open-to-everyone"
SECRET: Final = "IRONTREE_WEBHOOK_SECRET"


def run_serve(context: Context) -> int:
    """Serve until Ctrl-C or SIGTERM; exit code 0 if every step finished, 130 if one was cut off."""
    options = context.options
    place = place_of(options, os.environ)
    secret_for(options, os.environ)
    apps = choose(context)
    given = dict(os.environ)  # before Prefect's settings are adopted
    with server_of(context, apps, place) as (server, mine):
        context.console.note("Waiting for the Prefect server ...")
        environment = server.environment()
        adopt(environment, server.folder)
        known = {app.repository.id for app in apps}
        newcomers = Newcomers(
            context,
            known,
            fits=lambda app: chosen_api_url(given, app.preferences().api_url) == server.configured,
            joins=not options.folders,
        )
        return _serve(context, mine, environment, server, newcomers)


# --- what is served, and where ------------------------------------------------------------------------------------


def place_of(options: argparse.Namespace, environ: Mapping[str, str]) -> ListenAddress:
    """Where the server listens; raises ConfigRefused if nobody elsewhere can know the password."""
    names, opened = tuple(options.name), bool(options.open_to_everyone)
    if options.host in LOOPBACK_NAMES:
        return ListenAddress(LOOPBACK, options.port, names, open=opened)
    if options.port is None:
        raise ConfigRefused("--host needs a fixed --port, which others can be told", remedy="add --port 4200")
    if not (environ.get(PASSWORD) or options.open_to_everyone):
        raise ConfigRefused(
            f"at {options.host} nobody would know the password: Prefect's open-source server has one and no users, and "
            "the one that is made for you stays on this machine",
            remedy=f"set {PASSWORD}=user:password in the environment; or say {OPEN}, where a proxy sees to it",
        )
    return ListenAddress(options.host, options.port, names, open=opened)


def secret_for(options: argparse.Namespace, environ: Mapping[str, str]) -> str:
    """The secret that signs webhooks; raises ConfigRefused if webhooks are requested and it is not set."""
    secret = environ.get(SECRET, "").strip()
    if options.webhooks is not None and not secret:
        raise ConfigRefused(
            f"--webhooks takes only what is signed, and {SECRET} is not set",
            remedy=f"set {SECRET} to the secret of the forge's webhook",
        )
    return secret


def choose(context: Context) -> tuple[App, ...]:
    """The repositories in the given folders, else the current one and the registered ones. Registers them.

    Raises NotARepository if there are none.
    """
    registry = user_registry()
    if context.options.folders:
        apps = {app.repository.id: app for app in each(context, context.options.folders)}
    else:
        found = registered(context)
        for one in found:
            if one.problem:
                context.console.note(f"left out: {one.known.root}: {one.problem}")
        apps = {one.app.repository.id: one.app for one in found if one.app}
        if here(context):
            mine = context.open()
            apps = {mine.repository.id: mine, **apps}
    if not apps:
        raise NotARepository("there is no repository to serve", remedy="irontree serve DIR, or irontree repos add DIR")
    for app in apps.values():
        registry.add(app.repository.id, app.repository.root)
    return tuple(apps.values())


@contextmanager
def server_of(context: Context, apps: Sequence[App], place: ListenAddress) -> Iterator[tuple[Server, tuple[App, ...]]]:
    """The server for the block and those of *apps* that use it; reports the others. Raises ConfigRefused."""
    folder = state_folder()
    wants = {app.repository.id: chosen_api_url(os.environ, app.preferences().api_url) for app in apps}
    wanted = next(filter(None, wants.values()), None) if context.options.attach else None
    _refuse_wrong_server(context.options, wants, wanted)
    mine = tuple(app for app in apps if wants[app.repository.id] == wanted)
    for app in apps:
        if wants[app.repository.id] != wanted:
            other = wants[app.repository.id] or "the private one"
            context.console.note(f"left out: {app.repository.root}: its Prefect server is {other}")
    if wanted:
        yield Server(folder, wanted, None), mine
        return
    address = ServerState(folder).address()
    if not (address and address.port == place.port):
        require_free(place)
    with closing(LocalServer(folder, os.environ, place=place)) as private:
        yield Server(folder, None, private), mine


def _refuse_wrong_server(options: argparse.Namespace, wants: Mapping[str, str | None], wanted: str | None) -> None:
    if options.attach and wanted is None:
        raise ConfigRefused(
            "--attach uses a configured Prefect server, and none is configured",
            remedy="set PREFECT_API_URL or prefect.api_url, or leave --attach out",
        )
    if not options.attach and all(wants.values()):
        raise ConfigRefused(
            f"a Prefect server is configured: {next(iter(wants.values()))}",
            remedy="irontree serve --attach uses it; unset PREFECT_API_URL or prefect.api_url to have one started here",
        )


# --- while it runs ------------------------------------------------------------------------------------------------


@dataclass
class News:
    """Reports every new question and every loop that ends, once."""

    revisions: Revisions = field(default_factory=Revisions)
    asked: dict[str, frozenset[Any]] = field(default_factory=dict)
    early: dict[str, frozenset[Any]] = field(default_factory=dict)
    open: dict[str, frozenset[str]] = field(default_factory=dict)

    def __call__(self, app: App) -> Iterator[str]:
        """A line for each question of *app* that is new since the last call, and for each loop that has ended."""
        mine = app.repository.id
        (found, unknown), loops = everything_waiting(app, self.revisions), read_loops(app)[0]
        known, were_open = self.asked.get(mine, frozenset()), self.open.get(mine, frozenset())
        early = (
            frozenset(one.identity for one in found if _may_be_passing(one)) - known - self.early.get(mine, frozenset())
        )
        self.early[mine] = early
        asked = frozenset(one.identity for one in found) - early
        self.asked[mine] = asked | known if unknown else asked
        self.open[mine] = frozenset(loop.id for loop in loops if loop.is_open)
        yield from (line(one) for one in found if one.identity in asked - known)
        for loop in loops:
            if loop.id in were_open and not loop.is_open:
                yield f"loop {loop.id} {loop.entity.status}"


def _may_be_passing(one: Question) -> bool:
    """Whether the question may vanish in a moment: a command adopts an issue first, then approves it."""
    return one.reason == "reapproval_required" and one.kind == "issue"


def line(one: Question) -> str:
    """The question and where to answer it, in one line."""
    where = one.form_url or one.issue_url or f"{program_for(one.root)} status"
    return f"{one.about}: {one.rule.title}: {where}"


def _serve(
    context: Context,
    apps: Sequence[App],
    environment: Mapping[str, str],
    server: Server,
    listed: Newcomers,
) -> int:
    from irontree.flows.runs.needs_you import NeedsYou, show_needs_you
    from irontree.flows.serve.changes import ForgeChanges, RequestChanges
    from irontree.flows.serve.chores import CHORES, Chore
    from irontree.flows.serve.service import Service  # imports Prefect: its settings come first

    def say(app: App, text: str) -> None:
        _print(context.console, f"{_now()}  {app.repository.root.name}: {text}")

    changes, requests = ForgeChanges(), RequestChanges()
    chores = (
        *CHORES,
        Chore("news", NEWS_EVERY, News()),
        Chore("needs you", NEWS_EVERY, NeedsYou()),
        Chore("changes on the forge", NEWS_EVERY, changes),
        Chore("requests on the forge", NEWS_EVERY, requests),
    )
    with Service(apps, environment=environment, folder=server.folder, say=say, chores=chores) as service:
        service.start()
        show_needs_you(apps[0])
        _introduce(context.console, service, environment)
        with webhooks(context, service.poll_now, changes.hint, requests.hint), context.interruptible() as stop:
            _look_until(service, stop, listed, ServerNews(context.console, server.private))
            ended = _come_to_rest(service, context.options.grace)
    _print(context.console, f"Stopped. Go on with: {_again(context)}")
    return OK if ended else INTERRUPTED


@contextmanager
def webhooks(
    context: Context, poll_now: Callable[[], None], changed: Callable[[str], None], requested: Callable[[str], None]
) -> Iterator[None]:
    """Receive webhooks for the block, if requested."""
    port, secret = context.options.webhooks, secret_for(context.options, os.environ)
    if port is None:
        yield
        return
    from irontree.flows.serve.webhooks import receiving

    with receiving(port, secret, poll_now, changed, requested) as url:
        _print(context.console, f"Webhooks: {url}")
        yield


def _introduce(console: Console, service: Service, environment: Mapping[str, str]) -> None:
    for app in service.elsewhere:
        holder = app.alive(SERVING).holder()
        who = f"`{holder.what}` ({holder.about})" if holder else "another process"
        _print(console, f"{app.repository.root.name}: {who} serves it; taken over when that ends")
    needs_you = page_needs_you(environment) or f"{ui_url(environment)}/artifacts"
    page = needs_you if anything_waits(environment) else f"{ui_url(environment)}/runs"
    _print(console, f"In the browser: {link_on(console.out, page, state_folder())}")
    _print(console, f"What needs you: irontree inbox, or {needs_you}. Ctrl-C stops.")


@dataclass
class ServerNews:
    """Reports what a private server says, and once why it cannot be restarted; restarts are still attempted."""

    console: Console
    private: LocalServer | None
    told: bool = False

    def __call__(self) -> None:
        """Check it now."""
        for said in self.private.told() if self.private else ():
            _print(self.console, f"{_now()}  {said}")
        trouble = self.private.trouble() if self.private else None
        if trouble and not self.told:
            _print(self.console, f"{_now()}  {in_words(trouble)}")
        self.told = trouble is not None


def _look_until(service: Service, stop: threading.Event, listed: Newcomers, of_server: ServerNews) -> None:
    while not stop.wait(LOOK_EVERY):
        of_server()
        for repository_id in listed.removed():
            service.let_go(repository_id)
        for app in listed.added():
            service.add(app)
        service.look()


def _come_to_rest(service: Service, grace: float) -> bool:
    """Let the flows finish their current step; `False` if that takes too long or the user does not wait."""
    service.finish()
    deadline = time.monotonic() + grace
    try:
        while not service.at_rest():
            if time.monotonic() >= deadline:
                service.stop()
                return False
            time.sleep(LOOK_EVERY)
    except (KeyboardInterrupt, ServerUnavailable):
        service.stop()
        return False
    return True


def _again(context: Context) -> str:
    options = context.options
    words = ["irontree", "serve", *options.folders, *(["--attach"] if options.attach else [])]
    if options.port:
        words += ["--port", str(options.port)]
    if options.webhooks:
        words += ["--webhooks", str(options.webhooks)]
    words += ["--host", options.host] if options.host != LOOPBACK else []
    words += [word for name in options.name for word in ("--name", name)]
    words += [OPEN] if options.open_to_everyone else []
    return shell_line(words)


def _now() -> str:
    return time.strftime(CLOCK, time.gmtime())


def _print(console: Console, text: str) -> None:
    console.write(f"{text}\n")


# --- `irontree automations`


def run_automations(context: Context) -> int:
    """Register or remove them and list their names; raises ServerUnavailable if no server runs."""
    app = context.look()
    adopt(require_server(app), state_folder())
    from irontree.flows.runs import runs
    from irontree.flows.serve.automations import register_automations, remove_automations

    change = remove_automations if context.options.remove else register_automations
    with runs.connect() as client:
        names = change(client, app)
    done = "removed" if context.options.remove else "on the server"
    lines = tuple(f"{done}: {name}" for name in names) or (
        "No automations: `automations:` in .mino/config.yml is empty.",
    )
    context.console.show(lambda: {"automations": list(names)}, [TextLines(lines)])
    return 0


VERBS: Final = {
    "serve": Verb(
        run_serve,
        argument(
            "folders",
            metavar="DIR",
            nargs="*",
            help="a repository (default: the one here, and those in `irontree repos`)",
        ),
        argument("--attach", action="store_true", help="use the configured Prefect server, and start none"),
        argument("--port", type=tcp_port, help="the server's port (default: the first free one from 4280)"),
        argument("--host", default=LOOPBACK, help="where the server listens (default: %(default)s); with --port"),
        argument(
            "--name",
            metavar="HOST",
            action="append",
            default=[],
            help="a further host name of the server, such as that of a proxy; can be repeated",
        ),
        argument(OPEN, action="store_true", help="ask nobody for a password: who reaches the server can answer"),
        argument(
            "--webhooks",
            metavar="PORT",
            type=tcp_port,
            help=f"receive the forge's webhooks there, signed with the secret in {SECRET}, to look at comments at once",
        ),
        argument(
            "--grace",
            metavar="SECONDS",
            type=positive,
            default=GRACE,
            help="how long flows may finish their present step after Ctrl-C (default: %(default)s)",
        ),
    ),
    "automations": Verb(
        run_automations,
        argument("--remove", action="store_true", help="remove all that this repository has on the server"),
        JSON,
    ),
}
