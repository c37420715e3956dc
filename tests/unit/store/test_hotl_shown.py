"""Runs that Iron Tree drives, in the folder of `hotl-rt`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from irontree.domain.workflow.compile import Ticked, read_workflow, with_boxes
from irontree.domain.workflow.lint import interpret_linted
from irontree.domain.workflow.reading import read
from irontree.domain.workflow.run import Place, Run, begin
from irontree.errors import EnvironmentRefused, Refused
from irontree.files import is_leftover
from irontree.store.hotl_runs import HotlRuns
from tests.support.disk import Stopped, stopping_at
from tests.support.hotl import workflow

NAME = "hotl-workflow-rate.md"
TEXT = workflow("loop: false\nverify: pytest")
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OURS = {"driver": "irontree", "loop_id": "x"}


def a_run(folder: Path, name: str = NAME) -> Run:
    flow, _ = interpret_linted(read(TEXT))
    top = str(folder)
    return begin(flow, Place(f"{top}/{name}", f"{top}/{name}", top, top, f"{top}/.hotl/reports"), AT)


def marking(*done: int) -> Callable[[str], Ticked | None]:
    return partial(with_boxes, source=read_workflow(TEXT.encode(), NAME).source, done=done)


def test_a_run_is_shown_again_in_its_place(tmp_path):
    runs, run = HotlRuns(tmp_path), replace(a_run(tmp_path), more=OURS)
    runs.show(run, ["**[03:04:05]** one"])
    runs.show(replace(run, status="completed"), ["**[03:04:05]** two"])
    (state,) = runs.states
    assert (state.stem, runs.read(state).status) == ("rate-20260102T030405Z", "completed")
    report = (tmp_path / ".hotl" / "reports" / f"{state.stem}.md").read_text()
    assert "one" not in report
    assert report.endswith("**[03:04:05]** two\n")
    with pytest.raises(Refused, match="Iron Tree drives the run"):
        runs.change(state, lambda _: pytest.fail("it was asked"))


def test_an_id_that_another_run_has_is_not_taken(tmp_path):
    runs, other = HotlRuns(tmp_path), a_run(tmp_path)
    runs.begin(lambda: other)
    runs.show(replace(a_run(tmp_path), more=OURS), [])
    first, second = runs.states
    assert runs.read(first) == other
    assert (second.stem, runs.read(second).run_id) == ("rate-20260102T030406Z", "rate-20260102T030406Z")
    assert (tmp_path / ".hotl" / "reports" / f"{second.stem}.md").is_file()


@pytest.mark.parametrize("name", [".hotl", ".hotl/state", ".hotl/reports", ".hotl/.gitignore", ".hotl/state/.lock"])
def test_nothing_is_written_where_a_link_leads(tmp_path, name):
    """Whoever can push, or an agent whose work is published, can put one there."""
    here, outside = tmp_path / "here", tmp_path / "outside"
    outside.mkdir()
    there = outside / "file" if name.endswith(("ignore", "lock")) else outside
    (outside / "file").write_text("mine")
    (outside / "file").chmod(0o755)
    (here / name).parent.mkdir(parents=True)
    (here / name).symlink_to(there)
    runs, run = HotlRuns(here), a_run(here)
    for write in (lambda: runs.begin(lambda: run), lambda: runs.show(replace(run, more=OURS), [])):
        with pytest.raises(EnvironmentRefused, match="is a link"):
            write()
    assert [(path.name, path.read_text(), path.stat().st_mode & 0o777) for path in outside.iterdir()] == [
        ("file", "mine", 0o755)
    ]


@pytest.mark.parametrize("mode", [0o755, 0o644, 0o444])
def test_a_tick_keeps_the_mode_and_leaves_a_file_that_may_not_be_written(tmp_path, mode):
    (tmp_path / NAME).write_text(TEXT)
    (tmp_path / NAME).chmod(mode)
    HotlRuns(tmp_path).tick(NAME, marking(1))
    assert (tmp_path / NAME).stat().st_mode & 0o777 == mode
    assert ("- [x]" in (tmp_path / NAME).read_text()) is (mode != 0o444)


@pytest.mark.parametrize("step", range(5))  # four, and none
def test_killed_at_any_step_of_a_tick_the_file_is_as_it_was_or_ticked_and_nothing_lies_beside_it(tmp_path, step):
    path = tmp_path / NAME
    path.write_text(TEXT)
    path.chmod(0o640)
    try:
        HotlRuns(tmp_path, stopping_at(step)).tick(NAME, marking(1))
        killed = False
    except Stopped:
        killed = True
    assert killed is (step < 4)
    assert path.read_text() in (TEXT, TEXT.replace("- [ ]", "- [x]"))
    assert {each.name for each in tmp_path.iterdir()} == {NAME, ".hotl"}
    HotlRuns(tmp_path).tick(NAME, marking(1))
    assert (path.read_text(), path.stat().st_mode & 0o777) == (TEXT.replace("- [ ]", "- [x]"), 0o640)
    assert [each.name for each in (tmp_path / ".hotl").iterdir()] == ["state"]


@pytest.mark.parametrize("step", range(30))
def test_a_run_is_shown_whole_after_a_kill_at_any_step(tmp_path, step):
    run, log = replace(a_run(tmp_path), more=OURS), ["**[03:04:05]** one"]
    with suppress(Stopped):
        HotlRuns(tmp_path, stopping_at(step)).show(run, log)
    runs = HotlRuns(tmp_path)
    assert [runs.read(state) for state in runs.states] in ([], [run])
    runs.show(run, log)
    (state,) = runs.states
    assert runs.read(state) == run
    assert (tmp_path / ".hotl" / "reports" / f"{state.stem}.md").read_text().endswith("one\n")
    assert not [path for path in tmp_path.rglob(".*") if is_leftover(path.name)]


def test_a_file_with_two_names_is_left_alone(tmp_path):
    (tmp_path / NAME).write_text(TEXT)
    (tmp_path / "other.md").hardlink_to(tmp_path / NAME)
    HotlRuns(tmp_path).tick(NAME, marking(1))
    assert (tmp_path / NAME).read_text() == (tmp_path / "other.md").read_text() == TEXT


def test_a_file_keeps_its_mode_and_its_line_ends(tmp_path):
    path = tmp_path / NAME
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert HotlRuns(tmp_path).tick(NAME, marking(1)) == ()
    assert path.read_bytes() == TEXT.replace("- [ ]", "- [x]").replace("\n", "\r\n").encode()
    assert HotlRuns(tmp_path).tick(NAME, marking()) == (1,)
    assert path.read_bytes() == TEXT.replace("\n", "\r\n").encode()


def test_what_leads_elsewhere_or_is_no_text_is_left_alone(tmp_path):
    runs = HotlRuns(tmp_path)
    assert runs.tick(NAME, marking(1)) == ()
    (tmp_path / "other.md").write_text(TEXT)
    (tmp_path / NAME).symlink_to("other.md")
    assert runs.tick(NAME, marking(1)) == ()
    assert (tmp_path / "other.md").read_text() == TEXT
    (tmp_path / "bytes.md").write_bytes(b"\xff\xfe")
    assert runs.tick("bytes.md", marking(1)) == ()
