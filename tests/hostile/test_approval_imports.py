"""Plans that came with an archive: who approved them elsewhere, or wrote so into them, permits nothing here."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.domain.state import Phase
from irontree.errors import NotEligible
from irontree.services.answers.approve import approve
from irontree.services.execution import checkup
from irontree.services.execution.checkup import Decider
from irontree.services.execution.publish import cut_short
from irontree.services.execution.run import run
from irontree.services.execution.steps import catch_up
from irontree.services.execution.verify import verify
from irontree.services.proposals.sources import propose
from tests.support.issues import authorise, resolved, write
from tests.support.world import MANUAL_TASK, ONE_TASK, SPEC, Scene, make_scene, write_plan


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return make_scene(tmp_path)


def imported(scene: Scene) -> None:
    """As if the plans in force had come with an archive."""
    for revision in scene.plans.revisions():
        plan = scene.plans.load(revision)
        assert plan is not None
        scene.plans.save(plan.model_copy(update={"imported": True}))


def test_no_attempt_starts(scene):
    scene.publish(ONE_TASK)
    imported(scene)
    assert run(scene.app, 1).phase is Phase.STALE
    assert "run_started" not in scene.events()


def test_no_check_runs(scene):
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    imported(scene)
    assert verify(scene.app, 1).phase is Phase.STALE
    assert scene.checks.commands == []


def test_nothing_is_accepted(scene):
    scene.publish(MANUAL_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    imported(scene)
    with pytest.raises(NotEligible, match="came with an archive"):
        checkup.accept(scene.app, 1, Decider("ada"))


def test_no_issue_is_published_from_it(scene):
    proposal = propose(scene.app, scene.write(SPEC))
    write_plan(scene.app, proposal, proposal.name, "ada")
    imported(scene)
    assert cut_short(scene.app, scene.world) == ()
    catch_up(scene.app)
    assert scene.tracker.issues == {}


def test_who_approves_it_here_goes_on(scene):
    scene.publish(ONE_TASK)
    imported(scene)
    assert run(scene.app, 1).phase is Phase.STALE
    wanted = propose(scene.app, scene.root / "SPEC.md")
    assert not wanted.approved
    approve(scene.app, wanted, wanted.name, "ada")
    assert run(scene.app, 1).phase is Phase.COMMITTED


def test_an_issue_is_asked_for_as_well(scene):
    write(scene)
    authorise(scene, 1)
    imported(scene)
    assert run(scene.app, 1).phase is Phase.STALE
    wanted = resolved(scene, 1)
    assert wanted.due
    approve(scene.app, wanted, wanted.name, "ada")
    assert run(scene.app, 1).phase is Phase.COMMITTED
