"""What every Replays keeps: the state of every stream as its files are now, cached or not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from irontree.domain.machine import replay
from irontree.domain.state import Phase
from irontree.store.event_log import FileEventLog
from irontree.store.layout import Layout, create
from irontree.store.replays import CachedReplays, PlainReplays
from irontree.store.streams import ISSUE_FORM
from tests.support.store import StillClock, published, started


@pytest.fixture
def layout(tmp_path) -> Layout:
    return create(tmp_path)


@pytest.fixture
def log(layout):
    return FileEventLog(ISSUE_FORM, layout.root, StillClock())


@pytest.fixture(params=["plain", "cached", "young"])
def replays(request, layout, log):
    """A new reader each time it is asked for, as a new process has it."""
    age = timedelta(minutes=1 if request.param == "cached" else -1)
    if request.param == "plain":
        return lambda: PlainReplays(log)
    return lambda: CachedReplays(log, layout.events, layout.cache, StillClock(datetime.now(UTC) + age))


def test_an_empty_log_has_nothing_to_replay(replays):
    assert replays().all() == {}


def test_every_stream_is_replayed_in_the_order_of_issue_numbers(log, replays):
    for number in (13, 9):
        log.append(published(number), expected_sequence=0)
    for _ in range(2):
        found = replays().all()
        assert list(found) == [9, 13]
        assert all(reading.replay == replay(log.read(number).records) for number, reading in found.items())


def test_what_was_appended_meanwhile_is_seen(log, replays):
    log.append(published(), expected_sequence=0)
    reader = replays()
    assert reader.all()[12].replay.state.phase is Phase.READY
    log.append(started(), expected_sequence=1)
    assert reader.all()[12].replay.state.phase is Phase.RUNNING
    assert replays().all()[12].replay.state.phase is Phase.RUNNING


def test_problems_stay_until_they_are_repaired(layout, log, replays):
    log.append(published(), expected_sequence=0)
    broken = layout.stream(12) / "0002-run-started.yml"
    broken.write_text("broken: [")
    for _ in range(2):
        [problem] = replays().all()[12].problems
        assert problem.path.endswith("0002-run-started.yml")
    broken.unlink()
    assert replays().all()[12].problems == ()


def test_an_archived_stream_is_replayed_no_more(log, replays):
    log.append(published(), expected_sequence=0)
    reader = replays()
    reader.all()
    log.archive(12, "00123456")
    assert reader.all() == replays().all() == {}
