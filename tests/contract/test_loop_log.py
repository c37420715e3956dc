"""What every LoopLog keeps beside what every EventLog does, on disk and in memory."""

from __future__ import annotations

import pytest

from irontree.domain.loop import (
    LOOP_EVENTS,
    TRANSITIONS_KEPT,
    LoopBudgetExtended,
    LoopCancelled,
    LoopCompleted,
    LoopResumed,
    Transition,
)
from irontree.errors import LogDamaged
from irontree.store.event_log import FileLoopLog
from irontree.store.layout import Layout, create
from irontree.store.memory import MemoryLoopLog
from tests.support.store import LOOP_ID, StillClock, entity, loop_halted, loop_started

LATER_ID = "2026-04-23-0901-00ff00"
EVENTS = [
    loop_started(),
    loop_halted(halt_at_task_key="auth-core"),
    LoopResumed(loop_id=LOOP_ID, sequence=3, previous_halt_reason="blocked", transitions_used=3),
    LoopBudgetExtended(loop_id=LOOP_ID, sequence=4, extra_transitions=5, budget_max_transitions=55, by="ada"),
    LoopCancelled(
        loop_id=LOOP_ID,
        sequence=5,
        cancelled_at="2026-04-22T15:00:00Z",
        cancellation_scope="task",
        task_key="auth-ui",
    ),
    LoopCompleted(loop_id=LOOP_ID, sequence=6, completed_at="2026-04-22T16:00:00Z", transitions_used=9),
]


@pytest.fixture(params=["disk", "memory"])
def loops(request, tmp_path):
    if request.param == "memory":
        return MemoryLoopLog(StillClock())
    create(tmp_path)
    return FileLoopLog(tmp_path, StillClock())


def test_an_unknown_loop_has_neither_events_nor_entity(loops):
    assert loops.ids() == ()
    assert (loops.read(LOOP_ID).records, loops.read(LOOP_ID).highest_sequence) == ((), 0)
    assert loops.read_entity(LOOP_ID) is None


def test_every_kind_of_event_is_read_back_equal(loops):
    assert {event.event for event in EVENTS} == LOOP_EVENTS.keys()
    written = [loops.append(event, expected_sequence=event.sequence - 1, meta={"actor": "ada"}) for event in EVENTS]
    stream = loops.read(LOOP_ID)
    assert list(stream.records) == written
    assert [record.event for record in stream.records] == EVENTS
    assert (stream.problems, stream.highest_sequence) == ((), 6)


def test_a_frozen_set_of_thousands_fits(loops):
    event = loop_started(task_keys=tuple(f"task-{number:05d}-with-quite-a-long-slug" for number in range(10_000)))
    loops.append(event, expected_sequence=0)
    loops.write_entity(entity(task_keys=event.task_keys))
    assert loops.read(LOOP_ID).records[0].event == event
    assert loops.read_entity(LOOP_ID).task_keys == event.task_keys


def test_loops_are_listed_oldest_first_whatever_there_is_of_them(loops):
    loops.write_entity(entity(loop_id=LATER_ID))
    loops.append(loop_started(), expected_sequence=0)
    assert loops.ids() == (LOOP_ID, LATER_ID)


def test_the_entity_is_read_back_equal_and_replaced_as_a_whole(loops):
    first = entity(
        intent="first\nten issues\n", halt_reason="blocked", halt_at_iso="2026-04-22T14:40:00Z", status="halted"
    )
    loops.write_entity(first)
    assert loops.read_entity(LOOP_ID) == first
    second = entity(status="completed", completed_at="2026-04-22T16:00:00Z", budget_used=9)
    loops.write_entity(second)
    assert loops.read_entity(LOOP_ID) == second


def test_an_entity_that_cannot_be_read_is_damage_and_its_events_are_read_all_the_same(loops, tmp_path):
    """The events win over it (R17)."""
    loops.append(loop_started(), expected_sequence=0)
    loops.write_entity(entity())
    if isinstance(loops, MemoryLoopLog):
        loops.entities[LOOP_ID] = b"status: [\n"
    else:
        Layout(tmp_path).loop(LOOP_ID).write_bytes(b"status: [\n")
    with pytest.raises(LogDamaged):
        loops.read_entity(LOOP_ID)
    with pytest.raises(LogDamaged):
        loops.change_entity(LOOP_ID, lambda now: now)
    assert [record.event for record in loops.read(LOOP_ID).records] == [loop_started()]


def test_an_entity_without_events_is_listed_and_has_an_empty_stream(loops):
    loops.write_entity(entity())
    assert loops.ids() == (LOOP_ID,)
    assert (loops.read(LOOP_ID).records, loops.read(LOOP_ID).problems) == ((), ())
    assert loops.read_entity(LOOP_ID) == entity()


def test_events_without_an_entity_are_listed_and_read(loops, tmp_path):
    """On disk they are in a folder of the loop."""
    loops.append(loop_started(), expected_sequence=0)
    if isinstance(loops, FileLoopLog):
        [path] = tmp_path.rglob("*-loop-started.yml")
        assert path == tmp_path / f".mino/loops/{LOOP_ID}/events/0001-loop-started.yml"
    assert loops.ids() == (LOOP_ID,)
    assert loops.read_entity(LOOP_ID) is None
    assert len(loops.read(LOOP_ID).records) == 1


def test_the_entity_keeps_the_last_transitions_only(loops):
    transitions = tuple(
        Transition(iso="2026-04-22T14:32:11Z", task_key="auth-core", skill="mino-run", outcome=str(number))
        for number in range(TRANSITIONS_KEPT + 5)
    )
    loops.write_entity(entity(transitions=transitions))
    assert loops.read_entity(LOOP_ID).transitions == transitions[5:]


def test_the_entity_is_changed_from_what_it_is_now(loops):
    loops.write_entity(entity(budget_used=1))
    changed = loops.change_entity(LOOP_ID, lambda now: now.model_copy(update={"budget_used": now.budget_used + 1}))
    assert changed == loops.read_entity(LOOP_ID) == entity(budget_used=2)


def test_a_loop_without_entity_has_nothing_to_change(loops):
    with pytest.raises(KeyError):
        loops.change_entity(LOOP_ID, lambda now: now)
