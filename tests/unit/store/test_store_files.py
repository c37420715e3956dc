"""What the file adapters do beyond their ports: names, what is kept, and what a damaged file means."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from irontree.errors import EnvironmentRefused, LogDamaged
from irontree.files import replace
from irontree.ports import EffectLedger
from irontree.store.documents import FileDeliveries, FilePlanStore, FileResultStore
from irontree.store.event_log import FileEventLog, FileLoopLog
from irontree.store.layout import Layout, create
from irontree.store.streams import ISSUE_FORM
from tests.support.store import LOOP_ID, SHA, StillClock, check_report, entity, plan, published, started


@pytest.fixture
def layout(tmp_path) -> Layout:
    return create(tmp_path)


def files_of(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_the_state_folder_hides_everything_but_its_configuration_from_git(layout):
    assert (layout.state / ".gitignore").read_text() == "*\n!config.yml\n!.gitignore\n"
    assert files_of(layout.root) == [".mino/.gitignore"]


def test_creating_again_leaves_what_is_there(layout):
    (layout.state / ".gitignore").write_text("mine\n")
    assert create(layout.root).state == layout.state
    assert (layout.state / ".gitignore").read_text() == "mine\n"


def test_a_link_or_a_file_in_place_of_the_state_folder_is_refused(tmp_path):
    """Git would not ignore it, and two repositories could share one."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".mino").symlink_to("elsewhere")
    with pytest.raises(EnvironmentRefused, match="is a symbolic link"):
        create(tmp_path)
    assert not [*(tmp_path / "elsewhere").iterdir()]
    (tmp_path / ".mino").unlink()
    (tmp_path / ".mino").touch()
    with pytest.raises(EnvironmentRefused, match="is no folder"):
        create(tmp_path)


def test_making_the_adapters_and_reading_creates_nothing(tmp_path):
    log, loops = FileEventLog(ISSUE_FORM, tmp_path, StillClock()), FileLoopLog(tmp_path, StillClock())
    plans, results, deliveries = (
        FilePlanStore(tmp_path),
        FileResultStore(tmp_path, tmp_path / "key"),
        FileDeliveries(tmp_path),
    )
    assert (log.streams(), log.read(1).records, loops.ids(), plans.revisions()) == ((), (), (), ())
    assert (loops.read_entity(LOOP_ID), plans.load("00123456"), results.load(1, SHA)) == (None, None, None)
    assert deliveries.load(1) == EffectLedger()
    assert list(tmp_path.iterdir()) == []


def test_writing_where_nothing_was_initialised_says_how_to_begin(tmp_path):
    with pytest.raises(EnvironmentRefused) as caught:
        FileEventLog(ISSUE_FORM, tmp_path, StillClock()).append(published(), expected_sequence=0)
    assert "irontree init" in caught.value.remedy


def test_the_names_on_disk_are_the_contract_s(layout):
    FileEventLog(ISSUE_FORM, layout.root, StillClock()).append(published(), expected_sequence=0)
    FilePlanStore(layout.root).save(plan())
    FileResultStore(layout.root, layout.root / "key").save(check_report())
    FileDeliveries(layout.root).save(12, EffectLedger(1))
    FileLoopLog(layout.root, StillClock()).write_entity(entity())
    assert files_of(layout.state) == [
        ".append",
        ".gitignore",
        "deliveries/issue-12",
        "events/issue-12/0001-task-published.yml",
        f"loops/{LOOP_ID}.yml",
        "plans/00123456.yml",
        f"reports/issue-12/{SHA}.yml",
    ]


def test_the_entity_has_the_contract_s_keys_and_completion_comes_with_completion(layout):
    loops = FileLoopLog(layout.root, StillClock())
    loops.write_entity(entity(intent="first ten issues\nplease\n"))
    before = layout.loop(LOOP_ID).read_text()
    assert re.findall(r"^(\w+):", before, re.MULTILINE) == [
        *("loop_id", "created_at", "goal_kind", "intent", "resolved_query", "task_keys", "budget_max_transitions"),
        *("budget_used", "status", "halt_reason", "halt_at_task_key", "halt_at_iso", "transitions"),
    ]
    assert "intent: |\n  first ten issues\n  please\n" in before
    loops.write_entity(entity(status="completed", completed_at="2026-04-22T16:00:00Z"))
    assert layout.loop(LOOP_ID).read_text().endswith('completed_at: "2026-04-22T16:00:00Z"\n')


def test_each_other_plan_of_a_revision_is_kept_under_a_number(layout):
    store = FilePlanStore(layout.root)
    for budget in (50, 60, 60, 70):
        store.save(plan(budget_max_transitions=budget))
    assert sorted(path.name for path in layout.plans.iterdir()) == ["00123456.1.yml", "00123456.2.yml", "00123456.yml"]
    assert "budget_max_transitions: 50\n" in (layout.plans / "00123456.1.yml").read_text()
    assert store.revisions() == ("00123456",)


def test_a_plan_shows_its_source_as_the_text_it_is(layout):
    FilePlanStore(layout.root).save(plan(source="# Auth\n\n- [ ] tokens expire\n"))
    assert "source: |\n  # Auth\n\n  - [ ] tokens expire\n" in (layout.plans / "00123456.yml").read_text()


def test_a_plan_that_was_changed_on_disk_is_read_again(layout):
    store = FilePlanStore(layout.root)
    store.save(plan())
    assert store.load("00123456").approval.by == "ada"
    path = layout.plans / "00123456.yml"
    path.write_text(path.read_text().replace("by: ada", "by: bob"))
    os.utime(path, ns=(1, 1))
    assert store.load("00123456").approval.by == "bob"


@pytest.mark.parametrize(
    ("content", "what"),
    [("nodes: [", "line 2"), ("version: 1\n", "spec_revision: Field required"), ("version: 2\n", "version")],
)
def test_a_damaged_plan_is_named_with_the_way_back_and_hides_no_other(layout, content, what):
    store = FilePlanStore(layout.root)
    store.save(plan(spec_revision="aaaaaaaa"))
    (layout.plans / "bbbbbbbb.yml").write_text(content)
    assert store.revisions() == ("bbbbbbbb", "aaaaaaaa")
    with pytest.raises(LogDamaged, match=re.escape(what)) as caught:
        store.load("bbbbbbbb")
    assert caught.value.message.startswith(".mino/plans/bbbbbbbb.yml")
    assert caught.value.remedy == "move .mino/plans/bbbbbbbb.yml away and restore it: irontree init --from-backup"


def test_a_plan_under_another_revision_s_name_is_not_believed(layout):
    FilePlanStore(layout.root).save(plan())
    (layout.plans / "00123456.yml").rename(layout.plans / "bbbbbbbb.yml")
    with pytest.raises(LogDamaged, match="is the plan of 00123456"):
        FilePlanStore(layout.root).load("bbbbbbbb")


def test_damaged_results_say_how_to_get_new_ones(layout):
    FileResultStore(layout.root, layout.root / "key").save(check_report())
    (layout.reports(12) / f"{SHA}.yml").write_text("complete: perhaps\n")
    with pytest.raises(LogDamaged) as caught:
        FileResultStore(layout.root, layout.root / "key").load(12, SHA)
    assert "verify again" in caught.value.remedy


@pytest.mark.parametrize("content", ["", "sequence: [", "sequence: -1\n", "sequence: 3\nmore: 1\n"])
def test_a_damaged_cursor_means_delivering_again(layout, content):
    layout.delivery(12).parent.mkdir()
    layout.delivery(12).write_text(content)
    assert FileDeliveries(layout.root).load(12) == EffectLedger()


def test_a_file_where_a_stream_should_be_stops_nothing(layout):
    layout.events.mkdir()
    layout.stream(12).write_text("not a folder")
    log = FileEventLog(ISSUE_FORM, layout.root, StillClock())
    assert log.streams() == ()
    assert log.read(12).records == ()


def test_folders_that_are_no_streams_are_not_listed(layout):
    log = FileEventLog(ISSUE_FORM, layout.root, StillClock())
    log.append(published(), expected_sequence=0)
    for name in ("issue-012", "issue-0", "issue-x", "old", "issue-99"):
        (layout.events / name).mkdir()
    assert log.streams() == (12,)


def test_earlier_streams_are_told_in_the_order_in_which_they_ended_wherever_their_files_come_from(layout):
    """An import writes them all anew, in the order of their names."""
    for minute, revision in ((1, "ffffffff"), (2, "00000000")):
        log = FileEventLog(ISSUE_FORM, layout.root, StillClock(datetime(2026, 4, 22, 12, minute, tzinfo=UTC)))
        log.append(published(), expected_sequence=0)
        os.utime(log.archive(12, revision), (0, 10 - minute))
    assert log.archives(12) == ("issue-12-rev-ffffffff", "issue-12-rev-00000000")


def test_an_event_that_is_a_folder_is_a_problem(layout):
    log = FileEventLog(ISSUE_FORM, layout.root, StillClock())
    log.append(published(), expected_sequence=0)
    (layout.stream(12) / "0002-run-started.yml").mkdir()
    [problem] = log.read(12).problems
    assert "directory" in problem.what
    log.append(started(sequence=3), expected_sequence=2)
    assert [record.event.sequence for record in log.read(12).records] == [1, 3]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_named_with_what_to_do(layout):
    layout.state.chmod(0o500)
    with pytest.raises(EnvironmentRefused, match=re.escape(str(layout.state))) as caught:
        FilePlanStore(layout.root).save(plan())
    layout.state.chmod(0o700)
    assert "permissions" in caught.value.remedy


def test_a_disk_error_is_said_with_its_file(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EnvironmentRefused, match=f"{tmp_path}/file: not a folder, and one has to be there"):
        replace(tmp_path / "file" / "below", b"")
