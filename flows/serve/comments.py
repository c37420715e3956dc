"""Comments that answer: a look every half minute at each served repository, and what waited for them goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Final, Self

from irontree.app import App, Origin
from irontree.domain.decide import COMMENTS_EVERY, next_look
from irontree.errors import IrontreeError, ServerUnavailable, in_words
from irontree.flows.runs.recovery import start_what_waits, wake_overtaken
from irontree.flows.serve.chores import Say
from irontree.services.answers.comments import COMMENT, CommentResult, look
from irontree.tasks.stages import app_of

LETS_GO_SECONDS: Final = 10.0

LookForComments = Callable[[], tuple[CommentResult, ...]]


def take_comments(app: App) -> tuple[CommentResult, ...]:
    """Take what stands in comments, and let the runs go on that waited for it. Adopt Prefect's settings first.

    Where no server answers, or it refuses what we ask, the runs start later: the answers are recorded, and the janitor
    goes by the log.
    """
    found = look(app)
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
