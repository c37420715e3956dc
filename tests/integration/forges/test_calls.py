"""How often a forge is asked, by scenario: a bar for each, and what was asked where it is broken (docs/forges.md).

Each step of an issue is a process of its own, which knows nothing of what the one before it has learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from irontree.cli.serve import News
from irontree.domain.commands import Issues
from irontree.services.answers.approve import adopt, approve
from irontree.services.answers.comments import look
from irontree.services.answers.lookout import Lookout
from irontree.services.consistency.drift import drifted_issues
from irontree.services.proposals.sources import resolve
from irontree.services.questions.listing import Revisions
from tests.support.calls import counted
from tests.support.remote import KINDS, RemoteScene, remote_scene
from tests.support.world import accepts

LONG_AGO = "2026-01-01T00:00:00Z"
ISSUE = "- [ ] it is there `$ has greeting.txt`\n- [ ] it is pretty (manual)\n"


def publication(work: RemoteScene) -> None:
    """A document becomes four issues, of which three are done; the fourth asks for its acceptance."""
    assert work.drive(work.start()).task_key == "four"


def pushed(work: RemoteScene) -> None:
    """The same, and its acceptance."""
    loop = work.start()
    assert work.drive(loop).task_key == "four"
    work.answer(loop, 4, accepts())
    assert work.drive(loop).reason == "goal_reached"


def kept_current(work: RemoteScene) -> None:
    """The same with the texts of the issues kept current, and their relations shown."""
    pushed(work)


def requested(work: RemoteScene) -> None:
    """Four issues, four requests, four merges by a person."""
    loop = work.start()
    for key in ("one", "two", "three", "four"):
        assert work.drive(loop).task_key == key
        work.merge(key)
    assert work.drive(loop).reason == "goal_reached"


def adoption(work: RemoteScene) -> None:
    """An issue that somebody wrote is approved and worked on; then it asks for its acceptance."""
    number = work.remote.write_issue("Greeting", ISSUE)
    app = work.another_process()
    wanted = resolve(app, Issues((number,)), f"#{number}")
    assert work.drive(approve(app, wanted, wanted.name, "ada")).reason == "pending_acceptance"


def minute(work: RemoteScene) -> Callable[[], None]:
    """What `irontree serve` asks in a minute in which nobody answers; the first look at all is not counted."""
    app, watch = work.another_process(), work.another_process()
    seconds, lookout = [0.0], Lookout()
    news = News(revisions=Revisions(clock=lambda: seconds[0]))

    def passes() -> None:
        for _ in range(30):
            if seconds[0] % 30 == 0:
                assert look(watch, lookout) == ()
            if seconds[0] % 60 == 0:
                assert drifted_issues(app) == frozenset()
            list(news(app))
            seconds[0] += 2
            work.remote.clock.pass_by(seconds=2)

    passes()
    passes()
    return passes


def waiting_acceptance(work: RemoteScene) -> Callable[[], None]:
    """A question is open."""
    publication(work)
    return minute(work)


def waiting_approvals(work: RemoteScene) -> Callable[[], None]:
    """Three issues that people wrote wait for their approval."""
    numbers = [work.remote.write_issue(f"Greeting {index}", ISSUE) for index in range(3)]
    for number in numbers:
        adopt(work.another_process(), number)
    return minute(work)


def watched_team(work: RemoteScene) -> Callable[[], None]:
    """What a minute takes in which nobody writes: every half minute the comments, and the issues that changed."""
    work.remote.write_issue("Greeting", ISSUE)
    forge = work.another_process().forge()

    def passes() -> None:
        for _ in range(2):
            forge.commented_since(LONG_AGO)
            assert len(forge.changed_since(LONG_AGO)) == 1
            work.remote.clock.pass_by(seconds=30)

    passes()
    return passes


class Bar(NamedTuple):
    """At most so many calls, and on GitHub so many that count: one that an ETag answers does not."""

    gitea: int
    github: int
    mode: str = "direct"
    keeps_current: bool = False


BARS: dict[Callable[[RemoteScene], Callable[[], None] | None], Bar] = {
    publication: Bar(gitea=60, github=60),
    pushed: Bar(gitea=65, github=65),
    kept_current: Bar(gitea=95, github=95, keeps_current=True),
    requested: Bar(gitea=110, github=115, mode="pull_request"),
    adoption: Bar(gitea=41, github=40),
    waiting_acceptance: Bar(gitea=4, github=0),
    waiting_approvals: Bar(gitea=11, github=0),
    watched_team: Bar(gitea=6, github=0),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("scenario", BARS, ids=lambda scenario: scenario.__name__)
def test_no_more_is_asked_of_the_forge_than_the_scenario_takes(
    scenario: Callable[[RemoteScene], Callable[[], None] | None], kind: str, tmp_path: Path
):
    bar = BARS[scenario]
    with remote_scene(kind, tmp_path, mode=bar.mode, keeps_current=bar.keeps_current) as work:
        with counted(work.remote.server) as calls:
            then = scenario(work)
        if then:
            with counted(work.remote.server) as calls:
                then()
    assert calls.total > 0
    assert calls.total - calls.free <= getattr(bar, kind), f"{scenario.__name__} on {kind}\n{calls}"
