"""A terminal's session with the flows of one repository: serve them, set a loop going, end them.

Prefect is imported when the server is first asked something, and not while it starts: to import it takes a second of a
processor, on which the server waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from irontree.app import App
from irontree.domain.decide import COMMENTS_EVERY
from irontree.errors import Busy, ServerUnavailable
from irontree.flows.serve.child import Child
from irontree.flows.server.connection import ServerState
from irontree.services.execution.steps import settle_leftovers
from irontree.services.loops.choice import refuse_another
from irontree.services.views.overview import SERVING

if TYPE_CHECKING:
    from irontree.flows.serve.asking import ServerRuns
    from irontree.flows.serve.chores import CommentWatch

DRIVER_SECONDS: Final = 10.0
READY_SECONDS: Final = 60.0


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


class TerminalSession:
    """One terminal's hold on the flows. `serves` is False for a viewer: another terminal serves them already.

    The serving terminal also polls comments, every *comments_every*. A *child* that waits for its order serves; else a
    new one. *adopt* is called before Prefect is imported.
    """

    def __init__(
        self,
        app: App,
        *,
        environment: Mapping[str, str],
        folder: Path,
        child: Child | None = None,
        comments_every: timedelta = COMMENTS_EVERY,
        adopt: Callable[[], None] = lambda: None,
    ) -> None:
        self._app = app
        self._environment = environment
        self._folder = folder
        self._child = child
        self._private = is_private(environment, folder)
        self._comments_every = comments_every
        self._adopt = adopt
        self._comments: CommentWatch | None = None
        self._ending = False
        self._held = ExitStack()
        self._serving: Child | None = None

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
        with ExitStack() as held:
            if self._child:
                held.callback(self._child.stop)
            try:
                held.enter_context(self._app.alive(SERVING).hold("irontree task"))
            except Busy:
                return self
            held.callback(self._tell_what_became)
            name = self._app.repository.id
            self._serving = self._child or Child(name, environment=self._environment, folder=self._folder)
            held.callback(self._serving.stop)
            self._held = held.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()

    @cached_property
    def runs(self) -> ServerRuns:
        """What the server knows of our runs. The first use imports Prefect; where we serve, it has comments polled."""
        self._adopt()
        from irontree.flows.serve.asking import ServerRuns  # noqa: PLC0415  (Prefect: see above)
        from irontree.flows.serve.chores import CommentWatch  # noqa: PLC0415

        runs = ServerRuns(self._app, self._serving.wake if self._serving else lambda: None)
        runs.close_overtaken()
        runs.start_requests()
        if self.serves and not self._ending:
            self._comments = self._held.enter_context(CommentWatch.of(self._app, every=self._comments_every))
        return runs

    def _tell_what_became(self) -> None:
        self._adopt()
        from irontree.flows.serve.holding import tell_what_became  # noqa: PLC0415  (Prefect)

        tell_what_became(self._app, private=self._private)

    def begin(self, loop_id: str | None = None) -> str:
        """Have runs taken up and that of the loop work or ask; the page of its run, unless the loop has ended.

        Raises ServerUnavailable, and Busy while another loop is running in this repository (R19).
        """
        if loop_id:
            refuse_another(self._app, loop_id)
        if self._serving:
            return self._begin_here(self._serving, loop_id)
        self.runs.wait_until_served()
        run = self.runs.set_going(loop_id) if loop_id else None
        return self.runs.url(run.id) if run else ""

    def _begin_here(self, child: Child, loop_id: str | None) -> str:
        root = str(self._app.repository.root)
        child.order({"by": "terminal", "repository": root, "private": self._private, "loop": loop_id})
        answer = child.answer(READY_SECONDS)
        if refused := answer.get("refused"):
            raise ServerUnavailable(refused, remedy="Go on with `irontree resume`.")
        return str(answer["page"])

    def finish(self) -> None:
        """Ask the flows to stop after their current step."""
        self._ending = True
        if self._comments:
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

    def come_to_rest(self) -> None:
        """Let flows that we serve report their end to Prefect."""
        self._ending = True
        if self.serves:
            self.runs.come_to_rest()

    def stop(self) -> None:
        """End all flow processes now and settle by evidence what they left (R11, R13).

        Raises Busy while a command works here, and what a recovery raises: the next command settles it then.
        """
        if self._serving:
            self._serving.stop()
            settle(self._app)
