"""A writer that stops between any two of its steps leaves the state before or the state after, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from irontree.domain.agent_requests import begun
from irontree.domain.events import IssueEvent, Record
from irontree.files import Disk
from irontree.store.agent_requests import FileAgentRequests
from irontree.store.documents import FilePlanStore, FileResultStore
from irontree.store.event_log import FileEventLog, FileLoopLog
from irontree.store.layout import Layout, create
from irontree.store.streams import ISSUE_FORM
from tests.support.disk import Stopped, stopping_at
from tests.support.store import (
    LOOP_ID,
    SHA,
    StillClock,
    asked_agent,
    check_report,
    entity,
    history,
    loop_started,
    passed,
    plan,
    published,
    started,
)

STEPS = range(12)
URL = "https://forge.example/c/1"


def stopped(work: Callable[[Disk], object], step: int) -> bool:
    """Whether *work* was stopped before it was through."""
    try:
        work(stopping_at(step))
    except Stopped:
        return True
    return False


@pytest.fixture
def root(tmp_path) -> Path:
    create(tmp_path)
    return tmp_path


def log(root: Path, disk: Disk | None = None) -> FileEventLog[int, IssueEvent]:
    return FileEventLog(ISSUE_FORM, root, StillClock(), disk)


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*.tmp")]


@pytest.mark.parametrize("step", STEPS)
def test_an_append_is_there_or_not_and_the_next_one_finds_its_place(root, step):
    log(root).append(published(), expected_sequence=0)
    was_stopped = stopped(lambda disk: log(root, disk).append(started(), expected_sequence=1), step)
    stream = log(root).read(12)
    assert stream.problems == ()
    assert stream.last_sequence in ({1, 2} if was_stopped else {2})
    log(root).append(started(sequence=stream.last_sequence + 1), expected_sequence=stream.last_sequence)
    assert log(root).read(12).last_sequence == stream.last_sequence + 1
    assert leftovers(root) == []


@pytest.mark.parametrize("step", STEPS)
def test_the_first_event_of_a_stream_is_there_or_there_is_no_stream(root, step):
    stopped(lambda disk: log(root, disk).append(published(), expected_sequence=0), step)
    found = log(root).read(12)
    assert log(root).streams() == ((12,) if found.records else ())
    if not found.records:
        log(root).append(published(), expected_sequence=0)
    assert [record.event for record in log(root).read(12).records] == [published()]


@pytest.mark.parametrize("step", STEPS)
def test_a_reply_is_recorded_or_not_but_the_event_stays(root, step):
    log(root).append(published(), expected_sequence=0)
    log(root).append(passed(), expected_sequence=1)
    stopped(lambda disk: log(root, disk).record_reply(12, 2, URL), step)
    assert log(root).read(12).records[1].event in {passed(), passed(reply_posted=URL)}
    log(root).record_reply(12, 2, URL)
    assert log(root).read(12).records[1].event == passed(reply_posted=URL)


@pytest.mark.parametrize("step", STEPS)
def test_an_archive_cut_short_is_finished_by_asking_again(root, step):
    log(root).append(published(), expected_sequence=0)
    brief = Layout(root).brief(12)
    brief.parent.mkdir()
    brief.write_text("# Brief\n")
    stopped(lambda disk: log(root, disk).archive(12, "00123456"), step)
    if log(root).streams():
        log(root).archive(12, "00123456")
    archived = Layout(root).archive / "issue-12-rev-00123456"
    assert sorted(path.name for path in archived.rglob("*")) == ["0001-task-published.yml", "brief.md", "events"]
    assert [path.name for path in Layout(root).archive.iterdir()] == ["issue-12-rev-00123456"]


@pytest.mark.parametrize("step", STEPS)
def test_there_is_a_plan_in_force_at_every_instant(root, step):
    first, second = plan(budget_max_transitions=50), plan(budget_max_transitions=60)
    FilePlanStore(root).save(first)
    stopped(lambda disk: FilePlanStore(root, disk).save(second), step)
    assert FilePlanStore(root).load("00123456") in {first, second} or pytest.fail("no plan")
    FilePlanStore(root).save(second)
    assert FilePlanStore(root).load("00123456") == second
    kept = sorted(path.name for path in Layout(root).plans.glob("*.yml"))
    assert kept == ["00123456.1.yml", "00123456.yml"]


@pytest.mark.parametrize("step", STEPS)
def test_check_results_are_those_before_or_those_after(root, step):
    FileResultStore(root, root / "key").save(check_report(results=()))
    stopped(lambda disk: FileResultStore(root, root / "key", disk).save(check_report()), step)
    assert FileResultStore(root, root / "key").load(12, SHA) in (check_report(results=()), check_report())


@pytest.mark.parametrize("step", STEPS)
def test_a_request_to_an_agent_is_as_before_or_as_after(root, step):
    key = root / "key"
    FileAgentRequests(root, key).save(asked_agent())
    stopped(lambda disk: FileAgentRequests(root, key, disk).save(begun(asked_agent())), step)
    assert FileAgentRequests(root, key).load(asked_agent().key) in (asked_agent(), begun(asked_agent()))


@pytest.mark.parametrize("step", STEPS)
def test_a_loop_and_its_entity_are_those_before_or_those_after(root, step):
    loops = FileLoopLog(root, StillClock())
    stopped(lambda disk: FileLoopLog(root, StillClock(), disk).append(loop_started(), expected_sequence=0), step)
    assert [record.event for record in loops.read(LOOP_ID).records] in ([], [loop_started()])
    loops.write_entity(entity(budget_used=1))
    stopped(lambda disk: FileLoopLog(root, StillClock(), disk).write_entity(entity(budget_used=2)), step)
    assert loops.read_entity(LOOP_ID).budget_used in {1, 2}


def test_every_step_of_an_append_was_among_those_tried(root):
    work = [lambda disk: log(root, disk).append(published(), expected_sequence=0)]
    assert stopped(work[0], 0)
    assert not stopped(lambda disk: log(root, disk).append(published(13), expected_sequence=0), STEPS[-1])


@pytest.mark.parametrize("step", range(24))
def test_a_stream_is_restored_whole_or_not_at_all_and_can_be_restored_then(root, step):
    records = [Record(event) for event in history(3)]
    was_stopped = stopped(lambda disk: log(root, disk).restore(12, records), step)
    if (events := [record.event for record in log(root).read(12).records]) == []:
        assert was_stopped
        assert log(root).streams() == ()
        log(root).restore(12, records)
        events = [record.event for record in log(root).read(12).records]
    assert events == history(3)
    assert [path.name for path in Layout(root).events.iterdir()] == ["issue-12"]
