"""What waits for a person in a repository: each open question, since when, where, and the commands that answer it.

Values, so that a terminal, a page and an artifact show the same. Reads only; takes no lock (R3).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irontree.app import App
from irontree.domain.gates import AskedApproval
from irontree.ports import Renderer
from irontree.services.loops.loop import Loop, read_loops
from irontree.services.questions.commands import ListedQuestion, program_for
from irontree.services.questions.questions import list_questions
from irontree.services.record.world import World, read_world
from irontree.services.views.pages import InboxRowView, InboxView

# --- What waits for a person in a repository: each open question with since when, where, and the commands that answ


FormUrl = Callable[[str], str]
"""From the id of a flow run to its page."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One open question. *since* is ISO 8601, UTC; *issue_url* and *form_url* are None where there is no such page."""

    root: Path
    repository_id: str
    question: ListedQuestion
    since: str | None = None
    issue_url: str | None = None
    form_url: str | None = None

    @property
    def repository(self) -> str:
        """What people call it."""
        return self.root.name

    @property
    def key(self) -> tuple[str, int | None, str | None, str, str, str | None]:
        """What tells it from every other question, also from an earlier one about the same issue."""
        asked = self.question
        return (self.repository_id, asked.number, asked.loop_id, asked.document, asked.reason, self.since)

    @property
    def commands(self) -> Iterator[tuple[str, str]]:
        """Each choice in words, and the command that makes it from where we are."""
        for choice, command in self.question.answers:
            yield choice.label, self._from_here(command)

    @property
    def look(self) -> str:
        """The command that shows what would be approved, from where we are; empty where nothing is to be approved."""
        return self._from_here(self.question.look) if self.question.look else ""

    def _from_here(self, command: str) -> str:
        return f"{program_for(self.root)}{command.removeprefix('irontree')}"

    def as_json(self) -> dict[str, Any]:
        """The documented keys."""
        asked = self.question.as_json()
        return {
            "repository": self.repository,
            "root": str(self.root),
            "id": self.repository_id,
            "since": self.since,
            "issue_url": self.issue_url,
            "form_url": self.form_url,
            **asked,
            "look": self.look or None,
            "answers": [
                answer | {"command": command}
                for answer, (_, command) in zip(asked["answers"], self.commands, strict=True)
            ],
        }


def waiting(app: App, form_url: FormUrl | None = None) -> tuple[Waiting, ...]:
    """Every open question of *app*, with links to forms if somebody knows them: a server has to run for that."""
    world, loops = read_world(app), read_loops(app)[0]
    runs = _loop_runs(app, loops)
    return tuple(_waiting(app, world, runs, asked, form_url) for asked in list_questions(app, world, loops))


def approval_waiting(app: App, asked: AskedApproval, form_url: FormUrl) -> Waiting:
    """The same of an approval that a form asks for, before anything is in the log (ruling R6)."""
    words = shlex.quote(asked.document)
    question = ListedQuestion(
        reason="reapproval_required",
        document=asked.document,
        revision=asked.name,
        look=f"irontree task {words} --plan",
        said="where a command approves it, its form closes by itself; to decline, use the form",
    )
    return Waiting(app.repository.root, app.repository.id, question, since=asked.since, form_url=form_url(asked.run))


def oldest_first(found: Iterable[Waiting]) -> tuple[Waiting, ...]:
    """In the order in which people were asked."""
    return tuple(sorted(found, key=lambda one: (one.since or "", one.repository, one.question.number or 0)))


def _waiting(
    app: App, world: World, loop_runs: frozenset[str], asked: ListedQuestion, form_url: FormUrl | None
) -> Waiting:
    noted = _noted(app, world, asked)
    run = _asking_run(noted, frozenset() if asked.number is None else loop_runs)
    tracker = app.preferences().tracker
    return Waiting(
        root=app.repository.root,
        repository_id=app.repository.id,
        question=asked,
        since=noted[-1].get("time") if noted else None,
        issue_url=f"{tracker}/issues/{asked.number}" if tracker and asked.number is not None else None,
        form_url=form_url(run) if form_url and run else None,
    )


def _noted(app: App, world: World, asked: ListedQuestion) -> list[Mapping[str, Any]]:
    """What was noted with each event up to the one that asks."""
    if asked.number is None:
        return [record.meta for record in app.loops.read(asked.loop_id or "").records]
    last = world.state(asked.number).sequence
    return [record.meta for record in app.log.read(asked.number).records if record.event.sequence <= last]


def _asking_run(noted: Sequence[Mapping[str, Any]], others: frozenset[str]) -> str | None:
    """The flow run that shows the form: the newest that recorded anything there, but for *others*.

    A loop's run records what happened to an issue's run that was cancelled, and is not the one that asks.
    """
    runs = (meta.get("flow_run") for meta in reversed(noted))
    return next((run for run in runs if run and run not in others), None)


def _loop_runs(app: App, loops: Iterable[Loop]) -> frozenset[str]:
    metas = (record.meta for loop in loops for record in app.loops.read(loop.id).records)
    return frozenset(meta["flow_run"] for meta in metas if meta.get("flow_run"))


# --- The page of all that waits for a person in the repositories that are served together (`irontree inbox`)


def inbox_text(renderer: Renderer, found: Sequence[Waiting], host: str) -> str:
    """Markdown; *host* is where commands answer them."""
    view = InboxView(host, tuple(_row(one) for one in oldest_first(found)))
    return renderer.render("artifacts/inbox.md", inbox=view)


def _row(one: Waiting) -> InboxRowView:
    asked = one.question
    what = f"{asked.what}: {asked.detail}" if asked.detail else asked.what
    return InboxRowView(
        one.repository, asked.about, what, one.since or "", form=one.form_url or "", address=one.issue_url or ""
    )
