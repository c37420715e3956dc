"""Stages: a forge seen from several accounts, with everything that others and the network may do to it.

Here are those of the memory and the local forge; `tests.support.stages` names all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from irontree.forges import ForgeSettings
from irontree.forges.local import LocalForge
from irontree.forges.memory import MemoryForge, Tracker
from irontree.ports import Forge, Remark, Review, ReviewVerdict
from irontree.store.codec import read_mapping, write_mapping

Remarks = tuple[tuple[str, int, str], ...]
"""Path, line and text of each."""
BASE_SHA, HEAD_SHA, LATER_SHA = "a" * 40, "b" * 40, "c" * 40


class Noon:
    """A clock that stands still."""

    def now(self) -> datetime:
        return datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


class Stage(Protocol):
    """One empty repository of a forge, with the branch `main` at BASE_SHA."""

    people_log_in: bool
    """Whether what is written under a name was written by who has it."""

    @property
    def ours(self) -> Forge: ...

    @property
    def stranger(self) -> Forge:
        """The same repository as `mallory` sees it, who may open issues and comment, and no more."""
        ...

    def afresh(self, *agents: str) -> Forge:
        """Ours, as a process that has just started sees it: it remembers nothing of what we have created.

        *agents* are accounts of agents.
        """
        ...

    def push(self, branch: str, sha: str) -> None:
        """Point a branch of the repository at a commit."""
        ...

    def merge(self, number: int) -> str:
        """Merge a pull request as a person with write access; the merge commit."""
        ...

    def review(self, number: int, author: str, verdict: ReviewVerdict, body: str, remarks: Remarks = ()) -> None:
        """Hand in a review as `irontree`, `mallory` or `writer`, who has write access."""
        ...

    def dismiss(self, account: str) -> None:
        """Take write access away from an account."""
        ...

    def change_comment(self, number: int, comment_id: str, body: str) -> None:
        """Put other words into a comment, as a person may do there."""
        ...

    def people(self, number: int) -> tuple[list[str], list[str]]:
        """Who is assigned, and who was asked to review it."""
        ...

    def related(self, number: int) -> tuple[list[int], list[int]] | None:
        """What an issue waits for, and its parts; None where the forge shows neither."""
        ...

    def reactions(self, number: int, comment_id: str) -> set[tuple[str, str]] | None:
        """The reactions to a comment, each with its account; None where there are none at all."""
        ...


class FallibleStage(Stage, Protocol):
    """A stage whose forge is somewhere else, and whose network fails when it is told to."""

    def go_down(self) -> None:
        """Answer every call with a failure, from now on."""
        ...

    def lose_next_answer(self) -> None:
        """Let the next write take effect, and break the connection before its answer."""
        ...

    def lag(self, newest: int) -> None:
        """Leave so many of the newest issues out of listings."""
        ...

    def break_listings(self, behind: int) -> None:
        """Break every listing of issues off behind so many."""
        ...


def settings(folder: Path, account: str) -> ForgeSettings:
    return ForgeSettings(folder, account, Noon(), read_mapping, write_mapping)


def merge(tracker: Tracker, number: int, by: str) -> str:
    """Merge a pull request of the memory forge as *by*; the merge commit."""
    sha = f"{number:040x}"
    tracker.pulls[number] = tracker.pulls[number]._replace(state="closed", merged=True, merge_sha=sha, merged_by=by)
    tracker.issues[number] = tracker.issues[number]._replace(state="closed")
    return sha


def hand_in(
    tracker: Tracker, number: int, author: str, verdict: ReviewVerdict, body: str, remarks: Remarks = ()
) -> None:
    """Hand a review in there as *author*."""
    reviews = tracker.handed_in.setdefault(number, [])
    tracker.requested[number] = tuple(login for login in tracker.requested.get(number, ()) if login != author)
    said = tuple(Remark(author, trusted=False, body=text, path=path, line=line) for path, line, text in remarks)
    reviews.append(
        Review(
            id=f"{number}-{len(reviews) + 1}",
            author=author,
            trusted=False,
            verdict=verdict,
            body=body,
            commit=tracker.pulls[number].head_sha,
            remarks=said,
        )
    )


def change_comment(tracker: Tracker, number: int, comment_id: str, body: str) -> None:
    """Put other words into a comment of the memory forge, as people with write access may."""
    there = tracker.comments[number]
    there[:] = [each._replace(body=body, edited=True) if each.id == comment_id else each for each in there]


class MemoryStage:
    """The memory forge."""

    people_log_in = True

    def __init__(self, folder: Path) -> None:
        self.tracker = Tracker(branches={"main": BASE_SHA}, writers={"writer"})
        self._folder = folder
        self.ours = self.afresh()
        self.stranger = MemoryForge(settings(folder, "mallory"), self.tracker)

    def afresh(self, *agents: str) -> Forge:
        return MemoryForge(replace(settings(self._folder, "irontree"), agents=frozenset(agents)), self.tracker)

    def push(self, branch: str, sha: str) -> None:
        self.tracker.branches[branch] = sha

    def merge(self, number: int) -> str:
        return merge(self.tracker, number, "writer")

    def review(self, number: int, author: str, verdict: ReviewVerdict, body: str, remarks: Remarks = ()) -> None:
        hand_in(self.tracker, number, author, verdict, body, remarks)

    def dismiss(self, account: str) -> None:
        self.tracker.writers.discard(account)

    def change_comment(self, number: int, comment_id: str, body: str) -> None:
        change_comment(self.tracker, number, comment_id, body)

    def people(self, number: int) -> tuple[list[str], list[str]]:
        return [*self.tracker.assignees.get(number, ())], [*self.tracker.requested.get(number, ())]

    def related(self, number: int) -> tuple[list[int], list[int]] | None:
        return self.tracker.dependencies.get(number, []), self.tracker.parts.get(number, [])

    def reactions(self, number: int, comment_id: str) -> set[tuple[str, str]] | None:
        return {*self.tracker.reactions.get(comment_id, ())}

    def go_down(self) -> None:
        self.tracker.outage = "the forge is down"

    def lose_next_answer(self) -> None:
        self.tracker.lost_answers = 1

    def lag(self, newest: int) -> None:
        self.tracker.lag = newest

    def break_listings(self, behind: int) -> None:
        self.tracker.breaks_behind = behind


@dataclass
class MadeUpBranches:
    """Implements `Branches` without git."""

    tips: dict[str, str] = field(default_factory=lambda: {"main": BASE_SHA})
    merges: dict[str, tuple[str, str]] = field(default_factory=dict)

    def tip(self, branch: str) -> str | None:
        return self.tips.get(branch)

    def merge_of(self, sha: str, branch: str) -> tuple[str, str | None] | None:
        return (sha, None) if sha == self.tips.get(branch) else self.merges.get(sha)


class LocalStage:
    """The forge of plain files."""

    people_log_in = False

    def __init__(self, folder: Path) -> None:
        self.branches = MadeUpBranches()
        self._folder = folder / "forge"
        self.ours, self.stranger = self.afresh(), self._forge("mallory")

    def afresh(self, *agents: str) -> Forge:
        return self._forge("irontree", *agents)

    def _forge(self, account: str, *agents: str) -> LocalForge:
        about = replace(settings(self._folder, account), agents=frozenset(agents))
        return LocalForge(replace(about, branches=self.branches, default_branch=lambda: "main"))

    def push(self, branch: str, sha: str) -> None:
        self.branches.tips[branch] = sha

    def merge(self, number: int) -> str:
        pull = self.ours.read_pull_request(number)
        assert pull
        sha = f"{number:040x}"
        self.branches.merges[pull.head_sha] = (sha, "writer")
        return sha

    def review(self, number: int, author: str, verdict: ReviewVerdict, body: str, remarks: Remarks = ()) -> None:
        """As a person does it: a file. Remarks have no place in it."""
        folder = self._folder / "pulls" / f"{number:04d}" / "reviews"
        folder.mkdir(parents=True, exist_ok=True)
        index = len(list(folder.iterdir())) + 1
        (folder / f"{index:04d}.md").write_text(f"---\nauthor: {author}\nverdict: {verdict}\n---\n\n{body}\n")

    def dismiss(self, account: str) -> None:
        """Files have no accounts to take anything from."""

    def change_comment(self, number: int, comment_id: str, body: str) -> None:
        index = int(comment_id.rpartition("-")[2])
        file = self._folder / "issues" / f"{number:04d}" / "comments" / f"{index:04d}.md"
        front, _, _ = file.read_text().rpartition("---\n")
        file.write_text(f"{front}---\n\n{body}\n")

    def people(self, number: int) -> tuple[list[str], list[str]]:
        for kind in ("issues", "pulls"):
            if (file := self._folder / kind / f"{number:04d}.md").exists():
                fields = read_mapping(file.read_text().split("---\n")[1], str(file))
                return [*fields.get("assignees", [])], [*fields.get("reviewers", [])]
        raise AssertionError(f"no issue {number}")

    def related(self, number: int) -> tuple[list[int], list[int]] | None:
        return None

    def reactions(self, number: int, comment_id: str) -> set[tuple[str, str]] | None:
        return None


@contextmanager
def memory(folder: Path) -> Iterator[Stage]:
    yield MemoryStage(folder)


@contextmanager
def local(folder: Path) -> Iterator[Stage]:
    yield LocalStage(folder)
