"""What every EventLog keeps, on disk and in memory."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

import pytest

from irontree.domain.digests import digest_chain, event_digest
from irontree.domain.events import ISSUE_EVENTS, CheckupDone, Record, RunCompleted
from irontree.errors import NotEligible, Refused, SequenceConflict
from irontree.ports import EventLog
from irontree.store.codec import write_mapping
from irontree.store.event_log import FileEventLog
from irontree.store.layout import Layout, create
from irontree.store.memory import MemoryEventLog
from tests.support.store import SHA, StillClock, history, passed, published, started

URL = "https://forge.example/issues/12#comment-3"


class Subject(Protocol):
    """A log, and a way behind its back."""

    log: EventLog
    clock: StillClock

    def put(self, name: str, text: str, issue_number: int = 12) -> None: ...
    def text(self, name: str, issue_number: int = 12) -> str: ...
    def archived(self, folder: str, name: str) -> bool: ...


class OnDisk:
    def __init__(self, root: Path) -> None:
        self.clock = StillClock()
        create(root)
        self._layout = Layout(root)
        self.log = FileEventLog(root, self.clock)

    def put(self, name, text, issue_number=12):
        folder = self._layout.stream(issue_number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")

    def text(self, name, issue_number=12):
        return (self._layout.stream(issue_number) / name).read_text(encoding="utf-8")

    def archived(self, folder, name):
        return (self._layout.archive / folder / "events" / name).exists()


class InMemory:
    def __init__(self, root: Path) -> None:
        self.clock = StillClock()
        self.log = MemoryEventLog(self.clock)

    def put(self, name, text, issue_number=12):
        self.log.files(issue_number).files[name] = text.encode()

    def text(self, name, issue_number=12):
        return self.log.files(issue_number).files[name].decode()

    def archived(self, folder, name):
        return name in self.log.archived[folder].files


@pytest.fixture(params=[OnDisk, InMemory])
def subject(request, tmp_path) -> Subject:
    return request.param(tmp_path)


def fill(log: EventLog, length: int, issue_number: int = 12) -> None:
    for event in history(length, issue_number):
        log.append(event, expected_sequence=event.sequence - 1)


def test_an_unknown_issue_is_an_empty_stream(subject):
    assert subject.log.streams() == ()
    stream = subject.log.read(12)
    assert (stream.records, stream.problems, stream.highest_sequence, stream.last_sequence) == ((), (), 0, 0)


def test_streams_are_issue_numbers_in_ascending_order(subject):
    for number in (100, 9, 12):
        fill(subject.log, 1, number)
    assert subject.log.streams() == (9, 12, 100)


def test_what_was_appended_is_read_back_equal(subject):
    written = [
        subject.log.append(
            event, expected_sequence=event.sequence - 1, meta={"token": "12/00123456/2", "base_sha": SHA}
        )
        for event in history(3)
    ]
    stream = subject.log.read(12)
    assert list(stream.records) == written
    assert [record.event for record in stream.records] == history(3)
    assert (stream.highest_sequence, stream.last_sequence, stream.problems) == (3, 3, ())


def test_meta_says_when_and_what_came_before(subject):
    first = subject.log.append(
        published(), expected_sequence=0, meta={"actor": "ada", "time": "never", "previous": "x"}
    )
    subject.clock.advance(minutes=1)
    second = subject.log.append(started(), expected_sequence=1)
    assert first.meta == {"time": "2026-04-22T12:00:00Z", "previous": None, "actor": "ada"}
    assert second.meta == {"time": "2026-04-22T12:01:00Z", "previous": event_digest(published())}


def test_meta_comes_back_with_its_structure_and_its_scalars_as_text(subject):
    meta = {"seconds": 1.5, "recovered": True, "agent": {"exit_code": None, "files": ["a", 2]}}
    record = subject.log.append(published(), expected_sequence=0, meta=meta)
    found = {key: record.meta[key] for key in meta}
    assert found == {"seconds": "1.5", "recovered": "true", "agent": {"exit_code": None, "files": ["a", "2"]}}


def test_a_writer_that_was_overtaken_is_told_and_nothing_is_written(subject):
    fill(subject.log, 2)
    with pytest.raises(SequenceConflict, match="expected to end at sequence 1, ends at 2"):
        subject.log.append(started(sequence=2), expected_sequence=1)
    with pytest.raises(SequenceConflict):
        subject.log.append(started(sequence=4), expected_sequence=3)
    assert subject.log.read(12).last_sequence == 2


def test_an_event_is_appended_as_the_next_one_or_not_at_all(subject):
    with pytest.raises(ValueError, match="sequence 2, expected 1"):
        subject.log.append(started(sequence=2), expected_sequence=0)
    assert subject.log.streams() == ()


def test_an_event_too_large_to_be_read_is_never_written(subject):
    with pytest.raises(Refused, match="larger than 65536 bytes"):
        subject.log.append(published(), expected_sequence=0, meta={"note": "x" * 70_000})
    assert subject.log.read(12).highest_sequence == 0


def test_of_several_writers_at_once_one_wins(subject):
    fill(subject.log, 1)
    outcomes = []

    def write() -> None:
        try:
            outcomes.append(subject.log.append(started(), expected_sequence=1))
        except SequenceConflict as conflict:
            outcomes.append(conflict)

    writers = [threading.Thread(target=write) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sum(isinstance(outcome, SequenceConflict) for outcome in outcomes) == 7
    assert subject.log.read(12).last_sequence == 2


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


def test_events_beyond_9999_stay_in_order(subject):
    subject.put("9998-run-started.yml", "")
    subject.put("9999-run-started.yml", "")
    subject.log.append(started(sequence=10_000), expected_sequence=9999)
    subject.log.append(started(sequence=10_001), expected_sequence=10_000)
    stream = subject.log.read(12)
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


def test_two_files_with_one_sequence_count_as_none(subject):
    fill(subject.log, 3)
    subject.put("0002-verify-passed.yml", subject.text("0002-run-started.yml"))
    stream = subject.log.read(12)
    assert [record.event.sequence for record in stream.records] == [1, 3]
    assert {problem.path.rpartition("/")[2] for problem in stream.problems} == {
        "0002-run-started.yml",
        "0002-verify-passed.yml",
    }


def test_files_that_are_no_events_are_nobody_s_business(subject):
    fill(subject.log, 1)
    for name in ("README.md", "notes.yml", ".DS_Store", "0002-run-started.yml.orig", "0002.yml", "x-0002-y.yml"):
        subject.put(name, "anything")
    stream = subject.log.read(12)
    assert (len(stream.records), stream.problems, stream.highest_sequence) == (1, (), 1)


def test_a_log_goes_on_behind_a_file_that_cannot_be_read(subject):
    fill(subject.log, 1)
    subject.put("0002-run-started.yml", "broken: [")
    record = subject.log.append(started(sequence=3), expected_sequence=subject.log.read(12).highest_sequence)
    assert record.meta["previous"] is None
    assert [record.event.sequence for record in subject.log.read(12).records] == [1, 3]


def test_other_tools_keys_beside_the_block_do_no_harm(subject):
    fill(subject.log, 1)
    name = "0001-task-published.yml"
    subject.put(name, subject.text(name).partition("meta:")[0] + "their_notes:\n  a: 1\n")
    [record] = subject.log.read(12).records
    assert (record.event, record.meta) == (published(), {})


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


def test_an_archived_stream_is_gone_and_its_issue_can_begin_again(subject):
    fill(subject.log, 2)
    assert subject.log.archive(12, "00123456").name == "issue-12-rev-00123456"
    assert subject.log.streams() == ()
    assert subject.archived("issue-12-rev-00123456", "0002-run-started.yml")
    fill(subject.log, 1)
    assert subject.log.read(12).last_sequence == 1


def test_an_archive_name_that_is_taken_gets_a_number(subject):
    names = []
    for _ in range(3):
        fill(subject.log, 1)
        foretold = subject.log.archive_name(12, "00123456")
        names.append(subject.log.archive(12, "00123456").name)
        assert names[-1] == foretold
    assert names == ["issue-12-rev-00123456", "issue-12-rev-00123456-2", "issue-12-rev-00123456-3"]


def test_it_tells_where_earlier_streams_went_oldest_first(subject):
    assert subject.log.archives(12) == ()
    for issue_number, revision in ((12, "ffffffff"), (121, "00123456"), (12, "00123456"), (12, "ffffffff")):
        fill(subject.log, 1, issue_number)
        subject.log.archive(issue_number, revision)
    assert subject.log.archives(12) == (*("issue-12-rev-ffffffff", "issue-12-rev-00123456", "issue-12-rev-ffffffff-2"),)


def test_it_tells_of_all_earlier_streams_also_of_issues_that_have_none_now(subject):
    for issue_number in (12, 121):
        fill(subject.log, 1, issue_number)
        subject.log.archive(issue_number, "00123456")
    assert subject.log.archives() == ("issue-12-rev-00123456", "issue-121-rev-00123456")


# --- what older tools left in comments -------------------------------------------------------------------


def block(event) -> str:
    return "```yaml\n" + write_mapping({"iron_tree": event.model_dump(mode="json")}) + "```\n"


def test_the_events_in_a_text_are_read_and_everything_else_is_passed_over(subject):
    text = f"Hello\n\n{block(published())}\n```yaml\nname: ci\n```\nand\n{block(started())}\niron_tree: no\n"
    found = subject.log.read_text(text, URL, 12)
    assert ([record.event for record in found.records], found.problems) == ([published(), started()], ())


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


def test_a_stream_is_restored_whole_each_event_under_its_own_sequence(subject):
    subject.log.restore(12, [Record(started(sequence=4)), Record(published(), {"restored_from": URL})])
    stream = subject.log.read(12)
    assert [record.event for record in stream.records] == [published(), started(sequence=4)]
    assert (stream.highest_sequence, stream.records[0].meta["restored_from"]) == (4, URL)
    assert stream.records[1].meta["time"] == "2026-04-22T12:00:00Z"


def test_a_restored_stream_is_chained_where_its_events_follow_each_other(subject):
    subject.log.restore(12, [Record(event) for event in history(3)])
    assert digest_chain(subject.log.read(12).records) == ()


def test_nothing_is_restored_over_events_that_are_there(subject):
    fill(subject.log, 1)
    with pytest.raises(SequenceConflict):
        subject.log.restore(12, [Record(published())])


def test_what_a_newer_version_wrote_is_no_gap(subject):
    fill(subject.log, 2)
    subject.put("0003-task-dreamt.yml", "iron_tree: {version: 2}\n")
    stream = subject.log.read(12)
    assert [problem.newer for problem in stream.problems] == [True]
    assert (stream.replayed().missing, "upgrade irontree" in stream.replayed().state.problem) == ((), True)


def test_there_is_nothing_to_archive_without_a_stream(subject):
    with pytest.raises(NotEligible):
        subject.log.archive(12, "00123456")


def _done() -> CheckupDone:
    common = passed(sequence=3).model_dump(include=set(RunCompleted.model_fields) - {"event"})
    return CheckupDone(**{**common, "current_stage": "done", "next_stage": "none"})


def test_every_event_has_a_lower_case_file_name():
    from irontree.domain.events import kebab

    assert all(kebab(name) == kebab(name).lower() for name in ISSUE_EVENTS)
