"""`repair` makes again what is derived from log and plans, and cleans up behind crashes; events are never written."""

from __future__ import annotations

from irontree.services.consistency.audit import AuditFinding
from irontree.services.consistency.reconcile import reconcile, repair
from irontree.services.execution.run import run
from tests.support.world import ONE_TASK, SPEC, Scene


def done(scene: Scene) -> list[str]:
    return [f"{one.where}: {one.what}" for one in repair(scene.app)]


def test_where_nothing_is_wrong_nothing_is_repaired_and_no_event_is_written(scene):
    scene.start(SPEC)
    before = {number: scene.log.read(number).highest_sequence for number in scene.log.streams()}
    assert repair(scene.app) == ()
    assert {number: scene.log.read(number).highest_sequence for number in scene.log.streams()} == before


def test_a_brief_that_lacks_sections_gets_them(scene):
    scene.publish(ONE_TASK)
    whole = scene.projections.read("brief", 1)
    start, end = whole.index("## Failure Context"), whole.index("## External Event")
    scene.projections.write("brief", 1, whole[:start] + whole[end:])
    assert done(scene) == ["issue-1: its brief lacked: Failure Context"]
    assert scene.projections.read("brief", 1) == whole


def test_deleted_briefs_are_made_again(scene):
    scene.publish(SPEC)
    scene.projections.texts.clear()
    assert done(scene) == [f"issue-{number}: its brief was made again" for number in range(1, 6)]


def test_a_loop_file_is_made_again_from_its_events(scene):
    loop = scene.start(ONE_TASK)
    before = scene.loops.read_entity(loop.id)
    scene.loops.entities[loop.id] = b"torn"
    assert done(scene) == [f"loop {loop.id}: its file was made again from its events"]
    again = scene.loops.read_entity(loop.id)
    assert again.model_copy(update={"created_at": before.created_at}) == before


def test_half_written_files_are_removed_and_counted(scene):
    scene.upkeep.leftovers = 2
    assert repair(scene.app) == (AuditFinding(".mino", "2 file(s) or folder(s) that a kill left removed"),)


def test_labels_are_set_back(scene):
    scene.publish(ONE_TASK)
    scene.forge_seen.set_labels(1, remove=["stage:task"])
    assert done(scene) == ["issue-1: the label stage:task was removed by hand"]
    assert "stage:task" in scene.labels()


def test_a_forge_that_is_away_is_told_and_the_rest_is_repaired(scene):
    scene.publish(ONE_TASK)
    scene.projections.texts.clear()
    scene.tracker.outage = "503"
    assert done(scene) == ["issue-1: its brief was made again"]
    assert any("503" in line for line in scene.notes.lines)


def test_repair_leaves_nothing_for_reconciliation_to_tell(scene):
    scene.publish(SPEC)
    run(scene.app, 1)
    scene.forge_seen.edit_issue(1, title="x", body="y")
    scene.forge_seen.set_labels(2, add=["stage:done"])
    repair(scene.app)
    found = reconcile(scene.app)
    assert (found.outside, found.problems, found.undelivered) == ((), (), ())
