"""Who looks at comments: at once, again and again, less often where the forge fails, and not after its end."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from irontree.app import App
from irontree.errors import RemoteUnavailable
from irontree.flows.serve.chores import CommentPoller, CommentWatch, Watches
from irontree.services.answers.comments import CommentResult
from tests.support.world import make_scene

OFTEN = timedelta(milliseconds=1)


class Looks:
    """A look that ends at once, as the test says; `enough` is set after so many."""

    def __init__(self, enough: int, result: tuple[CommentResult, ...] | Exception = ()) -> None:
        self.enough, self.count = threading.Event(), 0
        self._wanted, self._result = enough, result

    def __call__(self) -> tuple[CommentResult, ...]:
        self.count += 1
        if self.count >= self._wanted:
            self.enough.set()
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def test_it_looks_again_and_again_and_not_after_its_end():
    looks = Looks(3)
    with CommentWatch(looks, every=OFTEN):
        assert looks.enough.wait(30)
    at_the_end = looks.count
    assert not any(thread.name == "comments" for thread in threading.enumerate())
    assert looks.count == at_the_end


def test_what_fails_is_tried_again():
    """A repository that cannot be read just now ends nothing."""
    looks = Looks(2, RemoteUnavailable("503"))
    with CommentWatch(looks, every=OFTEN):
        assert looks.enough.wait(30)


def test_it_ends_at_once_in_the_middle_of_its_wait():
    looks = Looks(1, (CommentResult(1, "later", ended_pass=True),))
    with CommentWatch(looks):
        assert looks.enough.wait(30)
    assert looks.count == 1


def test_it_looks_at_once_when_somebody_says_that_there_is_something_to_see():
    looks = Looks(2)
    with CommentWatch(looks) as watch:
        while not looks.enough.wait(0.01):
            watch.poll_now()
    assert looks.count >= 2


@pytest.mark.parametrize("failed", [False, True])
def test_one_issue_that_has_to_wait_keeps_nobody_from_hurrying_the_others(failed: bool):
    looks = Looks(2, (CommentResult(1, "later", failed=failed),))
    with CommentWatch(looks) as watch:
        for _ in range(500):
            watch.poll_now()
            if looks.enough.wait(0.01):
                break
    assert looks.count >= 2


def test_of_all_that_has_to_wait_the_gravest_is_told():
    """Somebody at work on one issue hides neither what fails under another, nor that the forge is away."""
    busy, unreadable = (
        CommentResult(1, "later", said="busy"),
        CommentResult(2, "later", said="no issue #2", failed=True),
    )
    looks = Looks(2, (busy, unreadable, CommentResult(3, "later", said="503", failed=True, ended_pass=True)))
    with CommentWatch(looks, every=OFTEN) as watch:
        assert looks.enough.wait(30)
    assert watch.trouble == "503"
    looks = Looks(2, (busy, unreadable))
    with CommentWatch(looks, every=OFTEN) as watch:
        assert looks.enough.wait(30)
    assert watch.trouble == "no issue #2"


def test_nobody_hurries_it_past_the_time_that_the_forge_named():
    """A webhook says that there is something to see; the forge's limit holds all the same."""
    not_before, times, twice = datetime.now(UTC) + timedelta(milliseconds=200), [], threading.Event()

    def look() -> tuple[CommentResult, ...]:
        times.append(datetime.now(UTC))
        watch.poll_now()
        if len(times) > 1:
            twice.set()
        return (CommentResult(1, "later", not_before=not_before, ended_pass=True),)

    watch = CommentWatch(look, every=OFTEN)
    with watch:
        assert twice.wait(30)
    assert times[1] >= not_before - timedelta(milliseconds=50)  # the clocks of waits and of days differ a little


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_who_died_of_something_unforeseen_is_replaced_and_that_is_said(tmp_path):
    again, made, said = threading.Event(), [], []

    def look() -> tuple[CommentResult, ...]:
        if len(made) == 1:
            raise LookupError("unforeseen")
        again.set()
        return ()

    def watch_of(_: App) -> CommentWatch:
        made.append(CommentWatch(look, every=OFTEN))
        return made[-1]

    with Watches(lambda _, text: said.append(text), watch_of) as watches:
        watches.add(make_scene(tmp_path).app)
        while not made[0].died():
            time.sleep(0.01)
        watches.look()
        watches.look()
        assert again.wait(30)
    assert len(made) == 2
    assert said == ["the thread that polls comments died; another takes its place"]


def test_what_keeps_comments_from_being_looked_at_is_said_once(tmp_path):
    looks, said = Looks(2, (CommentResult(1, "later", said="0009.md is not UTF-8 text", failed=True),)), []
    with Watches(lambda _, text: said.append(text), lambda _: CommentWatch(looks, every=OFTEN)) as watches:
        watches.add(make_scene(tmp_path).app)
        assert looks.enough.wait(30)
        watches.look()
        watches.look()
    assert said == ["comments: 0009.md is not UTF-8 text"]


def test_who_was_stopped_is_not_replaced(tmp_path):
    made = []

    def watch_of(_: App) -> CommentWatch:
        made.append(CommentWatch(Looks(1), every=OFTEN))
        return made[-1]

    with Watches(lambda *_: None, watch_of) as watches:
        watches.add(make_scene(tmp_path).app)
        watches.stop()
        watches.look()
    assert len(made) == 1


def test_who_is_removed_has_ended_then(tmp_path):
    """What it records needs the lock that is free afterwards."""
    app, at_work, stopped, ended = make_scene(tmp_path).app, threading.Event(), threading.Event(), []

    def look() -> tuple[CommentResult, ...]:
        at_work.set()
        stopped.wait(30)
        threading.Event().wait(0.1)  # what it still records
        ended.append("recorded")
        return ()

    with Watches(lambda *_: None, lambda _: CommentWatch(look, stopped=stopped)) as watches:
        watches.add(app)
        assert at_work.wait(30)
        watches.remove(app)
        assert ended == ["recorded"]


def test_who_looks_again_and_again_opens_the_repository_anew_only_after_a_failure(tmp_path):
    """A forge's client knows what it saw, and is not sent it again; another configuration may cure what fails."""
    app, opened = make_scene(tmp_path).app, []
    outcomes = iter(
        [(), (CommentResult(1, "later"),), (CommentResult(1, "later", failed=True),), (), RemoteUnavailable("503"), ()]
    )

    def open_it() -> App:
        opened.append(app)
        return app

    def look(_: App) -> tuple[CommentResult, ...]:
        if isinstance(found := next(outcomes), Exception):
            raise found
        return found

    kept, counts = CommentPoller(open_it, look), []
    for _ in range(6):
        with suppress(RemoteUnavailable):
            kept()
        counts.append(len(opened))
    assert counts == [1, 1, 1, 2, 2, 3]
