"""Killed anywhere, `hotl-rt` leaves the old or the new file, and the next command goes on from there."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from irontree.domain.workflow import run as model
from irontree.domain.workflow.run import run_from_json
from irontree.store.hotl_runs import HotlRuns
from tests.support.disk import Stopped, stopping_at
from tests.support.hotl import Hotl, call, workflow

PASSES = "loop: false\nverify: echo ok"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def killed_at(step: int, hotl: Hotl) -> bool:
    """Start step 1, killed before that step of its writes; False if it has fewer."""
    runs = HotlRuns(hotl.folder, stopping_at(step))
    try:
        runs.change(hotl.state_file, lambda run: model.start(run, 1, NOW))
    except Stopped:
        return True
    return False


@pytest.mark.parametrize("step", range(10))  # five for each of two files
def test_a_command_killed_at_any_step_leaves_old_or_new(hotl: Hotl, step: int):
    hotl.begin(PASSES)
    before, report = hotl.state, hotl.report
    after = model.run_as_json(model.start(run_from_json(before), 1, NOW).run)
    assert killed_at(step, hotl)
    assert hotl.state in (before, json.loads(json.dumps(after)))
    assert hotl.report == report or hotl.report.endswith("**[03:04:05]** → Step 1: Part 1\n")
    hotl.finish(1)
    assert (hotl.step(1)["status"], hotl.step(1)["attempts"]) == ("done", 1)
    assert "| ✓ Done | 1 |" in hotl.report


@pytest.mark.parametrize("step", range(20))
def test_an_init_killed_at_any_step_leaves_a_whole_run_or_none(hotl: Hotl, step: int):
    hotl.begin(PASSES)
    example = run_from_json(hotl.state)
    other = hotl.folder / "other"
    other.mkdir()
    runs = HotlRuns(other, stopping_at(step))
    try:
        runs.begin(lambda: example)
        killed = False
    except Stopped:
        killed = True
    states = HotlRuns(other).states
    assert [HotlRuns(other).read(path) for path in states] in ([], [example])
    assert killed or states
    assert HotlRuns(other).begin(lambda: model.replace(example, run_id=f"{example.run_id}-again")).run_id


def printed(folder: Path, branch: str) -> dict[str, str]:
    """What `prepare` prints of the workflow in *folder*."""
    path = str(folder.resolve() / "hotl-workflow-test.md")
    return {"branch": branch, "workflow_path": path, "source_branch": "main", "source_head": "c0ffee0"}


def remembers(folder: Path, branch: str, step: int | None = None) -> bool:
    """Keep it there, killed before that step of the writes; False if it has fewer."""
    try:
        HotlRuns(folder, None if step is None else stopping_at(step)).remember(printed(folder, branch))
    except Stopped:
        return True
    return False


def begun_with(folder: Path) -> tuple[str, str | None]:
    """The branches that a run has which begins there."""
    run_id = call("init", folder / "hotl-workflow-test.md").out.strip()
    state = json.loads((folder / ".hotl" / "state" / f"{run_id}.json").read_text())
    return state["branch"], state.get("source_branch")


@pytest.mark.parametrize("earlier", [(), ("hotl/old",)], ids=["first", "again"])
@pytest.mark.parametrize("step", range(20))
def test_what_prepare_printed_is_kept_whole_or_as_before_wherever_it_is_killed(
    hotl: Hotl, step: int, earlier: tuple[str, ...]
):
    """And the run that begins there has what was kept."""
    (hotl.folder / "hotl-workflow-test.md").write_text(workflow(PASSES))
    for branch in earlier:
        assert not remembers(hotl.folder, branch)
    killed = remembers(hotl.folder, "hotl/new", step)
    before = ("hotl/old", "main") if earlier else ("hotl/test", None)
    found = begun_with(hotl.folder)
    assert found in ((before,) if killed else ()) + (("hotl/new", "main"),)
    assert not remembers(hotl.folder, "hotl/new")
    assert begun_with(hotl.folder) == ("hotl/new", "main")
    prepared = hotl.folder / ".hotl" / "prepared"
    assert [path.name for path in prepared.iterdir()] == ["test.json"], "nothing is left of the writer"


def test_the_steps_of_that_kill_test_reach_the_end(hotl: Hotl):
    assert remembers(hotl.folder, "hotl/new", 0)
    assert not remembers(hotl.folder, "hotl/new", 19)


def test_a_disk_that_refuses_is_said_in_words(hotl: Hotl):
    hotl.begin(PASSES)
    folder = hotl.folder / ".hotl" / "reports"
    (folder / f"{hotl.run_id}.md").unlink()
    folder.rmdir()
    folder.write_text("in the way")
    called = hotl("step", 1, "start")
    assert (called.code, called.out) == (1, "")
    assert called.err.startswith("ERROR: ")
    assert str(folder) in called.err
    folder.unlink()
    hotl.finish(1)
    assert Path(hotl.state["report_path"]).read_text().startswith("# Execution Report: ")


@pytest.mark.parametrize("named", ["precious", "../precious", "{folder}/precious", ".hotl/reports/../../precious"])
@pytest.mark.parametrize("root", ["{folder}", "{folder}/.."])
def test_a_state_that_names_another_file_for_its_report_has_nothing_overwritten(hotl: Hotl, named: str, root: str):
    """An agent can write the state, and whoever decides at a gate has other rights."""
    hotl.begin(PASSES)
    places = [hotl.folder / "precious", hotl.folder.parent / "precious"]
    for place in places:
        place.write_text("precious")
    changed = {"report_path": named.format(folder=hotl.folder), "execution_root": root.format(folder=hotl.folder)}
    hotl.state_file.write_text(json.dumps(hotl.state | changed))
    hotl.ok("step", 1, "start")
    assert [place.read_text() for place in places] == ["precious"] * 2
    report = hotl.folder / ".hotl" / "reports" / f"{hotl.state_file.stem}.md"
    assert report.read_text().endswith("→ Step 1: Part 1\n")
