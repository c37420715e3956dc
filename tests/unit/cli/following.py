"""A follower of a loop in a scene: what it is asked to set going, the pure driver does at once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from irontree.cli.answer import prepare
from irontree.cli.follow import Follower, ShownSoFar
from irontree.errors import AnswerRefused
from irontree.flows.runs.forms import FormQuestion as Form
from irontree.flows.runs.runs import RunInfo
from irontree.services.answers.answers import Answer, answer_issue, answer_loop
from irontree.services.loops import loop as loops
from irontree.services.loops.loop import Loop
from irontree.services.questions.questions import Question
from tests.support.world import Scene, drive, nobody


def run(state: str, name: str = "", message: str = "") -> RunInfo:
    return RunInfo(uuid.UUID(int=1), "loop", state, name or state.title(), message, {}, None)


@dataclass
class Terminal:
    """Stands for a session: what it is asked to set going, the pure driver does at once."""

    scene: Scene
    loop: Loop
    serves: bool = True
    served: bool = True
    resting: bool = True
    loop_run: RunInfo | None = field(default_factory=lambda: run("RUNNING"))
    shows_forms: bool = True
    finishing: bool = False
    given: list[Answer] = field(default_factory=list)
    refused: int = 0

    @property
    def runs(self) -> Terminal:
        return self

    def alive(self) -> bool:
        return self.served

    def how_it_ended(self) -> str:
        return "was killed by SIGKILL. Why"

    def at_rest(self) -> bool:
        return self.resting

    def finish(self) -> None:
        self.finishing = True

    def run_of_loop(self, _: str) -> RunInfo | None:
        return self.loop_run

    def set_going(self, _: str) -> None:
        self.loop_run, self.shows_forms = run("RUNNING"), True
        drive(self.scene.app, self.loop.id, nobody)

    def asked(self, question: Question) -> Form | None:
        return Form(uuid.UUID(int=2), f"{question.key}-{self.refused}", "# ?", {}) if self.shows_forms else None

    def url(self, _: uuid.UUID) -> str:
        return "http://127.0.0.1:4280/runs/flow-run/2"

    def answer(self, question: Question, answer: Answer, _: Form) -> None:
        try:
            self._record(question, answer)
        except AnswerRefused:
            self.refused += 1
            raise
        self.given.append(answer)
        if loops.read_loop(self.scene.app, self.loop.id).entity.status != "cancelled":
            loops.resume(self.scene.app, self.loop.id)
            drive(self.scene.app, self.loop.id, nobody)

    def _record(self, question: Question, answer: Answer) -> None:
        app = self.scene.app
        if question.issue_number is None:
            answer_loop(app, self.loop.id, answer)
            return
        with app.driver.hold("answer"):
            answer_issue(app, question.issue_number, answer, self.loop.id)


@dataclass
class Person:
    """A screen with somebody in front of it who has these answers, and may do something before looking at it."""

    answers: list[Answer] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    asked: int = 0
    before: list[Callable[[], None]] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.lines.append(text)

    def busy(self, _: str) -> None:
        if self.before:
            self.before.pop(0)()

    def ask(self, question: Question, asked: Form, url: str, still_open: Callable[[], bool]) -> Answer | None:
        assert still_open()
        self.asked += 1
        return replace(self.answers.pop(0), question=question.key) if self.answers else None


def follower_of(scene: Scene, spec: str, *prepared: str, person: Person | None = None, driven: bool = True) -> Follower:
    """A follower of a loop over that document, driven as far as it goes without anybody."""
    loop = scene.start(spec)
    shown = ShownSoFar.all_of(scene.app, loop.id)
    if driven:
        scene.drive(loop)
    return Follower(
        app=scene.app,
        session=Terminal(scene, loop),
        loop_id=loop.id,
        screen=person or Person(),
        prepared=list(prepare(prepared)),
        person="Ada",
        shown=shown,
        look_every=0,
        look_after_every=0,
    )
