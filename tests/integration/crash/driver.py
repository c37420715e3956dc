"""The program that is killed: it works through a small document with real adapters, and dies where it is told to.

It forks for each job on stdin, so that all is imported once: a line says the new life's process id, and one its end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from irontree.app import App, Origin
from irontree.bootstrap import _renderer, open_app
from irontree.domain.text import secret_values
from irontree.services.answers.answers import Answer
from irontree.services.answers.approve import approve
from irontree.services.loops.loop import Loop, read_loops
from irontree.services.proposals.proposal import ApprovalChoices
from irontree.services.proposals.sources import propose
from irontree.services.questions.questions import Question
from irontree.services.record import read_world
from irontree.services.toolchain.asking import answer_request
from irontree.services.toolchain.looking import DiscussionLookout
from irontree.services.work.standing import due_requests
from tests.integration.crash.laboratory import CHANGED, CHANGED_AGAIN, Life
from tests.support.hostile_texts import ORDINARY
from tests.support.own_branch import propose_on_own_branch
from tests.support.repositories import commit, git
from tests.support.store import asked_agent
from tests.support.views import TEMPLATES, case
from tests.support.watching import Side, Watched, watched_app
from tests.support.world import accepts, drive, sends_back

RENDERED = ("briefs/", "comments/", "issues/", "prompts/", "reports/")
"""The folders of templates that a life without people at a page renders."""


@dataclass(frozen=True)
class Job:
    """One life of the driver in *root*; *kill* is the number of an effect (from 1) or its kind, and the side of it.

    With *others*, somebody else publishes just before we do, once.
    """

    root: str
    kill: tuple[int | str, Side] | None = None
    others: bool = False
    life: Life = "begin"


class Reaper:
    """Counts effects, and kills its own process at the one it was told."""

    def __init__(self, kill: tuple[int | str, Side] | None, before_publication: Callable[[], None]) -> None:
        self.effects: list[str] = []
        self._kill = kill
        self._before_publication = before_publication

    def watch(self, what: str, port: Any, methods: Collection[str]) -> Any:
        def tell(method: str, side: Side) -> None:
            if side == "before":
                self.effects.append(f"{what}.{method}")
            if (method, side) == ("publish", "before"):
                self._before_publication()
            effect = f"{what}.{method}"
            if self._kill in {(len(self.effects), side), (effect, side)}:
                os.kill(os.getpid(), signal.SIGKILL)

        return Watched(port, methods, tell)


def person(app: App) -> Any:
    """Sends the first attempt of a manual task back and accepts the second, however often the driver dies."""

    def answer(question: Question) -> Answer | None:
        assert question.rule.reason == "pending_acceptance", question
        state = read_world(app).states[question.task_key or ""]
        return sends_back("prettier, please") if state.attempt_count == 1 else accepts("fine")

    return answer


def begin(app: App) -> Loop:
    """The loop over the document, approved and published."""
    return approve_as_it_is(app, ApprovalChoices())


def begin_on_own_branch(app: App) -> Loop:
    """The same on a branch that is not there yet."""
    proposal = propose_on_own_branch(app)
    with app.driver.hold("publish"):
        return approve(app, proposal, proposal.name, "ada")


def approve_as_it_is(app: App, choices: ApprovalChoices) -> Loop:
    proposal = propose(app, app.repository.root / "SPEC.md", choices=choices)
    with app.driver.hold("publish"):
        return approve(app, proposal, proposal.name, "ada")


def change(app: App) -> Loop:
    """The loop over the changed document, finished work reopened; the document is changed once more by then."""
    document = app.repository.root / "SPEC.md"
    known = [found for found in read_loops(app)[0] if "extra" in found.entity.task_keys]
    if not known:
        document.write_text(CHANGED)
        known = [approve_as_it_is(app, ApprovalChoices(reopen_done=True))]
    document.write_text(CHANGED_AGAIN)
    return known[-1]


def changed_mind(app: App) -> Any:
    """Opens again what was closed, and approves what the document says by then."""

    def answer(question: Question) -> Answer | None:
        if question.rule.reason == "blocked":
            return Answer("go-on", "ada")
        assert question.rule.reason == "reapproval_required", question
        return Answer("approve", "ada", revision=propose(app, app.repository.root / "SPEC.md").name)

    return answer


LIVES = {"begin": (begin, person), "own": (begin_on_own_branch, person), "change": (change, changed_mind)}


def live(job: Job) -> list[str]:
    """Everything from the document to the goal; the effects, in order."""
    root = Path(job.root)
    reaper = Reaper(job.kill, lambda: job.others and push_from_elsewhere(root.parent))
    app = watched_app(open_app(root, origin=Origin("ada", "command")), reaper.watch)
    if job.life == "asked":
        answer_request(app, asked_agent().key)
        return reaper.effects
    if job.life == "discussed":
        talk_over(app)
        return reaper.effects
    start, somebody = LIVES[job.life]
    halt = drive(app, start(app).id, somebody(app))
    assert halt.reason == "goal_reached", halt
    return reaper.effects


def talk_over(app: App) -> None:
    """Have members asked and answered until nothing is left to do."""
    lookout = DiscussionLookout()
    while lookout.look(app).asked or due_requests(app):
        for request in due_requests(app):
            answer_request(app, request.key)


def push_from_elsewhere(place: Path) -> None:
    """Publish a file on top of what is there, unless it was done."""
    other = place / "other"
    if not other.is_dir():
        git(place, "clone", "--quiet", "remote.git", "other")
        commit(other, "elsewhere.txt", "theirs\n", "from elsewhere")
    git(other, "push", "--quiet", "origin", "HEAD:main", check=False)


def jobs() -> Iterator[Job]:
    for line in sys.stdin:
        values = json.loads(line)
        kill = tuple(values["kill"]) if values["kill"] else None
        yield Job(**{**values, "kill": kill})


def prepare() -> None:
    """Load and compile what each life needs and commands load late: a life may be shorter than that takes."""
    for late in ("adapters", "agents.program", "checks.shell", "forges.local", "repository.reading"):
        import_module(f"irontree.{late}")
    renderer = _renderer(secret_values(os.environ))
    for template in TEMPLATES:
        if template.startswith(RENDERED):
            renderer.render(template, **case(template, ORDINARY))


def serve() -> None:
    """Fork for each job; say how its life ended, and what it did."""
    prepare()
    for job in jobs():
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _end_with(writing, job)
        os.close(writing)
        _tell(pid=child)
        with os.fdopen(reading) as answer:
            said = answer.read()
        _, status = os.waitpid(child, 0)
        _tell(code=os.waitstatus_to_exitcode(status), said=said)


def _tell(**words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def _end_with(writing: int, job: Job) -> None:
    code = 1
    os.environ["XDG_CACHE_HOME"] = str(Path(job.root).parent / "cache")
    os.environ["XDG_STATE_HOME"] = str(Path(job.root).parent / "state")
    try:
        with os.fdopen(writing, "w") as out:
            try:
                out.write(json.dumps(live(job)))
                code = 0
            except BaseException:  # noqa: BLE001 - the one boundary of this program
                out.write(traceback.format_exc())
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve()
