"""What every EventLog keeps, of every kind of stream, on disk and in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from irontree.domain.digests import digest_chain, event_digest
from irontree.domain.events import ISSUE_EVENTS, CheckupDone, Record, RunCompleted
from irontree.errors import NotEligible, Refused, SequenceConflict
from irontree.ports import EventLog, EventStream
from irontree.store.codec import write_mapping
from irontree.store.event_log import FileEventLog, FileLoopLog
from irontree.store.layout import Layout, create
from irontree.store.memory import MemoryEventLog, MemoryLoopLog
from irontree.store.streams import ISSUE_FORM, LOOP_FORM, StreamForm
from tests.support.store import LOOP_ID, SHA, StillClock, history, loop_halted, loop_started, passed, published, started

URL = "https://forge.example/issues/12#comment-3"


@dataclass(frozen=True)
class Kind:
    """One kind of stream, and events of it."""

    form: StreamForm[Any, Any]
    names: tuple[Any, Any, Any]
    """In ascending order."""
    other: Any
    """A name that may begin like another."""
    event: Callable[[Any, int], Any]
    """Of that stream, with that sequence."""

    def history(self, length: int, name: Any) -> list[Any]:
        return [self.event(name, sequence) for sequence in range(1, length + 1)]


def _issue_event(number: int, sequence: int) -> Any:
    return published(number) if sequence == 1 else started(number, sequence)


def _loop_event(loop_id: str, sequence: int) -> Any:
    made = loop_started if sequence == 1 else loop_halted
    return made(loop_id=loop_id, sequence=sequence)


ISSUES = Kind(ISSUE_FORM, (9, 12, 100), 121, _issue_event)
LOOPS = Kind(
    LOOP_FORM, ("2026-04-21-0901-00ff00", LOOP_ID, "2026-04-23-0901-00ff00"), "2026-04-22-1432-a3f8b3", _loop_event
)


class Subject:
    """A log of one kind, one of its streams, and a way behind its back."""

    log: EventLog[Any, Any]
    put: Callable[[str, str], None]
    text: Callable[[str], str]
    archived: Callable[[str, str], bool]

    def __init__(self, kind: Kind) -> None:
        self.kind, self.name = kind, kind.names[1]
        self.clock = StillClock()

    def event(self, sequence: int) -> Any:
        return self.kind.event(self.name, sequence)

    def history(self, length: int) -> list[Any]:
        return self.kind.history(length, self.name)

    def file(self, sequence: int) -> str:
        return self.kind.form.file_name(self.event(sequence))

    def read(self) -> EventStream[Any]:
        return self.log.read(self.name)


class OnDisk(Subject):
    def __init__(self, kind: Kind, root: Path) -> None:
        super().__init__(kind)
        create(root)
        self._folder = root / kind.form.place(self.name)
        self._archive = Layout(root).archive
        self.log = FileLoopLog(root, self.clock) if kind is LOOPS else FileEventLog(kind.form, root, self.clock)

    def put(self, name, text):
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_text(text, encoding="utf-8")

    def text(self, name):
        return (self._folder / name).read_text(encoding="utf-8")

    def archived(self, folder, name):
        return (self._archive / folder / "events" / name).exists()


class InMemory(Subject):
    def __init__(self, kind: Kind, _: Path) -> None:
        super().__init__(kind)
        self.log = MemoryLoopLog(self.clock) if kind is LOOPS else MemoryEventLog(kind.form, self.clock)

    def put(self, name, text):
        self.log.files(self.name).files[name] = text.encode()

    def text(self, name):
        return self.log.files(self.name).files[name].decode()

    def archived(self, folder, name):
        return name in self.log.archived[folder].files


@pytest.fixture(params=[OnDisk, InMemory])
def subject(request, tmp_path) -> Subject:
    """The log of the issues."""
    return request.param(ISSUES, tmp_path)


@pytest.fixture(params=[OnDisk, InMemory])
def adapter(request):
    return request.param


@pytest.fixture(params=[ISSUES, LOOPS], ids=lambda kind: kind.form.kind)
def every(request, adapter, tmp_path) -> Subject:
    """The log of any kind."""
    return adapter(request.param, tmp_path)


def fill_any(every: Subject, length: int, name: Any = None) -> None:
    for event in every.kind.history(length, name or every.name):
        every.log.append(event, expected_sequence=event.sequence - 1)


def fill(log: EventLog, length: int, issue_number: int = 12) -> None:
    for event in history(length, issue_number):
        log.append(event, expected_sequence=event.sequence - 1)


def test_an_unknown_name_is_an_empty_stream(every):
    assert every.log.streams() == ()
    stream = every.read()
    assert (stream.records, stream.problems, stream.highest_sequence, stream.last_sequence) == ((), (), 0, 0)


def test_streams_are_named_in_ascending_order(every):
    first, second, third = every.kind.names
    for name in (third, first, second):
        fill_any(every, 1, name)
    assert every.log.streams() == every.kind.names


def test_what_was_appended_is_read_back_equal(every):
    written = [
        every.log.append(event, expected_sequence=event.sequence - 1, meta={"token": "12/00123456/2", "base_sha": SHA})
        for event in every.history(3)
    ]
    stream = every.read()
    assert list(stream.records) == written
    assert [record.event for record in stream.records] == every.history(3)
    assert (stream.highest_sequence, stream.last_sequence, stream.problems) == (3, 3, ())


def test_meta_says_when_and_what_came_before(every):
    first = every.log.append(
        every.event(1), expected_sequence=0, meta={"actor": "ada", "time": "never", "previous": "x"}
    )
    every.clock.advance(minutes=1)
    second = every.log.append(every.event(2), expected_sequence=1)
    assert first.meta == {"time": "2026-04-22T12:00:00Z", "previous": None, "actor": "ada"}
    assert second.meta == {"time": "2026-04-22T12:01:00Z", "previous": event_digest(every.event(1))}


def test_meta_comes_back_with_its_structure_and_its_scalars_as_text(every):
    meta = {"seconds": 1.5, "recovered": True, "agent": {"exit_code": None, "files": ["a", 2]}}
    record = every.log.append(every.event(1), expected_sequence=0, meta=meta)
    found = {key: record.meta[key] for key in meta}
    assert found == {"seconds": "1.5", "recovered": "true", "agent": {"exit_code": None, "files": ["a", "2"]}}


def test_a_writer_that_was_overtaken_is_told_and_nothing_is_written(every):
    fill_any(every, 2)
    with pytest.raises(SequenceConflict, match="expected to end at sequence 1, ends at 2"):
        every.log.append(every.event(2), expected_sequence=1)
    with pytest.raises(SequenceConflict):
        every.log.append(every.event(4), expected_sequence=3)
    assert every.read().last_sequence == 2


def test_an_event_is_appended_as_the_next_one_or_not_at_all(every):
    with pytest.raises(ValueError, match="sequence 2, expected 1"):
        every.log.append(every.event(2), expected_sequence=0)
    assert every.log.streams() == ()


def test_an_event_too_large_to_be_read_is_never_written(every):
    with pytest.raises(Refused, match=f"larger than {every.kind.form.limit} bytes"):
        every.log.append(every.event(1), expected_sequence=0, meta={"note": "x" * (every.kind.form.limit + 4_000)})
    assert every.read().highest_sequence == 0


def test_of_several_writers_at_once_one_wins(every):
    fill_any(every, 1)
    outcomes = []

    def write() -> None:
        try:
            outcomes.append(every.log.append(every.event(2), expected_sequence=1))
        except SequenceConflict as conflict:
            outcomes.append(conflict)

    writers = [threading.Thread(target=write) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sum(isinstance(outcome, SequenceConflict) for outcome in outcomes) == 7
    assert every.read().last_sequence == 2


def test_the_file_is_the_contract_s_block_in_its_order_and_meta_beside_it(subject):
    fill(subject.log, 1)
    subject.log.append(passed(), expected_sequence=1, meta={"actor": "ada"})
    expected = f"""\
iron_tree:
  version: 1
  task_key: auth-core
  issue_number: 12
  spec_revision: "00123456"
  approved_revision: "12345e67"
  sequence: 2
  event: verify_passed
  current_stage: checkup
  next_stage: done
  workflow_entry_state: ready_to_start
  approval_state: approved
  attempt_count: 1
  max_retry_count: 3
  code_publication_state: published
  pass_fail_outcome: pass
  completion_basis: verified
  code_ref: "{SHA}"
  verify_anchor_sha: "{SHA}"
  report_path: null
  promoted_doc: null
  reply_posted: null
meta:
  time: "2026-04-22T12:00:00Z"
  previous: "{event_digest(published())}"
  actor: ada
"""
    assert subject.text("0002-verify-passed.yml").replace('"', "") == expected.replace('"', "")
    assert f'code_ref: "{SHA}"' in subject.text("0002-verify-passed.yml")


def test_events_beyond_9999_stay_in_order(every):
    every.put(every.file(9998), "")
    every.put(every.file(9999), "")
    every.log.append(every.event(10_000), expected_sequence=9999)
    every.log.append(every.event(10_001), expected_sequence=10_000)
    stream = every.read()
    assert [record.event.sequence for record in stream.records] == [10_000, 10_001]
    assert stream.highest_sequence == 10_001


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("0002-run-started.yml", "iron_tree: [", "did not find expected node content"),
        ("0002-run-started.yml", "", "expected a mapping"),
        ("0002-run-started.yml", "loop:\n  version: 1\n", "no `iron_tree:` block"),
        ("0002-run-started.yml", "iron_tree: none\n", "no `iron_tree:` block"),
        ("0002-quantum-leap.yml", "iron_tree:\n  version: 1\n  event: quantum_leap\n", "upgrade irontree"),
        ("0002-odd.yml", "iron_tree:\n  version: 1\n  event: [a]\n", "it names no event"),
        ("0002-new.yml", "iron_tree:\n  version: 2\n  event: run_started\n", "protocol version '2'; upgrade irontree"),
        ("0002-new.yml", "iron_tree:\n  version: 1\n  event: run_started\n", "task_key: Field required"),
        ("0002-RUN.YAML", "iron_tree: [", "did not find expected node content"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_problem_and_counts_as_missing(subject, name, text, what):
    fill(subject.log, 1)
    subject.put(name, text)
    stream = subject.log.read(12)
    assert [record.event.sequence for record in stream.records] == [1]
    assert stream.highest_sequence == 2
    [problem] = stream.problems
    assert problem.path == f".mino/events/issue-12/{name}"
    assert what in problem.what


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("sequence: 1", "sequence: 3", "holds sequence 3"),
        ("issue_number: 12", "issue_number: 13", "belongs to issue_number 13"),
        ("attempt_count: 0", "attempt_count: lots", "attempt_count: Input should be a valid integer"),
        ("attempt_count: 0", "attempt_count: -1", "attempt_count"),
        ("code_ref: null", "code_ref: null\n  surprise: 1", "surprise: Extra inputs"),
        ("current_stage: definition", "current_stage: run", "current_stage"),
        ("task_key: auth-core", "task_key: ../../etc", "task_key"),
    ],
)
def test_an_edited_event_is_named_with_what_is_wrong(subject, old, new, what):
    fill(subject.log, 1)
    name = "0001-task-published.yml"
    subject.put(name, subject.text(name).replace(old, new, 1))
    [problem] = subject.log.read(12).problems
    assert what in problem.what
    assert name not in problem.what, "the path is said once"


def test_two_files_with_one_sequence_count_as_none(every):
    fill_any(every, 3)
    every.put("0002-verify-passed.yml", every.text(every.file(2)))
    stream = every.read()
    assert [record.event.sequence for record in stream.records] == [1, 3]
    assert {problem.path.rpartition("/")[2] for problem in stream.problems} == {
        every.file(2),
        "0002-verify-passed.yml",
    }


def test_files_that_are_no_events_are_nobody_s_business(every):
    fill_any(every, 1)
    for name in ("README.md", "notes.yml", ".DS_Store", f"{every.file(2)}.orig", "0002.yml", "x-0002-y.yml"):
        every.put(name, "anything")
    stream = every.read()
    assert (len(stream.records), stream.problems, stream.highest_sequence) == (1, (), 1)
    every.log.append(every.event(2), expected_sequence=1)
    assert every.text(".DS_Store") == "anything"


def test_a_log_goes_on_behind_a_file_that_cannot_be_read(every):
    fill_any(every, 1)
    every.put(every.file(2), "broken: [")
    record = every.log.append(every.event(3), expected_sequence=every.read().highest_sequence)
    assert record.meta["previous"] is None
    assert [record.event.sequence for record in every.read().records] == [1, 3]


def test_other_tools_keys_beside_the_block_do_no_harm(every):
    fill_any(every, 1)
    name = every.file(1)
    every.put(name, every.text(name).partition("meta:")[0] + "their_notes:\n  a: 1\n")
    [record] = every.read().records
    assert (record.event, record.meta) == (every.event(1), {})


def test_a_reply_is_recorded_once_and_the_chain_still_holds(subject):
    fill(subject.log, 1)
    subject.log.append(passed(), expected_sequence=1, meta={"actor": "ada"})
    subject.log.append(_done(), expected_sequence=2)
    subject.log.record_reply(12, 2, URL)
    subject.log.record_reply(12, 2, URL)
    records = subject.log.read(12).records
    assert records[1].event == passed(reply_posted=URL)
    assert records[1].meta["actor"] == "ada"
    assert digest_chain(records) == ()


@pytest.mark.parametrize(("sequence", "url"), [(1, URL), (2, "https://elsewhere.example/"), (3, URL), (0, URL)])
def test_a_reply_has_one_place_and_one_value(subject, sequence, url):
    fill(subject.log, 1)
    subject.log.append(passed(reply_posted=URL), expected_sequence=1)
    with pytest.raises(NotEligible):
        subject.log.record_reply(12, sequence, url)
    assert [record.event for record in subject.log.read(12).records] == [published(), passed(reply_posted=URL)]


def test_an_archived_stream_is_gone_and_its_issue_can_begin_again(every):
    fill_any(every, 2)
    folder = f"{every.kind.form.id(every.name)}-rev-00123456"
    assert every.log.archive(every.name, "00123456").name == folder
    assert every.log.streams() == ()
    assert every.archived(folder, every.file(2))
    fill_any(every, 1)
    assert every.read().last_sequence == 1


def test_an_archive_name_that_is_taken_gets_a_number(every):
    names = []
    for _ in range(3):
        fill_any(every, 1)
        foretold = every.log.archive_name(every.name, "00123456")
        names.append(every.log.archive(every.name, "00123456").name)
        assert names[-1] == foretold
    first = f"{every.kind.form.id(every.name)}-rev-00123456"
    assert names == [first, f"{first}-2", f"{first}-3"]


def test_it_tells_where_earlier_streams_went_oldest_first(every):
    assert every.log.archives(every.name) == ()
    of_it, other = every.name, every.kind.other
    for name, revision in ((of_it, "ffffffff"), (other, "00123456"), (of_it, "00123456"), (of_it, "ffffffff")):
        fill_any(every, 1, name)
        every.log.archive(name, revision)
    begins = every.kind.form.id(of_it)
    assert every.log.archives(of_it) == (
        *(f"{begins}-rev-ffffffff", f"{begins}-rev-00123456", f"{begins}-rev-ffffffff-2"),
    )


def test_it_tells_of_all_earlier_streams_also_of_names_that_have_none_now(every):
    for name in (every.name, every.kind.other):
        fill_any(every, 1, name)
        every.log.archive(name, "00123456")
    assert every.log.archives() == tuple(
        f"{every.kind.form.id(name)}-rev-00123456" for name in (every.name, every.kind.other)
    )


# --- what older tools left in comments -------------------------------------------------------------------


def block(event, key: str = "iron_tree") -> str:
    return "```yaml\n" + write_mapping({key: event.model_dump(mode="json")}) + "```\n"


def test_the_events_in_a_text_are_read_and_everything_else_is_passed_over(every):
    first, second = every.history(2)
    key = every.kind.form.block
    blocks = f"{block(first, key)}\n```yaml\nname: ci\n```\nand\n{block(second, key)}"
    found = every.log.read_text(f"Hello\n\n{blocks}\n{key}: no\n", URL, every.name)
    assert ([record.event for record in found.records], found.problems) == ([first, second], ())


@pytest.mark.parametrize(
    ("change", "newer"),
    [(("version: 1", "version: 2"), True), (("task_published", "task_dreamt"), True), (("sequence: 1", "x: 1"), False)],
)
def test_a_block_that_cannot_be_used_is_a_problem_that_names_its_comment(subject, change, newer):
    found = subject.log.read_text(block(published()).replace(*change), URL, 12)
    assert (found.records, [(p.path, p.newer) for p in found.problems]) == ((), [(URL, newer)])


def test_an_event_of_another_issue_is_not_this_one_s(subject):
    [problem] = subject.log.read_text(block(published(issue_number=13)), URL, 12).problems
    assert "speaks of issue 13" in problem.what


def test_a_stream_is_restored_whole_each_event_under_its_own_sequence(every):
    first, fourth = every.event(1), every.event(4)
    every.log.restore(every.name, [Record(fourth), Record(first, {"restored_from": URL})])
    stream = every.read()
    assert [record.event for record in stream.records] == [first, fourth]
    assert (stream.highest_sequence, stream.records[0].meta["restored_from"]) == (4, URL)
    assert stream.records[1].meta["time"] == "2026-04-22T12:00:00Z"


def test_a_restored_stream_is_chained_where_its_events_follow_each_other(every):
    every.log.restore(every.name, [Record(event) for event in every.history(3)])
    assert digest_chain(every.read().records) == ()


def test_nothing_is_restored_over_events_that_are_there(every):
    fill_any(every, 1)
    with pytest.raises(SequenceConflict):
        every.log.restore(every.name, [Record(every.event(1))])


def test_what_a_newer_version_wrote_is_no_gap(subject):
    fill(subject.log, 2)
    subject.put("0003-task-dreamt.yml", "iron_tree: {version: 2}\n")
    stream = subject.log.read(12)
    assert [problem.newer for problem in stream.problems] == [True]
    assert (stream.replayed().missing, "upgrade irontree" in stream.replayed().state.problem) == ((), True)


def test_there_is_nothing_to_archive_without_a_stream(every):
    with pytest.raises(NotEligible):
        every.log.archive(every.name, "00123456")


def _done() -> CheckupDone:
    common = passed(sequence=3).model_dump(include=set(RunCompleted.model_fields) - {"event"})
    return CheckupDone(**{**common, "current_stage": "done", "next_stage": "none"})


def test_every_event_has_a_lower_case_file_name():
    from irontree.domain.events import kebab

    assert all(kebab(name) == kebab(name).lower() for name in ISSUE_EVENTS)
