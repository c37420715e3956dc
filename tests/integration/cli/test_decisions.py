"""A person's decisions by one word each, `irontree answer`, and loops that need not be named."""

from __future__ import annotations

import argparse
import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console as RichConsole

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.cli import asking
from irontree.cli.console import Console
from irontree.cli.context import Context
from irontree.cli.follow import RichScreen
from irontree.cli.inbox import everything_waiting
from irontree.domain.decide import Halt
from irontree.domain.state import Phase
from irontree.services.loops import loop as loops
from irontree.services.record import read_world
from tests.support.repositories import git
from tests.support.soak import in_soak
from tests.support.store import LOOP_ID

OTHER = "2026-04-22-1500-bbbbbb"


def start(shell, loop_id: str = LOOP_ID, keys: tuple[str, ...] = ("parts", "parts-second-text")) -> None:
    loops.start(open_app(shell.root, origin=Origin("Ada")), loop_id, keys, intent="#3", query="issue #3", budget=5)


def phase(shell, number: int) -> str:
    return next(issue["phase"] for issue in shell("status", "--json").data["issues"] if issue["number"] == number)


# --- One word


def test_what_waits_is_accepted_with_a_note_of_several_words(judged):
    done = judged("accept", "3", "--note", "reads", "well")
    assert (done.code, phase(judged, 3)) == (0, Phase.VERIFIED)
    assert "accepted by" in done.out
    assert "reads well" in judged("show", "3", "--events", "--json").out


def test_work_is_sent_back_with_what_to_change(judged):
    done = judged("--json", "reject", "#3", "--note", "make it longer")
    assert (done.code, done.data["phase"]) == (0, Phase.READY)
    assert "make it longer" in done.data["events"][0]["text"]


def test_what_the_issue_does_not_offer_is_refused_with_what_it_does(judged):
    refused = judged("retry", "3")
    assert refused.code == 1
    assert "“retry” is no answer to “Your acceptance is needed”" in refused.err
    assert "`irontree accept 3` | `irontree reject 3 --note 'NOTE'`" in refused.err
    assert "has no open question" in judged("accept", "1").err


def test_after_a_block_retry_goes_on_and_where_attempts_are_used_up_it_allows_one(judged):
    for note in ("no", "no again"):
        judged("reject", "3", "--note", note)
        judged("run", "3")
        judged("verify", "3")
    before = judged("show", "3", "--json").data
    assert (before["phase"], before["attempts"]) == (Phase.TERMINAL, 2)
    assert "“reject” is no answer" in judged("reject", "3", "--note", "x").err
    assert judged("retry", "3").code == 0
    assert judged("show", "3", "--json").data["attempts"] == 3
    git(judged.root, "config", "user.email", "")
    judged("checkup", "pre-flight", "3")
    assert phase(judged, 3) == Phase.BLOCKED
    git(judged.root, "config", "--unset", "user.email")
    assert judged("retry", "3").code == 0
    assert phase(judged, 3) == Phase.READY


def test_a_task_is_left_out_of_its_loop_whether_it_asks_or_not(judged):
    refused = judged("skip", "3")
    assert "is in no open loop that could leave it out" in refused.err
    assert "`irontree accept 3`" in refused.err
    start(judged)
    assert "`irontree skip 3`" not in judged("status").out
    assert "irontree skip 3" in judged("status").out
    done = judged("skip", "3", "--json")
    assert (done.code, done.data["loop_id"]) == (0, LOOP_ID)
    assert "parts-second-text" in done.data["skipped"]


# --- Loops that need not be named


def test_the_loop_that_is_open_is_stopped_and_of_several_one_has_to_be_named(shell):
    assert "No loop is open." in shell("stop").err
    assert "No loop is open." in shell("resume", "--what-if").err
    start(shell)
    assert shell("resume", "--what-if", "--json").data["ends_with"]
    start(shell, OTHER, ("first-text",))
    refused = shell("stop")
    assert (refused.code, f"irontree stop {LOOP_ID}" in refused.err, f"irontree stop {OTHER}" in refused.err) == (
        1,
        True,
        True,
    )
    assert f"irontree resume {OTHER}" in shell("resume", "--what-if").err
    assert shell("stop", LOOP_ID, "--json").data == {"loop_id": LOOP_ID, "status": "cancelled"}
    assert shell("stop").out == f"Loop {OTHER} cancelled. Its issues keep their state: irontree status\n"
    assert shell("status", "--loops", OTHER, "--json").data["loop"]["status"] == "cancelled"


# --- irontree answer


def test_without_a_terminal_it_says_what_waits_and_ends_as_where_somebody_must_act(judged):
    told = judged("answer")
    assert told.code == 1
    assert "#3 Second text" in told.out
    assert "irontree accept 3" in told.out
    found = judged("answer", "--json")
    assert (found.code, [asked["issue"] for asked in found.data["questions"]]) == (1, [3])
    assert judged("answer", "3").out == told.out


def test_where_nothing_waits_that_is_said(shell):
    told = shell("answer")
    assert (told.code, told.out) == (0, "Nothing waits for you here.\n")
    assert "issue-1 has no open question: it is ready" in shell("answer", "1").err
    start(shell)
    assert f"loop {LOOP_ID} asks nothing" in shell("answer", LOOP_ID).err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["3", "levitate"], "“levitate” is no answer to “Your acceptance is needed”"),
        (["3", "send-back"], "for example irontree answer 3 reject:NOTE"),
        pytest.param(["3", "retry:51"], "`irontree accept 3`", marks=in_soak),
        pytest.param(["3", "approve:zzz"], "`irontree reject 3 --note 'NOTE'`", marks=in_soak),
        pytest.param(["9", "accept"], "issue-9", marks=in_soak),
    ],
)
def test_an_answer_that_cannot_be_taken_says_which_can(judged, words, said):
    refused = judged("answer", *words)
    assert (refused.code, said in refused.err) == (1, True), refused.err


@pytest.mark.parametrize("word", ["send-back:", "reject:"])
def test_an_answer_in_words_is_taken(judged, word):
    assert judged("answer", "3", word, "make", "it", "longer").code == 0
    assert "make it longer" in judged("show", "3", "--events", "--json").out


def test_a_loop_is_answered_by_its_id_and_goes_on_when_it_is_resumed(shell):
    start(shell)
    app = open_app(shell.root, origin=Origin("Ada"))
    for _ in range(5):
        loops.spend(app, LOOP_ID, "parts", "run")
    loops.halt(app, LOOP_ID, Halt("loop_budget_exhausted", None))
    done = shell("answer", LOOP_ID, "extend:20", "--json")
    assert done.data == {"loop_id": LOOP_ID, "answer": "extend", "next": f"irontree resume {LOOP_ID}"}
    assert f"{LOOP_ID}  0 of" in (listed := shell("status", "--loops").out)
    assert "waits to be resumed" in listed
    entity = shell("status", "--loops", LOOP_ID, "--json").data["loop"]
    assert (entity["status"], entity["budget_max_transitions"]) == ("running", 25)


def test_skip_and_stop_are_answers_too(judged):
    start(judged)
    assert "parts-second-text" in judged("answer", "3", "skip").out
    start(judged, OTHER, ("parts-second-text",))
    assert f"Loop {OTHER} cancelled" in judged("answer", "3", "stop").out


# --- At a terminal


class Person:
    """Somebody at a terminal, who types these lines."""

    def __init__(self) -> None:
        self.shown = io.StringIO()
        self._master, slave = os.openpty()
        self._keys = os.fdopen(slave, "r", encoding="utf-8")
        self.screen = RichScreen("Ada", console=RichConsole(file=self.shown, width=100), keys=NeverFlushed(self._keys))

    def type(self, *lines: str) -> None:
        os.write(self._master, "".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        self._keys.close()
        os.close(self._master)


class NeverFlushed(io.TextIOBase):
    """The keyboard, of which nothing that was typed before a question is dropped."""

    def __init__(self, keys: io.TextIOBase) -> None:
        self._keys = keys

    def fileno(self) -> int:
        return self._keys.fileno()

    def readline(self, *_: int) -> str:
        return self._keys.readline()


@pytest.fixture
def person() -> Iterator[Person]:
    made = Person()
    yield made
    made.close()


def answered(root: Path, person: Person, said: io.StringIO | None = None) -> int:
    app = open_app(root, origin=Origin("Ada"))
    context = Context(argparse.Namespace(wait=0, json=False), Console(io.StringIO(), said or io.StringIO()), root)
    return asking.ask(context, app, everything_waiting(app)[0], person.screen)


def test_what_waits_alone_is_asked_as_its_form_asks_it(judged, person):
    person.type("accept", "fine")
    assert answered(judged.root, person) == 0
    shown = person.shown.getvalue()
    assert ("accept this commit" in shown, "skip" in shown, "browser" in shown) == (True, False, False)
    assert phase(judged, 3) == Phase.VERIFIED


def test_of_several_it_is_asked_which_one(judged, person):
    start(judged, keys=("first-text", "parts", "parts-second-text"))
    loops.halt(open_app(judged.root, origin=Origin("Ada")), LOOP_ID, Halt("protocol_gap", None))
    person.type("7", "1", "send-back: longer")
    assert answered(judged.root, person) == 0
    shown = person.shown.getvalue()
    assert "2 wait for you" in shown
    assert "That is no number of them." in shown
    assert phase(judged, 3) == Phase.READY


def test_who_types_nothing_answers_nothing(judged, person):
    os.write(person._master, b"\x04")
    assert answered(judged.root, person) == 1
    assert read_world(open_app(judged.root, origin=Origin("Ada"))).state(3).phase is Phase.PENDING


def test_what_was_typed_is_not_lost_to_a_step_that_is_at_work(judged, person):
    app, said = open_app(judged.root, origin=Origin("Ada")), io.StringIO()
    held = app.driver.hold("issue-1, verify")
    held.__enter__()
    threading.Timer(2, lambda: held.__exit__(None, None, None)).start()
    person.type("accept", "fine")
    assert answered(judged.root, person, said) == 0
    assert said.getvalue().startswith("waiting until this has ended: issue-1, verify\n")
    assert phase(judged, 3) == Phase.VERIFIED


@pytest.mark.parametrize(
    "words", [["reject", "3", "--note", "NOTE"], ["retry", "3", "--note", "NOTE"], ["answer", "3", "reject:NOTE"]]
)
def test_a_placeholder_that_was_pasted_is_no_note(judged, words):
    """It would cost an attempt."""
    refused = judged(*words)
    assert refused.code in (1, 2)
    assert "NOTE" in refused.err
    assert judged("status", "--json").data["questions"]
