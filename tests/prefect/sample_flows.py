"""Small flows with one trait each."""

from __future__ import annotations

import asyncio
import ctypes
import time
from pathlib import Path

from prefect import flow
from prefect.states import Completed, State

from irontree.flows.gate import ask, make_form
from irontree.flows.server.programs import begin, finish_asked
from irontree.processes.containers import given_environment
from irontree.tasks.stages import in_thread

Decide = make_form("Decide", ["accept", "send back", "skip"], ["attempts"])
QUESTION = "## Issue 12\n\n| criterion | evidence |\n|---|---|\n| the sum is right | `make test` |"

PR_GET_DUMPABLE = 3


@flow
async def question(halt: int = 1) -> State[object]:
    """Asks one question and ends in a state that names the answer."""
    begin()
    answer, key = await ask(Decide, key=f"halt-{halt}", description=QUESTION)
    return Completed(name="Answered", message=f"{answer.decision} by {answer.approver} ({key})")


@flow
async def note(folder: str, text: str = "") -> None:
    """Leaves a line in a file."""
    begin()
    with (Path(folder) / "notes").open("a") as notes:
        notes.write(f"{text}\n")


@flow
async def long_step(folder: str) -> None:
    """A step that blocks until it is told to stop, and says that it was."""
    begin()

    def step(cancel):
        (Path(folder) / "started").touch()
        while not cancel.is_set():
            time.sleep(0.05)
        (Path(folder) / "stopped").touch()

    await in_thread(step)


@flow
async def short_steps(folder: str) -> State[object]:
    """Goes on step by step until the person has asked to finish; leaves the token that it was given.

    And whether other processes of this user could read its memory: 0 says no.
    """
    begin()
    readable = ctypes.CDLL(None).prctl(PR_GET_DUMPABLE)
    (Path(folder) / "starting").write_text(f"{given_environment().get('GITEA_TOKEN', '')} {readable}")
    (Path(folder) / "starting").rename(Path(folder) / "started")
    while not finish_asked():  # noqa: ASYNC110  (as the real flows do: they look at it between steps)
        await asyncio.sleep(0.05)
    return Completed(name="Halted", message="stopped after this step")
