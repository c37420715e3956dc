"""Ask for approval in the terminal, then drive the loop: serve the flows, follow them, answer their questions."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from irontree.app import App
from irontree.cli.answer import Prepared
from irontree.cli.console import Console, says_yes, show_markdown
from irontree.cli.context import Context, program_for
from irontree.cli.parser import INTERRUPTED, OK, REFUSED, argument
from irontree.cli.trial import offer_trial
from irontree.domain.plan import PlanNode
from irontree.domain.state import Phase
from irontree.domain.text import few, one_line, shell_path, shell_word
from irontree.domain.values import short_sha
from irontree.errors import ApprovalRefused, ConfigRefused, IrontreeError, ServerUnavailable, in_words
from irontree.flows.serve.child import Child
from irontree.flows.serve.session import TerminalSession
from irontree.flows.server.connection import (
    adopt,
    chosen_api_url,
    configured_environment,
    local_environment,
    state_folder,
)
from irontree.flows.server.links import link_on
from irontree.flows.server.private import LocalServer
from irontree.services.execution.steps import put_in_order
from irontree.services.loops.choice import replacement
from irontree.services.loops.loop import left_out, read_loop, read_loops
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.guard import require_unguarded
from irontree.services.proposals.proposal import Proposal
from irontree.services.proposals.sources import uncommitted_documents
from irontree.services.questions.questions import open_questions
from irontree.services.record import World, closed_by_users, read_world
from irontree.services.views.checkout import lagging, not_part_of_work, targets
from irontree.services.views.overview import SERVING, SKIPPED, IssueRow, overview, state_words

if TYPE_CHECKING:
    from irontree.cli.follow import PlainScreen, RichScreen, ShownSoFar


APPROVE: Final = argument("--approve", metavar="NAME", help="approve exactly what has this name, for scripts")


def ask_for_approval(
    context: Context,
    app: App,
    wanted: Proposal,
    *,
    given: str | None,
    loop_mode: bool,
    meanwhile: Callable[[], None] = lambda: None,
    offers_trial: bool = False,
) -> None:
    """Return once the user has approved exactly this; raises ApprovalRefused otherwise.

    *given* is the name of what was approved beforehand. *meanwhile* is called once it is clear that only an answer, if
    anything, is missing. With *offers_trial* the user may have the checks tried first.
    """
    if wanted.approved and given is None:
        meanwhile()
        context.console.write(f"{wanted.approved_in_words}; going on with it.\n")
        return
    if given is not None:
        wanted.require_named(given)
    asked_here = given is None and sys.stdin.isatty()
    text = approval_text(app, wanted, loop_mode=loop_mode, answer="yes" if asked_here else "")
    show_markdown(context.console, text)
    wanted.require_clear()
    require_unguarded(app, wanted)
    if given is None and not asked_here:
        raise ApprovalRefused(
            f"{wanted.what} is not approved, and nobody is here to ask",
            remedy=f"look at the plan above, then add --approve {wanted.name}{_by_comment(wanted)}",
        )
    meanwhile()
    if asked_here:
        configured = any(node.is_checked_as_configured for node, _ in wanted.todo)
        if offers_trial and configured and wanted.draft.policy.preflight:
            offer_trial(context.console, app, wanted.draft.policy)
        _ask(context.console, loop_mode=loop_mode)


def _by_comment(wanted: Proposal) -> str:
    """How somebody else approves it on the forge; empty for a document, or several issues."""
    number = wanted.due[0].number if len(wanted.due) == 1 and not wanted.draft.whole else 0
    return f"; or `irontree task adopt issue-{number}`, to have a comment on the issue ask for it" if number else ""


def _ask(console: Console, *, loop_mode: bool) -> None:
    prompt = "Approve and start the loop? [yes/no] " if loop_mode else "Approve and publish? [yes/no] "
    if not says_yes(console, prompt):
        raise ApprovalRefused("not approved; nothing was published")


def show_plan(context: Context, app: App, wanted: Proposal, data: Mapping[str, object]) -> int:
    """Show what would be approved, and how; *data* is its JSON form. Returns the exit code."""
    if context.options.json:
        context.console.dump(data)
        return OK
    flags = {"--keep-removed": wanted.choices.keep_removed, "--reopen-changed": wanted.choices.reopen_done}
    chosen = (flag for flag, given in flags.items() if given)
    program = program_for(context.folder.resolve())
    command = " ".join((program, "task", shell_path(wanted.intent), *chosen))
    show_markdown(context.console, approval_text(app, wanted, loop_mode=True, command=command))
    return OK


def show_published(context: Context, tasks: Iterable[tuple[int, str, PlanNode]]) -> int:
    """Show the tasks of a stepwise approval with their numbers and outcomes; returns the exit code."""
    ready = []
    for number, status, node in tasks:
        context.console.write(f"#{number}  {status:10} {one_line(node.title)}\n")
        if not node.depends_on and node.executability == "executable":
            ready.append(number)
    if ready:
        context.console.write(context.console.typed(f"Next: irontree run issue-{min(ready)}\n"))
    return OK


# --- Local mode: the server, this repository's flows, and the loop on screen (rulings, Local mode)


_HOW_TO_GO_ON: Final = {
    "halted": "A question is open: answer it with --answer as shown above, or at a terminal",
    "left": "The question stays open; to be asked again",
    "stopped": "Go on with",
    "called off": "Its run was cancelled in Prefect. Go on with",
    "viewed": "Look on again with",
}
"""The words printed before `irontree resume`, by how following the loop ended."""


@dataclass(slots=True)
class Server:
    """The Prefect server of this command, a configured one or the private one, and the process that will serve flows.

    Both start in the background. That process ends with the block.
    """

    folder: Path
    configured: str | None
    private: LocalServer | None
    _starting: threading.Thread | None = None
    _child: Child | None = None

    def start(self, app: App) -> None:
        """Start what is slow to start while the user reads. What fails is said to who waits for it."""
        if self._starting is None:
            if self.private:
                self.private.start()
            self._starting = threading.Thread(target=self._start, args=(app.repository.id,), daemon=True)
            self._starting.start()

    def _start(self, name: str) -> None:
        with suppress(ServerUnavailable):
            self._child = Child(name, environment=self.expected_environment(), folder=self.folder)

    def take_child(self) -> Child | None:
        """The process that will serve flows, once; `None` if none was started, or could be."""
        if self._starting:
            self._starting.join()
        taken, self._child = self._child, None
        return taken

    def expected_environment(self) -> Mapping[str, str]:
        """The settings for every process that uses it, before it answers. Raises ServerUnavailable."""
        if self.private is None:
            return configured_environment(os.environ, self.folder, self.configured or "")
        return local_environment(os.environ, self.folder, self.private.expected())

    def environment(self) -> Mapping[str, str]:
        """The same once it answers."""
        found = self.expected_environment()
        if self.private and self.private.wait_ready() != found["PREFECT_API_URL"]:
            raise ServerUnavailable("The private Prefect server has another address now.", remedy="Repeat the command.")
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.private:
            self.private.close()  # nobody waits any longer for one that does not come
        if child := self.take_child():
            child.stop()


@contextmanager
def local_server(app: App, *, detach: bool = False) -> Iterator[Server]:
    """The server for the block; a private one starts on the first call of `start` or `environment`.

    Raises ConfigRefused with *detach* (leave runs to a worker) if no server is configured and nothing serves the flows.
    """
    folder, configured = state_folder(), chosen_api_url(os.environ, app.preferences().api_url)
    if configured:
        with Server(folder, configured, None) as server:
            yield server
        return
    if detach and app.alive(SERVING).holder() is None:
        raise ConfigRefused(
            "--detach leaves the runs to a worker, but no Prefect server is configured and nobody serves here",
            remedy="start `irontree serve`, set PREFECT_API_URL or prefect.api_url, or leave --detach out",
        )
    with closing(LocalServer(folder, os.environ)) as private, Server(folder, None, private) as server:
        yield server


@dataclass
class Drive:
    """One loop, driven and followed from this terminal. `shoot` decides when to kill the flows once (demo)."""

    app: App
    server: Server
    console: Console
    prepared: list[Prepared] = field(default_factory=list)
    detach: bool = False
    shoot: Callable[[World], bool] | None = None

    def drive(self, loop_id: str) -> int:
        """Run until the loop has ended or waits for another user; returns the exit code."""
        from irontree.cli.follow import ShownSoFar as Shown

        shown, began = Shown.all_of(self.app, loop_id), time.monotonic()  # others work during the wait too
        self._tell_left_out(loop_id)
        self._say("Waiting for the Prefect server ...")
        if self.detach:
            return self._leave_to_worker(loop_id)
        self.server.start(self.app)
        if any(state.is_proposed for state in read_world(self.app).states.values()):
            put_in_order(self.app, f"loop {loop_id}")  # nobody is asked about a request that is merged by now
        while True:
            with self._session() as session:
                self._pass_on()
                status = self._follow(session, loop_id, shown, began)
                self._pass_on()
                following = replacement(self.app, loop_id) if status == "cancelled" else None
                if status not in ("stopped", "shot") and not following:
                    session.come_to_rest()
            if following:
                self._say(f"\nLoop {following.id} goes on in its place: other tasks were approved.\n")
                loop_id = following.id
                continue
            if status != "shot":
                return self._ending(loop_id, status)
            began, self.shoot = time.monotonic(), None
            self._say("\nShot the flows in the middle of that (SIGKILL). Starting again ...")

    def _session(self) -> TerminalSession:
        environment, folder = self.server.environment(), self.server.folder
        child, adopting = self.server.take_child(), partial(adopt, environment, folder)
        return TerminalSession(self.app, environment=environment, folder=folder, child=child, adopt=adopting)

    def _tell_left_out(self, loop_id: str) -> None:
        """Say what of the checkout work starts without, for it goes by what is committed (decision 0021)."""
        plans = read_world(self.app).plans
        ours = [plans[key] for key in read_loop(self.app, loop_id).keys if key in plans]
        documents = tuple({plan.spec_path for plan in ours})
        for target in dict.fromkeys(plan.policy.publish for plan in ours):
            for line in not_part_of_work(self.app, target, documents):
                self._say(line)

    def _pass_on(self) -> None:
        """Show what the private server says to its users."""
        for said in self.server.private.told() if self.server.private else ():
            self._say(said)

    def _begin(self, session: TerminalSession, loop_id: str, began: float) -> None:
        if not session.serves:
            self._say(f"{session.served_by} serves the flows; this terminal looks on.")
        page = session.begin(loop_id)
        self._say(f"Ready after {time.monotonic() - began:.1f} s.")
        if page:
            self._say(f"Watch it in the browser: {link_on(self.console.out, page, self.server.folder)}\n")

    def _follow(self, session: TerminalSession, loop_id: str, shown: ShownSoFar, began: float) -> str:
        """Follow the loop; returns its status, `left`, `stopped` or `viewed` (Ctrl-C), `called off`, or `shot`."""
        from irontree.cli.follow import Follower

        screen = self._screen()
        follower = Follower(self.app, session, loop_id, screen, self.prepared, self.app.origin.actor, shown, self.shoot)
        try:
            self._begin(session, loop_id, began)
            return follower.follow()
        except KeyboardInterrupt:
            return self._stop(session)
        finally:
            screen.close()

    def _stop(self, session: TerminalSession) -> str:
        if not session.serves:
            self._say(f"{session.served_by} goes on with it.")
            return "viewed"
        self._say("Stopping now; what the agent has done is kept.")
        try:
            session.stop()
        except IrontreeError as error:  # the next command settles it
            self._say(in_words(error))
        return "stopped"

    def _screen(self) -> PlainScreen | RichScreen:
        from irontree.cli.follow import PlainScreen, RichScreen
        from irontree.cli.looking import looks_at

        if self.console.draws and sys.stdin.isatty():
            return RichScreen(self.app.origin.actor, partial(looks_at, self.app))
        return PlainScreen(self.console.out, program_for(self.app.repository.root))

    def _ending(self, loop_id: str, status: str) -> int:
        """Show the loop's final tree and what to type next, but no address that is no longer served."""
        self._say("")
        for line in final_lines(self.app, loop_id):
            self._say(line)
        for answer in self.prepared:
            self._say(f"Not used, nothing asked for it: --answer {answer.text!r}")
        if status == "completed":
            self._tell_left_open(loop_id)
            self._tell_uncommitted(loop_id)
            self._tell_branches(loop_id)
            return OK
        if status == "cancelled":
            self._say(f"Loop {loop_id} cancelled.")
            return REFUSED
        self._say(f"{_HOW_TO_GO_ON[status]}: {program_for(self.app.repository.root)} resume {loop_id}")
        return REFUSED if status in ("halted", "called off") else INTERRUPTED

    def _tell_left_open(self, loop_id: str) -> None:
        """List issues that are done but still open on the forge: they would look like unfinished work."""
        if left := closed_by_users(self.app, read_world(self.app), read_loop(self.app, loop_id).keys):
            self._say(f"Done, and left for a person to close (issue.close_on_done): #{', #'.join(map(str, left))}")

    def _tell_uncommitted(self, loop_id: str) -> None:
        """Name documents that are done and that nobody else has."""
        for path in uncommitted_documents(self.app, read_loop(self.app, loop_id).keys):
            commit = f"git add {shell_path(path)} && git commit -m {shell_word(f'Add {path}')}"
            self._say(f"{path} is in no commit yet: {commit}")

    def _tell_branches(self, loop_id: str) -> None:
        """Say where work is that went to a branch of its own."""
        plans = read_world(self.app).plans
        ours = (plans[key].policy.publish for key in read_loop(self.app, loop_id).keys if key in plans)
        for publish in dict.fromkeys(each for each in ours if each.merge_into):
            there = "/".join(filter(None, (publish.remote, publish.target_branch)))
            self._say(f"The work is on {there}: git log {shell_word(f'{publish.merge_into}..{there}')}")

    def _leave_to_worker(self, loop_id: str) -> int:
        adopt(self.server.expected_environment(), self.server.folder)
        from irontree.flows.runs.recovery import close_overtaken, start_loop
        from irontree.flows.runs.runs import url_for

        run = start_loop(self.app, loop_id)
        close_overtaken(self.app)
        self._say(f"Loop {loop_id} is left to a worker: {url_for(run.id)}")
        return 0

    def _say(self, text: str) -> None:
        self.console.write(f"{text}\n")


# --- the issue tree with states ---------------------------------------------------------------------------


def final_lines(app: App, loop_id: str) -> Iterator[str]:
    """The loop's issues with their states, who else waits for the user, and what the user's checkout lacks."""
    world, (loops, _) = read_world(app), read_loops(app)
    loop = read_loop(app, loop_id)
    gone, ours = left_out(loop, world), frozenset(loop.entity.task_keys)
    rows = [row for row in overview(app).issues if row.task_key in ours]
    least = min((row.depth for row in rows), default=0)
    for row in rows:
        yield tree_line(row._replace(depth=row.depth - least), skipped=row.task_key in gone)
    asking = (question for question in open_questions(app, world, loops) if question.task_key not in ours)
    if others := [f"#{question.issue_number}" for question in asking if question.issue_number]:
        yield f"Outside this loop, {few(others)} {'waits' if len(others) == 1 else 'wait'} for you: irontree status"
    yield from (f"{what[0].upper()}{what[1:]}: {remedy}" for what, remedy in lagging(app, targets(world)))


_MARKS = {"done": "✓", "blocked": "!", "waiting for acceptance": "?", "failed, attempts used up": "✗", SKIPPED: "-"}


def tree_line(row: IssueRow, *, skipped: bool = False) -> str:
    """`✓ #3 Parse amounts  done  4f2a9c1`."""
    words = state_words(row, skipped=skipped)
    attempts = f"attempts {row.attempts}" if row.attempts and row.phase != Phase.DONE else ""
    facts = "  ".join(part for part in (words, attempts, short_sha(row.code_ref)) if part)
    return f"{'  ' * row.depth}{_MARKS.get(words, '·')} #{row.number} {row.title}  {facts}"
