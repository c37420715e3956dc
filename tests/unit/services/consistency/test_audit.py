"""`audit` re-derives the whole log and names exactly what cannot be trusted (R10, R13)."""

from __future__ import annotations

from irontree.services.consistency.audit import audit
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.proposals.proposal import ApprovalChoices
from irontree.services.proposals.sources import propose
from irontree.store.memory import MemoryResultStore
from tests.support.approving import write_plan
from tests.support.world import ONE, ONE_TASK, PARTS, SPEC, Scene, accepts, prepared


def worked_on(scene: Scene) -> Scene:
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    return scene


def finished(scene: Scene) -> Scene:
    scene.drive(scene.start(ONE_TASK))
    return scene


def found(scene: Scene) -> list[tuple[str, str]]:
    return [(finding.where, finding.what) for finding in audit(scene.app)]


def change(scene: Scene, name: str, old: bytes, new: bytes) -> None:
    files = scene.log.files(1).files
    assert old in files[name]
    files[name] = files[name].replace(old, new)


def test_a_log_that_was_only_written_by_the_program_proves_itself(scene):
    assert found(finished(scene)) == []


def test_a_tree_in_mid_work_proves_itself_too(scene):
    scene.publish(SPEC)
    run(scene.app, 1)
    assert found(scene) == []


def test_a_plan_that_keeps_what_its_document_lost_proves_itself(scene):
    scene.publish(SPEC)
    proposal = propose(scene.app, scene.write(ONE_TASK), choices=ApprovalChoices(keep_removed=True))
    assert write_plan(scene.app, proposal, proposal.name, "ada").kept
    assert found(scene) == []


def test_a_missing_event_is_named_by_its_sequence(scene):
    del worked_on(scene).log.files(1).files["0002-run-started.yml"]
    assert ("issue-1", "sequence 2 is missing or unreadable") in found(scene)


def test_an_event_that_may_not_stand_where_it_does_is_named(scene):
    change(worked_on(scene), "0003-run-completed.yml", b"attempt_count: 1", b"attempt_count: 2")
    assert any(where == "issue-1" and "counts attempt 2" in what for where, what in found(scene))


def test_an_event_that_was_changed_afterwards_is_named_though_it_is_legal(scene):
    worked_on(scene)
    sha = scene.state().commit
    change(scene, "0003-run-completed.yml", sha.encode(), b"f" * 40)
    assert ("issue-1", "the event before sequence 4 was changed after it was written") in found(scene)
    assert any("0003" in where or "sequence 3" in where for where, what in found(scene) if "not in this repo" in what)


def test_a_commit_that_no_ref_keeps_is_named_with_the_event_that_speaks_of_it(scene):
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    refs = scene.repository.refs
    for name in [name for name in refs if name.startswith("refs/irontree/")]:
        del refs[name]
    sha = scene.state().commit
    assert found(scene) == [("issue-1, sequence 3 (run_completed)", f"commit {sha} is reachable from no ref")]


def test_done_without_the_results_it_rests_on_is_named(scene):
    finished(scene)
    scene.results = MemoryResultStore()
    assert found(scene) == [("issue-1", f"it is done, but the check results at {scene.state().anchor} are gone")]


def test_a_plan_that_is_not_what_was_approved_is_named(scene):
    plan = scene.publish(ONE_TASK)
    scene.plans.save(plan.model_copy(update={"source": plan.source + "\n- [ ] and more\n"}))
    [(where, what)] = found(scene)
    assert (where, "not what was approved" in what) == (f".mino/plans/{plan.spec_revision}.yml", True)


def test_an_archived_stream_is_looked_at_as_well(scene):
    worked_on(scene)
    archive = scene.log.archive(1, scene.state().approved_revision)
    scene.publish(ONE_TASK)
    del scene.log.archived[archive.name].files["0003-run-completed.yml"]
    assert (f"archive/{archive.name}", "sequence 3 is missing or unreadable") in found(scene)


def test_done_on_results_that_failed_is_named(scene):
    finished(scene)
    report = scene.results.load(1, scene.state().anchor)
    failed = report.results[0].model_copy(update={"exit_code": 1})
    scene.results.save(report.model_copy(update={"results": (failed,)}))
    assert found(scene) == [("issue-1", f"it is done, but {failed.name} failed at {report.anchor}")]


def test_an_event_missing_from_a_loop_is_named(scene):
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    files = scene.loops.files(loop.id).files
    del files["0001-loop-started.yml"]
    assert (f"loop {loop.id}", "sequence 1 is missing") in found(scene)


def test_a_loop_whose_events_are_all_gone_is_named_though_its_file_is_there(scene):
    """No backup knew them; no other loop starts over it, so it cannot be called sound (R13)."""
    loop = scene.start(ONE_TASK)
    scene.loops.files(loop.id).files.clear()
    [finding] = audit(scene.app)
    assert finding.where == f"loop {loop.id}"
    assert "some of its events are gone" in finding.what
    assert "irontree init --from-backup" in finding.remedy


def test_a_parent_whose_child_is_not_done_is_named(scene):
    scene.drive(scene.start(SPEC), prepared(accepts("fine")))
    assert found(scene) == []
    number = scene.number(ONE)
    del scene.log.files(number).files["0005-checkup-done.yml"]
    assert (f"issue-{scene.number(PARTS)}", f"it is done by its children, but {ONE} is not") in found(scene)


def test_an_event_of_a_loop_that_was_changed_afterwards_is_named(scene):
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    files = scene.loops.files(loop.id).files
    files["0001-loop-started.yml"] = files["0001-loop-started.yml"].replace(
        b"budget_max_transitions: 50", b"budget_max_transitions: 51"
    )
    assert found(scene) == [(f"loop {loop.id}", "the event before sequence 2 was changed after it was written")]


def test_a_loop_file_that_cannot_be_read_is_named(scene):
    loop = scene.start(ONE_TASK)
    scene.loops.entities[loop.id] = b"torn"
    [(where, _)] = found(scene)
    assert where == f"loop {loop.id}"


def test_an_archived_stream_whose_issue_has_none_now_is_looked_at_as_well(scene):
    worked_on(scene)
    archive = scene.log.archive(1, scene.state().approved_revision)
    del scene.log.archived[archive.name].files["0003-run-completed.yml"]
    assert (f"archive/{archive.name}", "sequence 3 is missing or unreadable") in found(scene)


def test_what_a_newer_version_wrote_is_one_finding_with_one_advice(scene):
    worked_on(scene)
    change(scene, "0004-verify-passed.yml", b"verify_passed", b"verify_dreamt")
    [finding] = audit(scene.app)
    assert finding.line().count("upgrade irontree") == 1


def test_two_files_of_one_sequence_are_both_named(scene):
    files = worked_on(scene).log.files(1).files
    files["0004-run-started.yml"] = files["0002-run-started.yml"]
    assert [what for _, what in found(scene)].count("sequence 4 is taken by another file too") == 2


def test_a_file_that_was_backed_up_and_is_gone_is_named_with_how_to_get_it_back(scene):
    worked_on(scene)
    lost = scene.root / ".mino/events/issue-1/0005-checkup-done.yml"
    lost.parent.mkdir(parents=True)
    lost.write_text("iron_tree: {}")
    scene.repository.back_up()
    lost.unlink()
    finding = next(item for item in audit(scene.app) if "is gone" in item.what)
    assert finding.where == ".mino/events/issue-1/0005-checkup-done.yml"
    assert finding.remedy == "irontree init --from-backup"


def test_a_backup_that_cannot_be_read_is_named_with_what_makes_it_anew(scene):
    scene.publish(ONE_TASK)
    assert audit(scene.app) == ()
    scene.repository.backup_damaged = "its commit is missing"
    (finding,) = audit(scene.app)
    assert finding.line() == (
        "the log's backup: it cannot be read: its commit is missing -> `irontree checkup repair` makes it anew"
    )
