"""What others did to issues is seen by listings alone; what we did, or are about to do, is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.services.consistency.drift import drifted_issues
from irontree.services.consistency.reconcile import reconcile
from tests.support.world import MANUAL_TASK, ONE_TASK, Scene


def edited(scene: Scene) -> None:
    reconcile(scene.app)  # which looks at the text for the first time
    scene.forge_seen.edit_issue(1, title="Something else")


CHANGES = {
    "closed": lambda scene: scene.forge_seen.edit_issue(1, state="closed"),
    "deleted": lambda scene: scene.tracker.issues.clear(),
    "label set": lambda scene: scene.forge_seen.set_labels(1, add=["stage:done"]),
    "label removed": lambda scene: scene.forge_seen.set_labels(1, remove=["pending-acceptance"]),
    "edited": edited,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_others_did_to_an_issue_is_seen(scene, change):
    scene.drive(scene.start(MANUAL_TASK))
    assert drifted_issues(scene.app) == frozenset()
    change(scene)
    assert drifted_issues(scene.app) == {1}


def test_a_done_issue_is_seen_when_it_is_opened_again_and_is_none_of_it_while_it_is_closed(scene):
    scene.drive(scene.start(ONE_TASK))
    assert drifted_issues(scene.app) == frozenset()
    scene.forge_seen.edit_issue(1, state="open")
    assert drifted_issues(scene.app) == {1}


def test_an_edit_that_was_told_is_not_seen_again(scene):
    scene.drive(scene.start(MANUAL_TASK))
    edited(scene)
    reconcile(scene.app)
    assert drifted_issues(scene.app) == frozenset()


def test_nothing_is_asked_of_the_forge_where_nothing_is_published(scene):
    assert drifted_issues(scene.app) == frozenset()


class Meanwhile:
    """A forge that lists what is open only after something has been done."""

    def __init__(self, forge, do) -> None:
        self._forge, self._do = forge, do

    def open_issues(self, label: str):
        self._do()
        return self._forge.open_issues(label)


def test_what_we_do_while_the_forge_is_asked_is_no_change_by_others(scene):
    loop = scene.start(MANUAL_TASK)
    app = replace(scene.app, forge=lambda: Meanwhile(scene.forge_seen, lambda: scene.drive(loop)))
    assert drifted_issues(app) == frozenset()
