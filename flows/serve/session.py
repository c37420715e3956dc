"""A terminal's session with the flows of one repository: serve them, start them, answer their questions.

Importing this module imports Prefect: adopt the settings first (`irontree.flows.server.connection.adopt`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from irontree.app import App
from irontree.domain.decide import COMMENTS_EVERY
from irontree.errors import AnswerRefused, Busy, IrontreeError, ServerUnavailable
from irontree.flows.runs.forms import FormQuestion as Asked
from irontree.flows.runs.forms import answer_form, open_question
from irontree.flows.runs.recovery import NOBODY_STARTS, WORKERS_START, mark_dead_runs, newest_run, take_up, tidy
from irontree.flows.runs.runs import RunInfo, connect, deployment_id, find_run, issue_key, taken_up, url_for
from irontree.flows.serve.child import Child
from irontree.flows.serve.chores import CommentWatch
from irontree.flows.serve.serving import Serving, deployments_of
from irontree.flows.server.connection import ServerState
from irontree.services.answers.answers import Answer, validate
from irontree.services.execution.steps import settle_leftovers
from irontree.services.questions.questions import Question
from irontree.services.record import read_world
from irontree.services.views.overview import SERVING

# --- Serving one repository's flows, shared by terminals and the service


FREE_SECONDS: Final = 2.0
DRIVER_SECONDS: Final = 10.0
LOOK_EVERY: Final = 0.2


@contextmanager
def held(app: App, who: str, *, private: bool) -> Iterator[None]:
    """Hold the right to serve *app*'s flows for the block; raises Busy if another process has it.

    The block must end the processes that it starts: their unfinished runs are then marked as crashed.
    """
    with app.alive(SERVING).hold(who):
        tidy(app)
        mark_dead(app, private=private)
        try:
            yield
        finally:
            with suppress(IrontreeError):  # the server is away, or the folder gone: the lock is released all the same
                _tell_what_became(app, private=private)


def mark_dead(app: App, *, private: bool) -> None:
    """Mark runs without a process as crashed; the caller holds the SERVING lock.

    Only workers of a configured server may be starting a run beside us.
    """
    mark_dead_runs(app, grace=NOBODY_STARTS if private else WORKERS_START)


def at_rest(app: App) -> bool:
    """Whether no process works on a run of this repository."""
    with connect() as client:
        return not taken_up(client, app.repository.id)


def settle(app: App) -> None:
    """Settle by evidence what processes killed in the middle of a step left (R11, R13).

    Raises Busy while a command is running here, and what a recovery raises: the next command settles it then.
    """
    with app.driver.hold("stopped, recover", wait_seconds=DRIVER_SECONDS):
        settle_leftovers(app)
    app.repository.back_up()


def is_private(environment: Mapping[str, str], folder: Path) -> bool:
    """Whether *environment* names the private server in *folder*, which only our own workers use."""
    address = ServerState(folder).address()
    return address is not None and address.api_url == environment.get("PREFECT_API_URL")


def _tell_what_became(app: App, *, private: bool) -> None:
    """Mark the runs of killed processes as crashed, retrying until each has released its lock."""
    deadline = time.monotonic() + FREE_SECONDS
    mark_dead(app, private=private)
    while not at_rest(app) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY)
        mark_dead(app, private=private)


REST_SECONDS: Final = 15.0
OTHERS_SECONDS: Final = 60.0
"""Seconds to wait for a terminal that has just begun to serve: on a busy machine that takes a while."""


class TerminalSession:
    """One terminal's hold on the flows. `serves` is False for a viewer: another terminal serves them already.

    The serving terminal also polls comments, every *comments_every*. A *child* that waits for its order serves; else a
    new one.
    """

    def __init__(
        self,
        app: App,
        *,
        environment: Mapping[str, str],
        folder: Path,
        child: Child | None = None,
        comments_every: timedelta = COMMENTS_EVERY,
    ) -> None:
        self._app = app
        self._environment = environment
        self._folder = folder
        self._child = child
        self._held = ExitStack()
        self._serving: Serving | None = None
        self._comments = CommentWatch.of(app, every=comments_every)

    @property
    def serves(self) -> bool:
        """Whether this process serves the flows."""
        return self._serving is not None

    @property
    def served_by(self) -> str:
        """The command that serves the flows, in words for a viewer."""
        holder = self._app.alive(SERVING).holder()
        return f"`{holder.what}` (process {holder.pid})" if holder else "nobody"

    def __enter__(self) -> Self:
        if self._child:
            self._held.callback(self._child.stop)
        try:
            private = is_private(self._environment, self._folder)
            self._held.enter_context(held(self._app, "irontree task", private=private))
        except Busy:
            self._held.close()
            return self
        with self._held:
            self._serving = Serving(
                deployments_of(self._app), environment=self._environment, folder=self._folder, child=self._child
            )
            self._held.callback(self._serving.stop)
            self._held.enter_context(self._comments)
            self._held = self._held.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()

    def wait_ready(self) -> None:
        """Wait until runs would be taken, by us or the serving terminal; raises ServerUnavailable."""
        if self._serving:
            self._serving.wait_ready()
            return
        deadline = time.monotonic() + OTHERS_SECONDS
        with connect() as client:
            while time.monotonic() < deadline:
                with suppress(ServerUnavailable):  # not served yet
                    deployment_id(client, "loop", self._app.repository.id)
                    return
                time.sleep(LOOK_EVERY)

    def set_going(self, loop_id: str) -> RunInfo | None:
        """Ensure that the right run of this loop, according to the log, works or asks; `None` if the loop has ended.

        Raises Busy while another loop is running in this repository (R19).
        """
        active = self._app.lease.holder()
        if active and active.what != loop_id:
            raise Busy(f"loop {active.what} is at work here", remedy=f"look on: irontree resume {active.what}")
        return take_up(self._app, loop_id)

    def run_of_loop(self, loop_id: str) -> RunInfo | None:
        """The newest run of this loop; None after Prefect's database was deleted."""
        return newest_run(self._app, loop_id)

    def _run_that_asks(self, question: Question) -> RunInfo | None:
        """The suspended run that shows this question's form; None if none does (yet)."""
        if question.issue_number is None:
            return self.run_of_loop(question.loop_id or "")
        state = read_world(self._app).state(question.issue_number)
        with connect() as client:
            return find_run(client, issue_key(self._app, state))

    def asked(self, question: Question) -> Asked | None:
        """The form of this question; `None` until its run has suspended: the log has a halt before Prefect does."""
        run = self._run_that_asks(question)
        if run is None:
            return None
        with connect() as client:
            found = open_question(client, run.id)
        return found if found and found.key.startswith(question.key) else None

    def answer(self, question: Question, answer: Answer, asked: Asked) -> None:
        """Answer as the browser form does, which has no field for what its choices do not need.

        Raises AnswerRefused if the answer does not fit or came too late.
        """
        choice = validate(question, answer)
        if choice.label not in asked.choices:
            offered = [one.typed for one in question.rule.choices if one.label in asked.choices]
            raise AnswerRefused(
                f"“{choice.typed}” is not offered at “{question.rule.title}” now",
                remedy=f"One of: {', '.join(offered)}.",
            )
        extra = {"count": answer.count, "amount": answer.amount, "revision": answer.revision}
        payload: dict[str, object] = {"decision": choice.label, "approver": answer.by, "note": answer.note}
        payload |= {need: value for need, value in extra.items() if need in choice.needs}
        with connect() as client:
            answer_form(client, asked.run_id, payload, key=asked.key)

    def url(self, run_id: UUID) -> str:
        """The page of that run."""
        return url_for(run_id)

    def finish(self) -> None:
        """Ask the flows to stop after their current step."""
        self._comments.stop()
        if self._serving:
            self._serving.finish()

    def alive(self) -> bool:
        """Whether the flows are still served, by us or by the terminal that we are viewing."""
        if self._serving:
            return self._serving.alive()
        return self._app.alive(SERVING).holder() is not None

    def how_it_ended(self) -> str:
        """How what served the flows ended, in words; of what another terminal started, only that it did."""
        return self._serving.how_it_ended() if self._serving else "has ended"

    def at_rest(self) -> bool:
        """Whether no process works on a run of this repository."""
        return at_rest(self._app)

    def come_to_rest(self) -> None:
        """Let finished flows report their end to Prefect: if killed before, their runs would stay Running for ever."""
        deadline = time.monotonic() + REST_SECONDS
        while self.serves and not self.at_rest() and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)

    def stop(self) -> None:
        """End all flow processes now and settle by evidence what they left (R11, R13).

        Raises Busy while a command works here, and what a recovery raises: the next command settles it then.
        """
        if not self._serving:
            return
        self._serving.stop()
        settle(self._app)
