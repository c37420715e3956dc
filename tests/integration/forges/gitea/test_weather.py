"""The whole job of four issues in bad weather: answers are lost, lists cut, the server restarts; all is there once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from irontree.domain.halt import RULE
from irontree.domain.state import MANAGED, labels_for
from irontree.errors import IrontreeError
from irontree.services.answers.answers import Answer
from irontree.services.answers.approve import approve
from irontree.services.consistency.reconcile import reconcile
from irontree.services.loops.loop import Loop
from irontree.services.proposals.sources import propose
from tests.support.gitea.contents import Contents, Issue
from tests.support.gitea.weather import Weather
from tests.support.remote import FOUR, RemoteScene, remote_scene
from tests.support.soak import SOAK

KEYS = ["one", "two", "three", "four"]
SEEDS = range(300) if SOAK else (5, 24, 33, 38)
"""These few notice a publication that does not look for what lists lack, and a comment that is not looked for."""
PATIENCE = 200


def until_it_works(do: Callable[[], Loop]) -> Loop:
    """Who gets no answer tries again."""
    for _ in range(PATIENCE):
        try:
            return do()
        except IrontreeError:
            continue
    raise AssertionError("it never worked")


def approved(work: RemoteScene) -> Loop:
    app = work.another_process()
    wanted = propose(app, work.scene.write(FOUR))
    return approve(app, wanted, wanted.name, "ada")


def bring_to_its_end(work: RemoteScene, loop: Loop) -> None:
    """Go on after whatever happens, as flows and people do; a request is merged as soon as it is asked for."""
    for _ in range(PATIENCE):
        try:
            found = work.drive(loop)
            if found.reason == "goal_reached":
                return
            assert found.task_key, found
            state = work.scene.state(found.task_key)
            if state.is_proposed:
                work.merge(found.task_key)
                continue
            choice = "accept" if found.reason == "pending_acceptance" else "go-on"
            assert choice in {each.name for each in RULE[found.reason].choices}, (
                found,
                work.scene.last(found.task_key),
            )
            work.answer(loop, state.issue_number, Answer(choice, "ada"))
        except IrontreeError:
            continue
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("mode", ["direct", "pull_request"])
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_the_server_does_all_is_there_once_and_as_the_log_says(seed: int, mode: str, tmp_path: Path):
    with remote_scene("gitea", tmp_path, mode=mode) as work:
        weather = work.remote.server.weather = Weather(seed)
        bring_to_its_end(work, until_it_works(lambda: approved(work)))
        weather.calm = True
        found = reconcile(work.another_process())
        assert (found.undelivered, found.outside, found.problems) == ((), (), ()), "\n".join(weather.struck)
        judge(work, work.remote.server.contents, mode, "\n".join(weather.struck))


def judge(work: RemoteScene, contents: Contents, mode: str, struck: str) -> None:
    """By what the server has, and the states of the log."""
    issues = [issue for issue in contents.issues.values() if issue.pull is None]
    assert [issue.title for issue in issues] == ["One", "Two", "Three", "Four"], struck
    for key, issue in zip(KEYS, issues, strict=True):
        state = work.scene.state(key)
        assert (state.issue_number, state.done, issue.state) == (issue.number, True, "closed"), struck
        assert names(contents, issue) & MANAGED == labels_for(state), struck
    for issue in contents.issues.values():
        marks = Counter(mark for one in issue.comments for mark in re.findall("<!-- irontree:.* -->", one.body))
        assert set(marks.values()) <= {1}, (struck, marks)
    assert len({label.name for label in contents.labels}) == len(contents.labels), struck
    heads = Counter(issue.pull.head for issue in contents.issues.values() if issue.pull)
    assert [*heads.values()] == ([1] * 4 if mode == "pull_request" else []), struck


def names(contents: Contents, issue: Issue) -> set[str]:
    return {label.name for label in contents.labels if label.id in issue.labels}
