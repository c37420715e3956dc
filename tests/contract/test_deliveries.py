"""What every Deliveries keeps, on disk and in memory."""

from __future__ import annotations

import pytest

from irontree.ports import EffectLedger
from irontree.store.documents import FileDeliveries
from irontree.store.layout import create
from irontree.store.memory import MemoryDeliveries


@pytest.fixture(params=["disk", "memory"])
def deliveries(request, tmp_path):
    if request.param == "memory":
        return MemoryDeliveries()
    create(tmp_path)
    return FileDeliveries(tmp_path)


def test_an_issue_never_delivered_is_at_zero(deliveries):
    assert deliveries.load(12) == EffectLedger(0, ())


def test_a_cursor_is_loaded_as_it_was_saved(deliveries):
    ledger = EffectLedger(7, ("comment of 6: the forge said\n503", "label: null"))
    deliveries.save(12, ledger)
    assert deliveries.load(12) == ledger
    assert deliveries.load(13) == EffectLedger()


def test_a_cursor_saved_later_takes_the_place_of_the_earlier(deliveries):
    deliveries.save(12, EffectLedger(3, ("label: refused",)))
    deliveries.save(12, EffectLedger(4))
    assert deliveries.load(12) == EffectLedger(4)


def test_what_was_noticed_outside_stays_with_the_cursor(deliveries):
    ledger = EffectLedger(
        3, closed=True, text="00123456", noticed=("its title was edited",), halt_told="<!-- irontree:12:abc -->"
    )
    deliveries.save(12, ledger)
    assert deliveries.load(12) == ledger


def test_what_is_not_tried_again_stays_with_the_cursor(deliveries):
    ledger = EffectLedger(3, warnings=("reply_post_failed: 503",), replied=3)
    deliveries.save(12, ledger)
    assert deliveries.load(12) == ledger
