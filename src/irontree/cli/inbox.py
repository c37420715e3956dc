"""`irontree inbox`: all open questions and approvals in the repositories of this machine, oldest first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from irontree.app import App
from irontree.cli.context import Context, Verb, program_for
from irontree.cli.output import Cell, OutputBlock, TextLines, listing
from irontree.cli.parser import JSON, OK
from irontree.domain.text import shell_path
from irontree.errors import EnvironmentRefused, IrontreeError, NotARepository, ServerUnavailable, in_words
from irontree.flows.server.connection import environment_of_server, is_unknown_to_servers, state_folder, ui_url
from irontree.services.questions.commands import DAMAGED, answers_to, called, question_json
from irontree.services.questions.questions import Question, oldest_first
from irontree.services.views.history import page_of_run
from irontree.services.views.overview import team_trouble
from irontree.services.work.standing import failed_requests
from irontree.store.registry import Registered, RepositoryRegistry, user_registry

if TYPE_CHECKING:
    from irontree.services.questions.listing import Revisions


def question_block(asked: Question) -> OutputBlock:
    """The question, its form if that is known, and how to answer it."""
    title = f"Loop {asked.loop_id}" if asked.kind == "loop" else asked.about
    lines: tuple[Cell | str, ...] = (asked.words, *_places(asked), *_put_right(asked), *_commands(asked, "irontree"))
    return TextLines(lines, title=title, framed=True)


def waiting_block(asked: Question) -> OutputBlock:
    """The question as listed across repositories: where it is asked, since when, and commands that work from here."""
    since = (Cell(f"since {asked.since}", "faint"),) if asked.since else ()
    lines: tuple[Cell | str, ...] = (asked.words, *since, *_places(asked), *_commands(asked, program_for(asked.root)))
    return TextLines(lines, title=f"{asked.repository} {asked.about}", framed=True)


def _places(asked: Question) -> Iterator[Cell]:
    if asked.said:
        yield Cell(asked.said, "faint")
    if asked.form_url:
        yield Cell(f"form: {asked.form_url}")
    if asked.issue_url:
        yield Cell(f"issue: {asked.issue_url}")


def _put_right(asked: Question) -> Iterator[Cell]:
    if asked.damaged and not asked.newer:
        yield Cell("put the event files right, or record what is missing and go on from there:", "faint")
        yield Cell(f"  {DAMAGED}", "typed")


def _commands(asked: Question, program: str) -> Iterator[Cell]:
    if asked.look:
        yield Cell("see what would be approved, and what changed:", "faint")
        yield Cell(f"  {called(asked.look, program)}", "typed")
    for choice, command in answers_to(asked, program):
        yield Cell(f"{choice.label}:", "faint")
        yield Cell(f"  {command}", "typed")


# --- Open questions and approvals of one repository


NO_SERVER = (
    "no Prefect server runs, so approvals that a label or the night asks for are not in this list; "
    "`irontree serve` shows them again"
)


def approvals_waiting(app: App) -> tuple[tuple[Question, ...], str]:
    """Approvals that forms ask for and the log does not have yet; and why the list may be incomplete."""
    return ((), "") if is_unknown_to_servers(app) else _asked_by(app, environment_of_server(app))


def everything_waiting(app: App, revisions: Revisions | None = None) -> tuple[tuple[Question, ...], str]:
    """Questions in the log of *app* (linked to forms if a server runs), approvals, and why more may be missing.

    Who asks again and again keeps *revisions*.
    """
    from irontree.services.questions.listing import waiting  # reads documents, to say what can be approved

    if is_unknown_to_servers(app):
        return waiting(app, None, revisions), ""
    environment = environment_of_server(app)
    links = partial(page_of_run, ui_url(environment)) if environment else None
    approvals, unknown = _asked_by(app, environment)
    return (*waiting(app, links, revisions), *approvals), unknown


def _asked_by(app: App, environment: Mapping[str, str] | None) -> tuple[tuple[Question, ...], str]:
    """Approvals asked for by that server, or why they are unknown: an unreachable server is no failure."""
    if environment is None:
        wanted = app.preferences()
        asks = wanted.automations.start_label or wanted.automations.nightly or wanted.has_toolchain
        return (), NO_SERVER if asks else ""
    from irontree.flows.serve.approvals import asked_approvals  # it imports the HTTP client

    try:
        found = asked_approvals(app.repository.id, environment)
    except ServerUnavailable as error:
        return (), in_words(error)
    return tuple(replace(asked, root=app.repository.root) for asked in found), ""


class FailedRequest(NamedTuple):
    """A request to a member of the team that failed, and the command that has it asked again."""

    key: str
    issue_number: int
    member: str
    reason: str
    command: str

    @property
    def line(self) -> str:
        """It in one line."""
        return f"{self.key} below #{self.issue_number}: {self.reason} -> {self.command}"


def failed_in(app: App, program: str = "irontree") -> tuple[FailedRequest, ...]:
    """What failed in *app*; the commands are called as *program*."""
    return tuple(
        FailedRequest(one.key, one.issue_number, one.member, one.reason, f"{program} agents retry {one.key}")
        for one in failed_requests(app)
    )


def failed_listing(failed: Iterable[FailedRequest]) -> Iterator[OutputBlock]:
    """A block that lists them; none if there are none."""
    return listing((one.line for one in failed), "asks", "Not answered by the team")


# --- The registered repositories of this machine


AGAIN_SECONDS: Final = 5.0


class KnownRepository(NamedTuple):
    """A registered repository: its ports, or why it cannot be opened."""

    known: Registered
    app: App | None = None
    problem: str = ""


def registered(context: Context) -> tuple[KnownRepository, ...]:
    """Every registered repository, by path; one that is gone or was replaced by another has a problem."""
    return tuple(_open(context, known) for known in user_registry().all())


@dataclass
class Newcomers:
    """Reports once each repository registered or removed since those with the ids *known* were chosen."""

    context: Context
    known: set[str]
    fits: Callable[[App], bool] = lambda _: True
    """Whether it is to be served too."""
    joins: bool = True
    """Whether any is; if not, none is opened."""
    registry: RepositoryRegistry = field(default_factory=user_registry)
    now: Callable[[], float] = time.monotonic
    _problems: dict[str, str] = field(default_factory=dict)
    _again_at: dict[str, float] = field(default_factory=dict)

    def added(self) -> Iterator[App]:
        """Newly registered repositories; one that cannot be opened is reported and retried after a while."""
        for known in (self._registered() if self.joins else None) or ():
            if known.id not in self.known and self.now() >= self._again_at.get(known.id, 0):
                found = _open(self.context, known)
                self._tell(found)
                if found.app:
                    self.known.add(known.id)
                    if self.fits(found.app):
                        yield found.app

    def _tell(self, found: KnownRepository) -> None:
        """Report why it cannot be opened, once per distinct reason."""
        mine = found.known.id
        if found.problem and found.problem != self._problems.get(mine):
            self.context.console.note(f"left out: {found.known.root}: {found.problem}")
        self._problems[mine], self._again_at[mine] = found.problem, self.now() + AGAIN_SECONDS

    def removed(self) -> frozenset[str]:
        """Ids that are no longer registered; if registered again, they count as new."""
        found = self._registered()
        gone = frozenset() if found is None else frozenset(self.known - {known.id for known in found})
        self.known -= gone
        return gone

    def _registered(self) -> tuple[Registered, ...] | None:
        """The registry's entries; `None` if it cannot be read: serving continues, and the next call retries."""
        try:
            return self.registry.listed()
        except EnvironmentRefused:
            return None


def here(context: Context) -> App | None:
    """The current repository; `None` outside one, or before `init`."""
    try:
        app = context.look()
        app.repository.id  # noqa: B018  (raises before `init`)
    except NotARepository:
        return None
    return app


def everywhere(context: Context) -> tuple[tuple[App, ...], tuple[str, ...]]:
    """The current repository and every registered one; and a line for each that could not be opened."""
    found = registered(context)
    apps = [one.app for one in found if one.app]
    if (mine := here(context)) and mine.repository.id not in {app.repository.id for app in apps}:
        apps.insert(0, mine)
    return tuple(apps), tuple(f"{one.known.root}: {one.problem}" for one in found if one.problem)


def is_listed(app: App) -> bool:
    """Whether `irontree serve`, started anywhere, serves it; `False` if the registry cannot be read."""
    with suppress(EnvironmentRefused):
        return any(known.id == app.repository.id for known in user_registry().all())
    return False


def each(context: Context, folders: Iterable[str]) -> Iterator[App]:
    """The repositories in *folders*, opened on behalf of the user; raises what opening one raises."""
    for folder in folders:
        yield context.at(context.folder / Path(folder)).open()


def _open(context: Context, known: Registered) -> KnownRepository:
    try:
        app = context.at(known.root).open()
        app.preferences()  # an unreadable configuration must not affect other repositories
    except NotARepository as error:
        forget = f"irontree repos remove {shell_path(str(known.root))}"
        return KnownRepository(known, problem=f"{error.message}. If it is gone for good: {forget}")
    except IrontreeError as error:
        return KnownRepository(known, problem=in_words(error))
    if app.repository.id != known.id:
        return KnownRepository(known, problem=f"it is another repository now ({app.repository.id})")
    return KnownRepository(known, app)


def run(context: Context) -> int:
    """Print what is waiting here and in every registered repository."""
    apps, problems = everywhere(context)
    found, more = look(apps)
    failed = tuple(one for app in apps for one in failed_in(app, program_for(app.repository.root)))
    shown = blocks(signing_in(found, context.console.out, state_folder()), (*problems, *more), len(apps), failed)
    context.console.show(lambda: as_json(found, (*problems, *more), failed), shown)
    return OK


def signing_in(found: Sequence[Question], out: TextIO, folder: Path) -> tuple[Question, ...]:
    """*found* as they are shown on *out*: on a terminal the link to a form opens it signed in (decision 0024)."""
    from irontree.flows.server.links import link_on  # `status` imports this module and needs no link

    return tuple(
        one if one.form_url is None else replace(one, form_url=link_on(out, one.form_url, folder)) for one in found
    )


def look(apps: Iterable[App]) -> tuple[tuple[Question, ...], tuple[str, ...]]:
    """What is waiting in *apps*, oldest first; and a line for each repository where that is unknown."""
    found: list[Question] = []
    problems: list[str] = []
    for app in apps:
        try:
            of_app, unknown = everything_waiting(app)
        except IrontreeError as error:
            of_app, unknown = (), in_words(error)
        found.extend(of_app)
        unsure = (*filter(None, [unknown]), *team_trouble(app))
        problems += [f"{app.repository.root}: {why}" for why in unsure]
    return oldest_first(found), tuple(problems)


def as_json(found: Sequence[Question], problems: Sequence[str], failed: Sequence[FailedRequest] = ()) -> dict[str, Any]:
    """The documented JSON keys."""
    return {
        "waiting": [waiting_json(one) for one in found],
        "failed_requests": [one._asdict() for one in failed],
        "problems": list(problems),
    }


def waiting_json(one: Question) -> dict[str, Any]:
    """The JSON keys of one question, with commands that work from here."""
    return {
        "repository": one.repository,
        "root": str(one.root),
        "id": one.repository_id,
        "since": one.since,
        "issue_url": one.issue_url,
        "form_url": one.form_url,
        **question_json(one, program_for(one.root)),
    }


def blocks(
    found: Sequence[Question], problems: Sequence[str], repositories: int, failed: Sequence[FailedRequest] = ()
) -> Iterator[OutputBlock]:
    """The human-readable output."""
    if not (found or failed):
        where = "the one repository on the list" if repositories == 1 else f"{repositories} repositories"
        yield TextLines((f"Nothing waits for you in {where}.",) if repositories else ("No repositories yet.", _ADD))
    yield from map(waiting_block, found)
    yield from failed_listing(failed)
    yield from listing(problems, "bad", "Trouble")


_ADD = "-> irontree repos add DIR"


VERBS: Final = {"inbox": Verb(run, JSON)}
