"""What a person at a terminal may look at before an answer: the parts of a question, and the work itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.panel import Panel

from irontree.app import App
from irontree.domain.text import printable, unmarked
from irontree.errors import IrontreeError, in_words
from irontree.flows.server.connection import strip
from irontree.processes.containers import without_credentials
from irontree.processes.running import run_here
from irontree.services.questions.pages import parts_of, question_text
from irontree.services.questions.questions import Question
from irontree.services.record import read_world

TRY_KEY: Final = "t"
WAIT_SECONDS: Final = 10
"""How long another process may keep the driver lock before somebody is told to try again."""


class Look(NamedTuple):
    """Something to look at: the key for it, what it is, and how it is shown."""

    key: str
    title: str
    show: Callable[[Console], None]


def show_text(console: Console, title: str, text: str) -> None:
    """Show a piece of Markdown in a frame; the marks are needed until it is parsed, and none is copied from it."""
    with console.capture() as drawn:
        console.print(Panel(Markdown(printable(text), hyperlinks=False), title=escape(title), border_style="yellow"))
    console.file.write(unmarked(drawn.get()))


def looks_at(app: App, question: Question) -> tuple[Look, ...]:
    """The parts of the question that are not shown at once, and a shell in a checkout of the commit, if any."""
    looks = list(_details(question_text(app, question)))
    state = read_world(app).state(question.number) if question.issue_number is not None else None
    if state and state.has_code and state.anchor:
        sha = state.anchor
        looks.append(Look(TRY_KEY, f"try it: a shell at {sha[:12]}", lambda console: _try(console, app, question, sha)))
    return tuple(looks)


def _details(text: str) -> Iterator[Look]:
    """Each by a letter of its title that no other has, the first of a word if there is one."""
    taken = {TRY_KEY}
    for title, part in parts_of(text).details.items():
        letters = [word[0] for word in reversed(title.split())] + list(title)
        key = next((letter for letter in map(str.lower, letters) if letter.isalpha() and letter not in taken), "")
        if key:
            taken.add(key)
            yield Look(key, title, lambda console, title=title, part=part: show_text(console, title, part))  # type: ignore[misc]


def _try(console: Console, app: App, question: Question, sha: str) -> None:
    """Open the user's shell where the commit is checked out and set up; what they do there counts for nothing."""
    world = read_world(app)
    state = world.state(question.number)
    workspace = app.repository.workspace("try", world.plan(state).policy.workspace)
    try:
        console.print("Checking it out and setting it up ...")
        with app.driver.hold(f"try {sha[:12]}", wait_seconds=WAIT_SECONDS):
            workspace.prepare(sha, published=state.began_from)
        console.print(f"In {workspace.path}. Nothing that you change there is kept. Leave with `exit`.")
        own = without_credentials(strip(os.environ))  # what runs there may be the agent's
        run_here([own.get("SHELL") or "/bin/sh"], workspace.path, own)
    except IrontreeError as error:
        console.print(f"[yellow]{escape(in_words(error))}[/]")
