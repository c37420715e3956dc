"""The digest chain: accidents show, harmless rewriting does not."""

from __future__ import annotations

import pytest

from irontree.domain.digests import ChainBreak, digest_chain, event_digest
from irontree.domain.events import Record
from tests.support.store import history, passed


def chained(events) -> list[Record]:
    """Records as a log writes them."""
    before = [None, *map(event_digest, events)]
    return [Record(event, {"previous": digest}) for event, digest in zip(events, before, strict=False)]


def test_an_untouched_stream_has_no_breaks():
    assert digest_chain(chained(history(5))) == ()
    assert digest_chain(()) == ()


def test_an_edited_event_shows_at_the_one_behind_it():
    records = chained(history(4))
    edited = records[1].event.model_copy(update={"attempt_count": 2})
    assert digest_chain([records[0], Record(edited, records[1].meta), *records[2:]]) == (ChainBreak(3, "mismatch"),)


def test_events_that_changed_places_show():
    first, second, third = chained(history(3))
    swapped = [first, Record(third.event.model_copy(update={"sequence": 2}), third.meta)]
    assert digest_chain(swapped) == (ChainBreak(2, "mismatch"),)
    assert digest_chain([first, second]) == ()


def test_an_event_of_another_tool_is_unchained_and_no_error():
    records = chained(history(3))
    assert digest_chain([records[0], Record(records[1].event), records[2]]) == (ChainBreak(2, "unchained"),)


def test_behind_a_gap_there_is_nothing_to_compare():
    records = chained(history(4))
    assert digest_chain([records[0], *records[2:]]) == ()


def test_a_reply_set_later_breaks_nothing():
    assert event_digest(passed()) == event_digest(passed(reply_posted="https://forge.example/c/1"))


@pytest.mark.parametrize("change", [{"attempt_count": 3}, {"report_path": "a.md"}, {"code_ref": "0" * 40}])
def test_every_other_key_counts(change):
    assert event_digest(passed()) != event_digest(passed(**change))


def test_the_digest_is_the_one_that_was_published():
    """Logs on disk carry it: another value here makes every old log look damaged."""
    assert event_digest(passed()) == "9ebcb5bfc51dc9ff5447f03a896965e8ba45f1555da4d0b5872aaae24734b6a8"
