"""Periodic work for each served repository: chores, and polling comments for answers."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Self

from irontree.app import App, Origin
from irontree.domain.decide import COMMENTS_EVERY, next_look
from irontree.domain.issues import Issue
from irontree.errors import (
    FORGE_FAILED,
    Busy,
    ConfigRefused,
    IrontreeError,
    LogDamaged,
    NotEligible,
    ServerUnavailable,
    in_words,
)
from irontree.flows.runs.recovery import start_loop, start_what_waits, take_up_all, wake_overtaken
from irontree.flows.runs.requests import ask_for_approval, start_requests
from irontree.flows.runs.runs import RunInfo, connect, of_flow, suspended_runs, url_for
from irontree.flows.serve.closings import tell_closings
from irontree.services.answers.comments import CommentResult, look
from irontree.services.answers.lookout import Lookout, take_merges
from irontree.services.loops.loop import may_ask
from irontree.services.questions.questions import COMMENT
from irontree.services.record import read_world
from irontree.services.toolchain.assigned import assigned_issues
from irontree.services.toolchain.looking import TeamLookout
from irontree.services.toolchain.reviewing import look_for_reviews
from irontree.tasks.artifacts import emit, emit_question, read_told, tell_events, telling, write_told
from irontree.tasks.stages import app_of

HOUR: Final = 3600
REMINDED: Final = "reminded."
LABELLED: Final = "labelled."
TELLINGS: Final = "tellings."
DECIDED: Final = "decided."
AGAIN_SECONDS: Final = 600
"""The longest time that a server takes from the event to the run that asks."""
LONGEST_SECONDS: Final = 24 * HOUR
ENDED: Final = frozenset({"COMPLETED", "CANCELLED", "FAILED"})
"""States of runs that do not continue by themselves; crashed ones are restarted."""


class PutUp(NamedTuple):
    """An issue that is to be put up for approval, and the event that says why."""

    issue: Issue
    event: str
    why: Mapping[str, str]


def put_up_for_approval(app: App) -> tuple[int, ...]:
    """Emit `irontree.issue_labelled` or `irontree.issue_assigned` once for each such issue that the log does not have.

    Returns their numbers; none if neither is configured or the forge does not answer. Repeated at growing intervals
    while the server has no run that asks for approval (the event or the database was lost, or the automation is
    paused), but not once an approver was seen to have decided: the server eventually drops the runs that show it.
    Raises Busy, and ServerUnavailable.
    """
    try:
        found = to_put_up(app)
    except IrontreeError as error:
        app.progress.note(f"the issues that are labelled or assigned could not be read: {error.message}")
        return ()
    if not found:
        return ()
    known = read_world(app).replays
    with telling(app):
        told, now = read_told(app), int(app.clock.now().timestamp())
        due = [number for number in sorted(found) if number not in known and is_due(told, number, now)]
        asking = _asking_for(app, [number for number in due if f"{LABELLED}{number}" in told])
        fresh = [number for number in due if number not in asking]
        for number in fresh:
            _tell_put_up(app, found[number], told.get(f"{LABELLED}{number}", 0))
        news = was_decided(asking) | was_told(told, fresh, now)
        if news:
            write_told(app, told | news)
    return tuple(fresh)


def to_put_up(app: App) -> dict[int, PutUp]:
    """The open issues that are labelled so or assigned to a member, by number; the log may have them already.

    Raises RemoteFailed, and what reading the settings raises.
    """
    assigned = (PutUp(issue, "assigned", {"member": member.name}) for issue, member in assigned_issues(app))
    label = app.preferences().automations.start_label
    marked = app.forge().open_issues(label) if label else ()
    labelled = (PutUp(issue, "labelled", {"label": str(label)}) for issue in marked)
    return {each.issue.number: each for each in (*assigned, *labelled)}


def is_due(told: Mapping[str, int], number: int, now: int) -> bool:
    """Whether its event was never emitted, or long enough ago for the count so far, and no decision is known."""
    wait = AGAIN_SECONDS << min(told.get(f"{TELLINGS}{number}", 1) - 1, 16)
    is_long_ago = now - told.get(f"{LABELLED}{number}", 0) >= min(LONGEST_SECONDS, wait)
    return is_long_ago and f"{DECIDED}{number}" not in told


def was_told(told: Mapping[str, int], numbers: Iterable[int], now: int) -> dict[str, int]:
    """What to remember about emitted events: when, and how often so far."""
    often = {f"{TELLINGS}{number}": told.get(f"{TELLINGS}{number}", 0) + 1 for number in numbers}
    return often | {f"{LABELLED}{number}": now for number in numbers}


def was_decided(asking: Mapping[int, Collection[RunInfo]]) -> dict[str, int]:
    """What to remember about issues whose approval was asked for and is not any more."""
    states = {number: {run.state for run in mine} for number, mine in asking.items()}
    return {f"{DECIDED}{number}": 1 for number, found in states.items() if found <= ENDED and found != {"FAILED"}}


def _asking_for(app: App, numbers: Collection[int]) -> Mapping[int, list[RunInfo]]:
    """The runs that ask or asked for the issues' approval; issues without one are left out."""
    if not numbers:
        return {}
    asking: defaultdict[str, list[RunInfo]] = defaultdict(list)
    with connect() as client:
        for run in of_flow(client, app.repository.id, "intake"):
            asking[str(run.parameters.get("document"))].append(run)
    return {number: asking[f"#{number}"] for number in numbers if f"#{number}" in asking}


def _tell_put_up(app: App, wanted: PutUp, before: int) -> None:
    """Emit the event; *before*, when it was last emitted, makes a repetition a separate event."""
    issue, event, why = wanted
    payload = {"issue_number": issue.number, "title": issue.title, **why}
    stream, key = f"issue.{issue.number}", f"{event}:{issue.number}:{before}"
    emit(f"issue_{event}", workspace_id=app.repository.id, stream=stream, name=issue.title, payload=payload, key=key)


def remind(app: App) -> tuple[str, ...]:
    """Emit `irontree.question_waits` for each open question at the configured interval; returns the runs' names."""
    hours = app.preferences().automations.remind_hours
    if not hours:
        return ()
    with connect() as client:
        asking = suspended_runs(client, app.repository.id)
    with telling(app):
        told, now = read_told(app), app.clock.now()
        spans = {_asking_of(run): _spans(run, now, hours) for run in asking}
        due = [run for run in asking if spans[_asking_of(run)] > told.get(_asking_of(run), 0)]
        for run in due:
            passed, url = spans[_asking_of(run)], url_for(run.id)
            title, key = f"This question has been open for {passed * hours} hours", f"{_asking_of(run)}:{passed}"
            emit_question(app, "question_waits", "", run.name, title=title, url=url, key=key)
        if due:
            others = {stream: n for stream, n in told.items() if not stream.startswith(REMINDED)}
            write_told(app, others | spans)
    return tuple(run.name for run in due)


def _asking_of(run: RunInfo) -> str:
    """Identifies the run's current question: asking again is a new one."""
    return f"{REMINDED}{run.id}.{run.since:%Y%m%d%H%M%S}" if run.since else f"{REMINDED}{run.id}"


def _spans(run: RunInfo, now: datetime, hours: int) -> int:
    """How many times *hours* have passed since the run was suspended."""
    return int((now - run.since).total_seconds() // (hours * HOUR)) if run.since else 0


# --- Chores


Say = Callable[[App, str], None]


def _nothing(_: str) -> None:
    """Do nothing, for chores that remember nothing."""


@dataclass(frozen=True, slots=True)
class Chore:
    """Work to do *every* so many seconds for a repository; yields messages to print."""

    name: str
    every: float
    do: Callable[[App], Iterable[str]]
    at_once: bool = False
    """Whether it is also done as soon as the repository is served."""
    forget: Callable[[str], None] = _nothing
    """Forgets what the server was told about the repository with this id: it may have a new database."""


def take_up_what_died(app: App) -> Iterable[str]:
    """Recover runs whose process died according to the log, sooner than the janitor, which runs every 5 min."""
    found = take_up_all(app, asks_forge=False)  # approving ends such runs at once, else the janitor does later
    return (*found.dead, *found.approving)


def go_on(app: App) -> Iterable[str]:
    """Start the runs that the log calls for and ask open questions (rulings, Crashes); a line per loop."""
    found = take_up_all(app)
    return (*found.approving, *found.going, *found.asking)


def tell_what_happened(app: App) -> Iterable[str]:
    """Emit events for what commands recorded, for the server's automations."""
    tell_events(app)
    return ()


def tell_what_waits(app: App) -> Iterable[str]:
    """Emit events for labelled or assigned issues and for open questions, and for closed ones of members."""
    yield from (f"#{number} was labelled or assigned: it is put up for approval" for number in put_up_for_approval(app))
    yield from (f"{run}: its question is still open" for run in remind(app))
    yield from (f"#{number}, by a member of the team, was closed" for number in tell_closings(app))


CHORES: Final = (
    Chore("take up what died", 60.0, take_up_what_died),
    Chore("tell what happened", 60.0, tell_what_happened),
    Chore("tell what waits", 60.0, tell_what_waits),
)


@dataclass
class Failures:
    """Reports failures per repository, each once until it changes."""

    say: Say
    _said: dict[tuple[str, str], str] = field(default_factory=dict)

    @contextmanager
    def said(self, app: App, what: str, *, passing: tuple[type[IrontreeError], ...] = ()) -> Iterator[None]:
        """Report the error that ends the block, which does *what* for *app*; reraises those in *passing*."""
        try:
            yield
            self._said.pop((app.repository.id, what), None)
        except passing:
            raise
        except IrontreeError as error:
            self.say_once(app, what, error)

    def say_once(self, app: App, what: str, error: IrontreeError) -> None:
        """Report the *error* that prevents *what*, unless the same text was reported for this or other work."""
        mine, text = app.repository.id, in_words(error)
        if text not in (words for (repository, _), words in self._said.items() if repository == mine):
            self.say(app, text)
        self._said[mine, what] = text


@dataclass
class ChoreRunner:
    """Does chores when due. Failures are reported once until they change, and retried when due again."""

    say: Say
    chores: Sequence[Chore] = CHORES
    _due: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._failures = Failures(self.say)

    def look(self, apps: Sequence[App], now: float) -> None:
        """Do what is due at *now* (monotonic seconds); for a new repository after one interval, unless `at_once`."""
        for app in apps:
            for chore in self.chores:
                key = (app.repository.id, chore.name)
                if now >= self._due.setdefault(key, now if chore.at_once else now + chore.every):
                    self._due[key] = now + chore.every
                    self._do(app, chore)

    def forget(self, app: App) -> None:
        """Forget what the server was told: the repository is served anew."""
        for chore in self.chores:
            chore.forget(app.repository.id)

    def _do(self, app: App, chore: Chore) -> None:
        with self._failures.said(app, chore.name):
            for line in chore.do(app):
                self.say(app, line)


# --- Answers in comments


LETS_GO_SECONDS: Final = 10.0

LookForComments = Callable[[], tuple[CommentResult, ...]]


def take_comments(
    app: App, lookout: Lookout | None = None, team: TeamLookout | None = None
) -> tuple[CommentResult, ...]:
    """Record answers from comments and merges, and wake the runs that wait for them. Adopt Prefect's settings first.

    What the forge asks of the team is kept, and begun. If no server answers, or it refuses, the runs start later: the
    answers are recorded, and the janitor works from the log.
    """
    take_requests(app, team or TeamLookout())
    found = look(app, lookout) if may_ask(app) else ()
    merged = False
    with suppress(Busy, *FORGE_FAILED):  # whoever drives looks at requests too; a failure is told of comments
        merged = may_ask(app) and take_merges(app)
    if merged or any(comment.outcome == "taken" for comment in found):
        with suppress(ServerUnavailable):
            start_what_waits(app)
            wake_overtaken(app)
    return found


def take_requests(app: App, team: TeamLookout) -> None:
    """Keep what the forge asks of the team, and have it begin. Errors that time or an approval cures are not raised."""
    if not app.preferences().has_toolchain:
        return
    for look_at in (_take_mentions, _take_reviews, _take_discussions):
        with suppress(NotEligible, ConfigRefused, Busy, LogDamaged, ServerUnavailable, *FORGE_FAILED):
            look_at(app, team)


def _take_mentions(app: App, team: TeamLookout) -> None:
    if team.mentions.look(app):
        start_requests(app)


def _take_reviews(app: App, _: TeamLookout) -> None:
    if look_for_reviews(app):
        start_requests(app)


def _take_discussions(app: App, team: TeamLookout) -> None:
    """Begin what is asked next, put up what the team proposes, and start what a comment approved."""
    talked = team.discussions.look(app)
    if talked.asked:
        start_requests(app)
    for loop_id in talked.loop_ids:
        start_loop(app, loop_id)
    if talked.loop_ids or talked.proposed:
        wake_overtaken(app)
        ask_for_approval(app, talked.proposed)


class CommentPoller:
    """Polls with ports that are kept open, and reopened after a failure: a forge's client caches by ETag."""

    def __init__(
        self, open_it: Callable[[], App], look: Callable[[App], tuple[CommentResult, ...]] | None = None
    ) -> None:
        self._open = open_it
        self._look = look or partial(take_comments, lookout=Lookout(), team=TeamLookout())
        self._app: App | None = None

    def __call__(self) -> tuple[CommentResult, ...]:
        """Poll once."""
        app, self._app = self._app or self._open(), None
        found = self._look(app)
        if not any(looked.failed for looked in found):
            self._app = app
        return found


class CommentWatch:
    """Polls comments in a thread for the duration of its `with` block; less often while the forge fails."""

    def __init__(
        self, look: LookForComments, *, every: timedelta = COMMENTS_EVERY, stopped: threading.Event | None = None
    ) -> None:
        self._look = look
        self._every = every
        self._stopped = stopped or threading.Event()
        self._woken = threading.Event()
        self.trouble = ""
        """Why comments could not be read at the last poll."""
        context = copy_context()  # Prefect keeps its settings there
        self._thread = threading.Thread(target=context.run, args=(self._watch,), name="comments", daemon=True)

    @classmethod
    def of(cls, app: App, *, every: timedelta = COMMENTS_EVERY) -> Self:
        """A watch for a repository with its own ports: the thread shares none with its creator."""
        stopped, root = threading.Event(), str(app.repository.root)
        look = CommentPoller(lambda: app_of(root, origin=Origin("irontree", COMMENT), cancel=stopped))
        return cls(look, every=every, stopped=stopped)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def stop(self) -> None:
        """Stop polling; recording in progress stops where it safely can."""
        self._stopped.set()
        self._woken.set()

    def end(self) -> None:
        """Stop polling, and wait for recording in progress."""
        self.stop()
        self._thread.join(LETS_GO_SECONDS)

    def died(self) -> bool:
        """Whether its thread ended without being asked to."""
        return not self._stopped.is_set() and not self._thread.is_alive()

    def poll_now(self) -> None:
        """Poll early, because of a hint that something changed. Delays that the forge asked for still apply."""
        self._woken.set()

    def _watch(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            self._woken.clear()
            later = self._look_once()
            self.trouble = later.said if later and later.failed else ""
            outage = later if later and later.ended_pass else None  # one issue that has to wait delays no other
            failures = failures + 1 if outage else 0
            now = datetime.now(UTC)
            again = next_look(now, failures, outage.not_before if outage else None, every=self._every)
            interrupted = self._stopped if outage else self._woken
            if not self._stopped.is_set():
                interrupted.wait((again - now).total_seconds())

    def _look_once(self) -> CommentResult | None:
        """Poll once; returns the gravest result that has to wait, if any.

        In order: an outage of the forge or a repository that cannot be read now; an issue that failed; a busy one.
        """
        try:
            waiting = [found for found in self._look() if found.outcome == "later"]
        except IrontreeError as error:
            return CommentResult(0, "later", said=in_words(error), failed=True, ended_pass=True)
        return max(waiting, key=lambda found: (found.ended_pass, found.failed), default=None)


# --- The comment watches of all served repositories


class Watches:
    """One watch per added repository; one that died is replaced at the next `look`."""

    def __init__(self, say: Say, watch_of: Callable[[App], CommentWatch] = CommentWatch.of) -> None:
        self._say = say
        self._watch_of = watch_of
        self._watches: list[tuple[App, CommentWatch]] = []
        self._held = ExitStack()
        self._told: dict[str, str] = {}

    def add(self, app: App) -> None:
        """Start polling the comments of *app*."""
        self._watches.append((app, self._held.enter_context(self._watch_of(app))))

    def remove(self, app: App) -> None:
        """Stop polling the comments of *app*, after recording in progress has ended."""
        for found in [found for found in self._watches if found[0] is app]:
            self._watches.remove(found)
            found[1].end()

    def look(self) -> None:
        """Replace and report watches that died; report once each reason why comments cannot be read."""
        for app, watch in [found for found in self._watches if found[1].died()]:
            self._watches.remove((app, watch))
            self._say(app, "the thread that polls comments died; another takes its place")
            self.add(app)
        for app, watch in self._watches:
            if watch.trouble and watch.trouble != self._told.get(app.repository.id):
                self._say(app, f"comments: {watch.trouble}")
            self._told[app.repository.id] = watch.trouble

    def poll_now(self) -> None:
        """Poll the comments of all repositories now."""
        for _, watch in self._watches:
            watch.poll_now()

    def stop(self) -> None:
        """Stop polling."""
        for _, watch in self._watches:
            watch.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()
