"""What is done from time to time for each repository that is served: chores, and looks at comments that answer."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Final, Self

from irontree.app import App, Origin
from irontree.domain.decide import COMMENTS_EVERY, next_look
from irontree.errors import IrontreeError, RemoteUnavailable, ServerUnavailable, in_words
from irontree.flows.runs.recovery import start_what_waits, take_up_all, wake_overtaken
from irontree.flows.runs.runs import RunInfo, connect, of_flow, suspended_runs, url_for
from irontree.flows.serve.automations import CHANGED
from irontree.ports import Issue
from irontree.services.answers.comments import COMMENT, CommentResult, look
from irontree.services.consistency.drift import drifted_issues
from irontree.services.loops.loop import may_ask
from irontree.services.record import read_world
from irontree.tasks.artifacts import emit, emit_question, read_told, tell_events, telling, write_told
from irontree.tasks.stages import app_of

HOUR: Final = 3600
REMINDED: Final = "reminded."
LABELLED: Final = "labelled."
TELLINGS: Final = "tellings."
DECIDED: Final = "decided."
AGAIN_SECONDS: Final = 600
"""What a server needs at most from the event to the run that asks."""
LONGEST_SECONDS: Final = 24 * HOUR
ENDED: Final = frozenset({"COMPLETED", "CANCELLED", "FAILED"})
"""States of runs that do not go on by themselves: one that crashed is started again."""


def tell_labelled(app: App) -> tuple[int, ...]:
    """Emit `irontree.issue_labelled` once for each open issue with the configured label that is not known here.

    Those numbers; none where no label is configured, or the forge does not answer now. Again, each time after a longer
    wait, where the server has no run that asks for its approval: the event was lost, or the server's database, or its
    automation is paused. Not where a person was seen to have decided: the server drops the runs that tell of it in
    time. Raises Busy, and ServerUnavailable.
    """
    label = app.preferences().automations.start_label
    if not label:
        return ()
    try:
        found = app.forge().open_issues(label)
    except IrontreeError as error:
        app.progress.note(f"the issues labelled {label} could not be read: {error.message}")
        return ()
    known = read_world(app).replays
    with telling(app):
        told, now = read_told(app), int(app.clock.now().timestamp())
        due = [issue for issue in found if issue.number not in known and is_due(told, issue.number, now)]
        asking = _asking_for(app, [issue.number for issue in due if f"{LABELLED}{issue.number}" in told])
        fresh = [issue for issue in due if issue.number not in asking]
        for issue in fresh:
            _tell_labelled(app, issue, label, told.get(f"{LABELLED}{issue.number}", 0))
        news = was_decided(asking) | was_told(told, [issue.number for issue in fresh], now)
        if news:
            write_told(app, told | news)
    return tuple(issue.number for issue in fresh)


def is_due(told: Mapping[str, int], number: int, now: int) -> bool:
    """Whether it was never told, or long ago for how often it was, and nobody is known to have decided about it."""
    wait = AGAIN_SECONDS << min(told.get(f"{TELLINGS}{number}", 1) - 1, 16)
    is_long_ago = now - told.get(f"{LABELLED}{number}", 0) >= min(LONGEST_SECONDS, wait)
    return is_long_ago and f"{DECIDED}{number}" not in told


def was_told(told: Mapping[str, int], numbers: Iterable[int], now: int) -> dict[str, int]:
    """What to remember of those that were told: when, and how often by now."""
    often = {f"{TELLINGS}{number}": told.get(f"{TELLINGS}{number}", 0) + 1 for number in numbers}
    return often | {f"{LABELLED}{number}": now for number in numbers}


def was_decided(asking: Mapping[int, Collection[RunInfo]]) -> dict[str, int]:
    """What to remember of those that a person was asked about, and no run asks about any more."""
    states = {number: {run.state for run in mine} for number, mine in asking.items()}
    return {f"{DECIDED}{number}": 1 for number, found in states.items() if found <= ENDED and found != {"FAILED"}}


def _asking_for(app: App, numbers: Collection[int]) -> Mapping[int, list[RunInfo]]:
    """The runs that ask or asked for their approval; those that have none are left out."""
    if not numbers:
        return {}
    asking: defaultdict[str, list[RunInfo]] = defaultdict(list)
    with connect() as client:
        for run in of_flow(client, app.repository.id, "intake"):
            asking[str(run.parameters.get("document"))].append(run)
    return {number: asking[f"#{number}"] for number in numbers if f"#{number}" in asking}


def _tell_labelled(app: App, issue: Issue, label: str, before: int) -> None:
    """*before* is when it was told last: telling once more is another event."""
    payload = {"issue_number": issue.number, "title": issue.title, "label": label}
    stream, key = f"issue.{issue.number}", f"labelled:{issue.number}:{before}"
    emit("issue_labelled", workspace_id=app.repository.id, stream=stream, name=issue.title, payload=payload, key=key)


def remind(app: App) -> tuple[str, ...]:
    """Emit `irontree.question_waits` for each question, every so many hours that it is open; the names of the runs."""
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
    """This asking of the run: one that asks anew is another."""
    return f"{REMINDED}{run.id}.{run.since:%Y%m%d%H%M%S}" if run.since else f"{REMINDED}{run.id}"


def _spans(run: RunInfo, now: datetime, hours: int) -> int:
    """How often that many hours have passed since the run was suspended."""
    return int((now - run.since).total_seconds() // (hours * HOUR)) if run.since else 0


# --- Tells the server's automations when others changed issues on the forge: `irontree.forge_changed`


EVERY: Final = 60.0
"""Seconds between two looks at a repository, and at least between two events about it."""


@dataclass
class ForgeChanges:
    """Emits once for what is new of each repository. May be hinted at from other threads."""

    tell: Callable[[App, Sequence[int]], None] = field(default_factory=lambda: tell_changed)
    clock: Callable[[], float] = time.monotonic
    _looked: dict[str, float] = field(default_factory=dict)
    _emitted: dict[str, float] = field(default_factory=dict)
    _known: dict[str, frozenset[int]] = field(default_factory=dict)
    _hinted: set[str] = field(default_factory=set)

    def hint(self, address: str) -> None:
        """Look at the repository with this page with the next call."""
        self._hinted.add(_same(address))

    def __call__(self, app: App) -> Iterator[str]:
        """Look if it is time; what was told, a line."""
        preferences, now, own = app.preferences(), self.clock(), app.repository.id
        is_hinted = _same(preferences.tracker or "") in self._hinted
        is_due = is_hinted or now - self._looked.get(own, now - EVERY) >= EVERY
        if not (is_due and preferences.automations.reconcile and now - self._emitted.get(own, now - EVERY) >= EVERY):
            return
        self._hinted.discard(_same(preferences.tracker or ""))
        self._looked[own] = now
        if new := self._new(app):
            self._emitted[own] = now
            self.tell(app, new)
            yield f"changed on the forge: {', '.join(f'#{number}' for number in new)}"

    def _new(self, app: App) -> list[int]:
        """What the last look did not show; nothing while the forge is away, which other work says."""
        before = self._known.get(app.repository.id, frozenset())
        try:
            self._known[app.repository.id] = drifted_issues(app)
        except RemoteUnavailable:
            return []
        return sorted(self._known[app.repository.id] - before)


def tell_changed(app: App, numbers: Sequence[int]) -> None:
    """Emit the event about these issues."""
    payload = {"issues": list(numbers), "repository": app.repository.root.name}
    emit(CHANGED.removeprefix("irontree."), workspace_id=app.repository.id, payload=payload)


def _same(address: str) -> str:
    return address.rstrip("/").casefold()


# --- What who serves repositories does beside serving


Say = Callable[[App, str], None]


def _nothing(_: str) -> None:
    """Where nothing is remembered."""


@dataclass(frozen=True, slots=True)
class Chore:
    """Something to do *every* so many seconds for a repository; yields what there is to say about it."""

    name: str
    every: float
    do: Callable[[App], Iterable[str]]
    at_once: bool = False
    """Whether it is also done as soon as the repository is served."""
    forget: Callable[[str], None] = _nothing
    """Forgets what the server was told about the repository with this id: it may have another database by now."""


def take_up_what_died(app: App) -> Iterable[str]:
    """Find the runs whose process died, and have what the log says going on; the janitor comes by only every 5 min."""
    found = take_up_all(app, asks_forge=False)  # whoever approves does so at once, the janitor later
    return (*found.dead, *found.approving)


def go_on(app: App) -> Iterable[str]:
    """Have going what the log says should be, and asked what is open (rulings, Crashes); a line a loop."""
    found = take_up_all(app)
    return (*found.approving, *found.going)


def tell_what_happened(app: App) -> Iterable[str]:
    """Tell the server's automations what commands recorded."""
    tell_events(app)
    return ()


def tell_what_waits(app: App) -> Iterable[str]:
    """Tell the server's automations what was labelled, and which question waits for long."""
    yield from (f"#{number} was labelled: it is put up for approval" for number in tell_labelled(app))
    yield from (f"{run}: its question is still open" for run in remind(app))


CHORES: Final = (
    Chore("take up what died", 60.0, take_up_what_died),
    Chore("tell what happened", 60.0, tell_what_happened),
    Chore("tell what waits", 60.0, tell_what_waits),
)


@dataclass
class Failures:
    """Says what could not be done for a repository, once as long as it stays the same."""

    say: Say
    _said: dict[tuple[str, str], str] = field(default_factory=dict)

    @contextmanager
    def said(self, app: App, what: str, *, passing: tuple[type[IrontreeError], ...] = ()) -> Iterator[None]:
        """Say what ends the block, which does *what* for *app*; raises what is *passing*."""
        try:
            yield
            self._said.pop((app.repository.id, what), None)
        except passing:
            raise
        except IrontreeError as error:
            self.say_once(app, what, error)

    def say_once(self, app: App, what: str, error: IrontreeError) -> None:
        """Say the *error* that keeps somebody from doing *what*, unless it was said, of this or of something else."""
        mine, text = app.repository.id, in_words(error)
        if text not in (words for (repository, _), words in self._said.items() if repository == mine):
            self.say(app, text)
        self._said[mine, what] = text


@dataclass
class Duties:
    """Does what is due. What cannot be done is said, once as long as it stays the same, and tried again when due."""

    say: Say
    chores: Sequence[Chore] = CHORES
    _due: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._failures = Failures(self.say)

    def look(self, apps: Sequence[App], now: float) -> None:
        """Do what is due at *now* (monotonic seconds); where a repository is new, after one interval unless at once."""
        for app in apps:
            for chore in self.chores:
                key = (app.repository.id, chore.name)
                if now >= self._due.setdefault(key, now if chore.at_once else now + chore.every):
                    self._due[key] = now + chore.every
                    self._do(app, chore)

    def forget(self, app: App) -> None:
        """Have the server told anew: the repository is served anew."""
        for chore in self.chores:
            chore.forget(app.repository.id)

    def _do(self, app: App, chore: Chore) -> None:
        with self._failures.said(app, chore.name):
            for line in chore.do(app):
                self.say(app, line)


# --- Comments that answer, for whoever serves


LETS_GO_SECONDS: Final = 10.0

LookForComments = Callable[[], tuple[CommentResult, ...]]


def take_comments(app: App) -> tuple[CommentResult, ...]:
    """Take what stands in comments, and let the runs go on that waited for it. Adopt Prefect's settings first.

    Where no server answers, or it refuses what we ask, the runs start later: the answers are recorded, and the janitor
    goes by the log.
    """
    found = look(app) if may_ask(app) else ()
    if any(comment.outcome == "taken" for comment in found):
        with suppress(ServerUnavailable):
            start_what_waits(app)
            wake_overtaken(app)
    return found


class CommentPoller:
    """Looks with ports that are opened once, and again after a failure: a forge's client knows what it saw (ETag)."""

    def __init__(
        self, open_it: Callable[[], App], look: Callable[[App], tuple[CommentResult, ...]] = take_comments
    ) -> None:
        self._open = open_it
        self._look = look
        self._app: App | None = None

    def __call__(self) -> tuple[CommentResult, ...]:
        """Look once."""
        app, self._app = self._app or self._open(), None
        found = self._look(app)
        if not any(looked.failed for looked in found):
            self._app = app
        return found


class CommentWatch:
    """Looks at comments in a thread of its own as long as its `with` block lasts; less often where the forge fails."""

    def __init__(
        self, look: LookForComments, *, every: timedelta = COMMENTS_EVERY, stopped: threading.Event | None = None
    ) -> None:
        self._look = look
        self._every = every
        self._stopped = stopped or threading.Event()
        self._woken = threading.Event()
        self.trouble = ""
        """Why comments cannot be looked at, as of the last look."""
        context = copy_context()  # Prefect keeps its settings there
        self._thread = threading.Thread(target=context.run, args=(self._watch,), name="comments", daemon=True)

    @classmethod
    def of(cls, app: App, *, every: timedelta = COMMENTS_EVERY) -> Self:
        """That of a repository, with ports of its own: the thread shares none with who made it."""
        stopped, root = threading.Event(), str(app.repository.root)
        look = CommentPoller(lambda: app_of(root, origin=Origin("irontree", COMMENT), cancel=stopped))
        return cls(look, every=every, stopped=stopped)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def stop(self) -> None:
        """Look no more; what is being recorded stops where it safely can."""
        self._stopped.set()
        self._woken.set()

    def end(self) -> None:
        """Look no more, and wait for what is being recorded."""
        self.stop()
        self._thread.join(LETS_GO_SECONDS)

    def died(self) -> bool:
        """Whether it has ended without being asked to."""
        return not self._stopped.is_set() and not self._thread.is_alive()

    def poll_now(self) -> None:
        """Look now: somebody says that there is something to see. What the forge wants to wait for comes first."""
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
        """What has to wait, if anything, and of that the gravest.

        An outage of the forge, a repository that cannot be read just now; else an issue that failed; else a busy one.
        """
        try:
            waiting = [found for found in self._look() if found.outcome == "later"]
        except IrontreeError as error:
            return CommentResult(0, "later", said=in_words(error), failed=True, ended_pass=True)
        return max(waiting, key=lambda found: (found.ended_pass, found.failed), default=None)


# --- The comment watches of many repositories, for as long as they are served


class Watches:
    """One for each repository that was added; one that died is replaced with the next `look`."""

    def __init__(self, say: Say, watch_of: Callable[[App], CommentWatch] = CommentWatch.of) -> None:
        self._say = say
        self._watch_of = watch_of
        self._watches: list[tuple[App, CommentWatch]] = []
        self._held = ExitStack()
        self._told: dict[str, str] = {}

    def add(self, app: App) -> None:
        """Look at the comments of *app* from now on."""
        self._watches.append((app, self._held.enter_context(self._watch_of(app))))

    def remove(self, app: App) -> None:
        """Look at the comments of *app* no more; what is being recorded ends first."""
        for found in [found for found in self._watches if found[0] is app]:
            self._watches.remove(found)
            found[1].end()

    def look(self) -> None:
        """Replace those that died, and say so; say once of each trouble that keeps comments from being looked at."""
        for app, watch in [found for found in self._watches if found[1].died()]:
            self._watches.remove((app, watch))
            self._say(app, "who looks at comments died; another goes on")
            self.add(app)
        for app, watch in self._watches:
            if watch.trouble and watch.trouble != self._told.get(app.repository.id):
                self._say(app, f"comments: {watch.trouble}")
            self._told[app.repository.id] = watch.trouble

    def poll_now(self) -> None:
        """Have the comments of all of them looked at now."""
        for _, watch in self._watches:
            watch.poll_now()

    def stop(self) -> None:
        """Look no more."""
        for _, watch in self._watches:
            watch.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()
