"""What agents said may go in time, once their work is done; evidence and results stay."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from irontree.app import Preferences
from irontree.domain.settings import Automations
from irontree.services.consistency.reconcile import drop_old_transcripts
from irontree.services.record import RESULT_FILE, review_folder, transcript_folder
from tests.support.world import GREETING, MANUAL_TASK, Scene, TickingClock, accepts, make_scene, prepared

FILES = ("output.log", "prompt.md", RESULT_FILE, "summary.txt")


@pytest.fixture
def scene(tmp_path) -> Scene:
    """An issue that is done, with all that its agent left."""
    scene = make_scene(tmp_path)
    scene.drive(scene.start(MANUAL_TASK), prepared(accepts()))
    folder = transcript_folder(scene.app, scene.state(GREETING))
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text("said")
    return scene


def left(scene: Scene) -> list[str]:
    return sorted(path.name for path in transcript_folder(scene.app, scene.state(GREETING)).iterdir())


def drop(scene: Scene, *, keep: int, after: int) -> tuple[str, ...]:
    """Have the janitor come by that many days later."""
    later = TickingClock(scene.app.clock.now() + timedelta(days=after))
    settings = Preferences(automations=Automations(keep_transcripts_days=keep))
    return drop_old_transcripts(replace(scene.app, clock=later, preferences=lambda: settings))


def test_what_was_said_goes_after_so_many_days_and_how_it_ended_stays(scene):
    dropped = drop(scene, keep=30, after=31)
    assert sorted(Path(path).name for path in dropped) == ["output.log", "prompt.md"]
    assert left(scene) == sorted({RESULT_FILE, "summary.txt"})
    assert drop(scene, keep=30, after=31) == ()


def test_so_does_what_reviewers_said_and_nothing_that_an_agent_laid_beside_it(scene):
    attempt = transcript_folder(scene.app, scene.state(GREETING))
    review = review_folder(scene.app, scene.state(GREETING), "eve")
    for folder in (review / "1", attempt / "reviews-0002" / "eve" / "1"):
        folder.mkdir(parents=True)
        (folder / "output.log").write_text("said")
    dropped = drop(scene, keep=30, after=31)
    assert [path for path in dropped if "eve" in path] == [str((review / "1" / "output.log").relative_to(scene.root))]


@pytest.mark.parametrize(("keep", "after"), [(30, 29), (0, 10_000)])
def test_nothing_goes_before_its_time_or_without_a_setting(scene, keep, after):
    assert drop(scene, keep=keep, after=after) == ()
    assert left(scene) == sorted(FILES)


def test_what_was_said_of_work_that_is_not_done_stays(tmp_path):
    scene = make_scene(tmp_path)
    scene.drive(scene.start(MANUAL_TASK))
    folder = transcript_folder(scene.app, scene.state(GREETING))
    folder.mkdir(parents=True)
    (folder / "output.log").write_text("said")
    assert drop(scene, keep=1, after=100) == ()
