"""What a terminal asks a server about the runs of its repository, and tells it.

Importing this module imports Prefect: adopt the settings first (`irontree.flows.server.connection.adopt`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from irontree.app import App
from irontree.errors import AnswerRefused, ServerUnavailable
from irontree.flows.runs.forms import FormQuestion as Asked
from irontree.flows.runs.forms import answer_form, open_question
from irontree.flows.runs.recovery import close_overtaken, newest_run, take_up
from irontree.flows.runs.requests import start_requests
from irontree.flows.runs.runs import RunInfo, connect, deployment_id, find_run, issue_key, url_for
from irontree.flows.serve.holding import LOOK_EVERY, at_rest
from irontree.services.answers.answers import Answer, validate
from irontree.services.loops.choice import refuse_another
from irontree.services.questions.questions import Question
from irontree.services.record import read_world

REST_SECONDS: Final = 15.0
OTHERS_SECONDS: Final = 60.0
"""Seconds to wait for a terminal that has just begun to serve: on a busy machine that takes a while."""


@dataclass(frozen=True, slots=True)
class ServerRuns:
    """The runs of one repository, as its server knows them."""

    app: App
    wake: Callable[[], None]
    """Has whoever serves them look for scheduled ones."""

    def wait_until_served(self) -> None:
        """Wait until another process takes up runs of this repository."""
        deadline = time.monotonic() + OTHERS_SECONDS
        with connect() as client:
            while time.monotonic() < deadline:
                with suppress(ServerUnavailable):  # not served yet
                    deployment_id(client, "loop", self.app.repository.id)
                    return
                time.sleep(LOOK_EVERY)

    def close_overtaken(self) -> None:
        """End suspended runs that ask what is asked no more."""
        close_overtaken(self.app)

    def start_requests(self) -> None:
        """Have members of the team asked what they are to be asked."""
        if start_requests(self.app):
            self.wake()

    def set_going(self, loop_id: str) -> RunInfo | None:
        """Ensure that the right run of this loop, according to the log, works or asks; `None` if the loop has ended.

        Raises Busy while another loop is running in this repository (R19).
        """
        refuse_another(self.app, loop_id)
        found = take_up(self.app, loop_id)
        self.wake()
        return found

    def run_of_loop(self, loop_id: str) -> RunInfo | None:
        """The newest run of this loop; None after Prefect's database was deleted."""
        return newest_run(self.app, loop_id)

    def _run_that_asks(self, question: Question) -> RunInfo | None:
        """The suspended run that shows this question's form; None if none does (yet)."""
        if question.issue_number is None:
            return self.run_of_loop(question.loop_id or "")
        state = read_world(self.app).state(question.issue_number)
        with connect() as client:
            return find_run(client, issue_key(self.app, state))

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
        self.wake()

    def url(self, run_id: UUID) -> str:
        """The page of that run."""
        return url_for(run_id)

    def at_rest(self) -> bool:
        """Whether no process works on a run of this repository."""
        return at_rest(self.app)

    def come_to_rest(self) -> None:
        """Let finished flows report their end to Prefect: if killed before, their runs would stay Running for ever."""
        deadline = time.monotonic() + REST_SECONDS
        while not self.at_rest() and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)
