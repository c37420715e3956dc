"""Who looks at comments: at once, again and again, less often where the forge fails, and not after its end."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from irontree.errors import RemoteUnavailable
from irontree.flows.lifecycle.commenting import CommentWatch
from irontree.services.delivery.comment_answers import Looked

OFTEN = timedelta(milliseconds=1)


class Looks:
    """A look that ends at once, as the test says; `enough` is set after so many."""

    def __init__(self, enough: int, result: tuple[Looked, ...] | Exception = ()) -> None:
        self.enough, self.count = threading.Event(), 0
        self._wanted, self._result = enough, result

    def __call__(self) -> tuple[Looked, ...]:
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
    looks = Looks(1, (Looked(1, "later"),))
    with CommentWatch(looks):
        assert looks.enough.wait(30)
    assert looks.count == 1


def test_it_looks_at_once_when_somebody_says_that_there_is_something_to_see():
    looks = Looks(2)
    with CommentWatch(looks) as watch:
        while not looks.enough.wait(0.01):
            watch.hurry()
    assert looks.count >= 2


def test_nobody_hurries_it_past_the_time_that_the_forge_named():
    """A webhook says that there is something to see; the forge's limit holds all the same."""
    not_before, times, twice = datetime.now(UTC) + timedelta(milliseconds=200), [], threading.Event()

    def look() -> tuple[Looked, ...]:
        times.append(datetime.now(UTC))
        watch.hurry()
        if len(times) > 1:
            twice.set()
        return (Looked(1, "later", not_before=not_before),)

    watch = CommentWatch(look, every=OFTEN)
    with watch:
        assert twice.wait(30)
    assert times[1] >= not_before - timedelta(milliseconds=50)  # the clocks of waits and of days differ a little
