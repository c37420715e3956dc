"""The golden histories: logs that exist are read, amount to what they did, and would be written the same again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from irontree.domain.digests import digest_chain
from irontree.domain.machine import replay
from irontree.ports import Stream
from irontree.store.codec import read_mapping
from irontree.store.memory import MemoryEventLog
from irontree.store.streams import ISSUE_FORM
from tests.support.store import StillClock

HISTORIES = Path(__file__).resolve().parents[2] / "data" / "histories"
STORIES = sorted(path.parent for path in HISTORIES.glob("*/expected.json"))


def expected_of(story: Path) -> dict[str, Any]:
    return json.loads((story / "expected.json").read_text())


def stream_of(story: Path, expected: dict[str, Any]) -> Stream:
    log = MemoryEventLog(ISSUE_FORM, StillClock())
    files = {path.name: path.read_bytes() for path in (story / "events").rglob("*.yml")}
    log.files(expected["issue_number"]).files.update(files)
    return log.read(expected["issue_number"])


@pytest.fixture(params=STORIES, ids=lambda story: story.name)
def story(request) -> Path:
    return request.param


@pytest.fixture
def expected(story) -> dict[str, Any]:
    return expected_of(story)


def test_all_stories_are_here():
    assert len(STORIES) == 13


def test_every_event_is_read(story, expected):
    stream = stream_of(story, expected)
    events = [record.event for record in stream.records]
    assert stream.problems == ()
    assert [event.sequence for event in events] == expected["sequences"]
    assert [event.event for event in events] == expected["events"]
    assert [f"{event.current_stage} -> {event.next_stage}" for event in events] == expected["stages"]
    last = events[-1]
    assert (last.event, last.attempt_count, last.max_retry_count) == (
        expected["last_event"],
        expected["attempt_count"],
        expected["max_retry_count"],
    )


def test_it_amounts_to_what_it_did(story, expected):
    found = replay(stream_of(story, expected).records)
    facts = {key: getattr(found.state, key) for key in expected["replay"] if key not in {"phase", "missing"}}
    assert found.problem is None
    assert facts | {"phase": found.state.phase.name, "missing": list(found.missing)} == expected["replay"]


def test_the_chain_of_our_own_logs_holds_and_others_are_unchained(story, expected):
    breaks = digest_chain(stream_of(story, expected).records)
    assert {found.kind for found in breaks} == (set() if expected["chained"] else {"unchained"})


@pytest.mark.parametrize(
    "story", [story for story in STORIES if expected_of(story)["chained"]], ids=lambda own: own.name
)
def test_our_own_files_would_be_written_the_same_today(story):
    for path in sorted((story / "events").rglob("*.yml")):
        record = ISSUE_FORM.decode(path.read_bytes(), path.name)
        block = read_mapping(path.read_bytes(), path.name)["iron_tree"]
        written = ISSUE_FORM.encode(record.event, record.meta)
        assert path.name == ISSUE_FORM.file_name(record.event)
        assert list(block) == list(type(record.event).model_fields)
        # meta comes back as text, so its numbers would be quoted; the contract's block is the same to the letter
        assert written.partition(b"meta:")[0] == path.read_bytes().partition(b"meta:")[0]
