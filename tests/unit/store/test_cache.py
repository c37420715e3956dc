"""The cache of derived values: right or absent, never wrong."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest

from irontree.store.event_log import FileEventLog
from irontree.store.layout import Layout, create
from irontree.store.replays import DerivedCache, fingerprint_streams
from irontree.store.streams import ISSUE_FORM
from tests.support.store import StillClock, passed, published, started

VALUE = {"phase": "done", "counts": [1, 2], "code_ref": None}


class Repository:
    """A log, and a clock that is well past everything written to it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.log = FileEventLog(ISSUE_FORM, layout.root, StillClock())
        self.clock = StillClock(datetime.now(UTC) + timedelta(minutes=1))
        self.path = layout.cache / "states.json"

    def fingerprints(self):
        return fingerprint_streams(self.layout.events, self.clock)

    def cache(self, version: str = "1") -> DerivedCache:
        return DerivedCache(self.path, version)

    def remember(self, value=VALUE) -> None:
        cache = self.cache()
        for number, fingerprint in self.fingerprints().items():
            cache.put(number, fingerprint, value)
        cache.save()

    def remembered(self, issue_number: int = 12, version: str = "1"):
        return self.cache(version).get(issue_number, self.fingerprints().get(issue_number))


@pytest.fixture
def repository(tmp_path) -> Repository:
    repository = Repository(create(tmp_path))
    repository.log.append(published(), expected_sequence=0)
    repository.log.append(published(13), expected_sequence=0)
    return repository


def test_a_log_without_streams_has_no_fingerprints(tmp_path):
    assert fingerprint_streams(create(tmp_path).events, StillClock()) == {}


def test_what_was_put_is_found_while_nothing_changes(repository):
    repository.remember()
    assert repository.remembered(12) == repository.remembered(13) == VALUE
    assert sorted(repository.fingerprints()) == [12, 13]


def test_an_appended_event_is_noticed_for_its_stream_alone(repository):
    repository.remember()
    repository.log.append(started(), expected_sequence=1)
    assert repository.remembered(12) is None
    assert repository.remembered(13) == VALUE


def test_one_byte_edited_at_equal_size_is_noticed(repository):
    repository.remember()
    path = repository.layout.stream(12) / "0001-task-published.yml"
    before = path.stat()
    content = path.read_text().replace("max_retry_count: 3", "max_retry_count: 4")
    path.write_text(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert path.stat().st_size == before.st_size
    assert repository.remembered(12) is None


def test_a_file_put_in_another_s_place_with_its_size_and_time_is_noticed(repository):
    repository.remember()
    path = repository.layout.stream(12) / "0001-task-published.yml"
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    assert repository.remembered(12) is None


def test_a_renamed_event_is_noticed(repository):
    repository.remember()
    path = repository.layout.stream(12) / "0001-task-published.yml"
    path.rename(path.with_name("0002-task-published.yml"))
    assert repository.remembered(12) is None


def test_a_recorded_reply_is_noticed(repository):
    repository.log.append(passed(), expected_sequence=1)
    repository.remember()
    repository.log.record_reply(12, 2, "https://forge.example/c/1")
    assert repository.remembered(12) is None


def test_an_archived_stream_is_no_longer_there(repository):
    repository.remember()
    repository.log.archive(12, "00123456")
    assert sorted(repository.fingerprints()) == [13]


def test_a_file_too_young_to_tell_has_no_fingerprint(repository):
    repository.clock.moment = datetime.now(UTC)
    assert repository.fingerprints() == {12: None, 13: None}


def test_another_version_derives_everything_anew(repository):
    repository.remember()
    assert repository.remembered(version="2") is None


@pytest.mark.parametrize("damage", [b"", b"x", b"\xff\x00", b'{"12": ["", 1]}', None])
def test_a_damaged_cache_is_none_and_is_made_again(repository, damage):
    repository.remember()
    data = repository.path.read_bytes()
    repository.path.write_bytes(data.replace(b"done", b"dome") if damage is None else damage)
    assert repository.remembered(12) is None
    repository.remember()
    assert repository.remembered(12) == VALUE


def test_a_cache_that_cannot_be_written_is_left_alone(repository):
    repository.layout.cache.write_text("a file is in the way")
    repository.remember()
    assert repository.remembered(12) is None
    assert repository.layout.cache.read_text() == "a file is in the way"


def test_nothing_is_written_when_nothing_is_new(repository):
    repository.remember()
    before = repository.path.stat().st_ino
    repository.cache().save()
    assert repository.path.stat().st_ino == before
