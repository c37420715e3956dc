"""What became of an approval while its form was open (R6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.domain.gates import asks_for_branch
from irontree.errors import BranchUndecided, EnvironmentRefused, RemoteUnavailable
from irontree.services.answers.approve import approve, branch_key, question_key, standing_of, wanted_for
from tests.support.workflow_scenes import NAME
from tests.support.workflow_scenes import write as write_workflow
from tests.support.world import ONE_TASK


def raising(error: Exception):
    def refuse(*_: object):
        raise error

    return refuse


def test_a_document_that_changed_is_another_question_and_one_that_is_approved_is_settled(scene):
    document = scene.write(ONE_TASK).name
    key = question_key(wanted_for(scene.app, document))
    assert standing_of(scene.app, document, key) == "open"
    scene.write(ONE_TASK.replace("hello", "hallo"))
    assert standing_of(scene.app, document, key) == "changed"
    scene.start(ONE_TASK)
    assert standing_of(scene.app, document, key) == "settled"


def test_where_the_branch_is_asked_for_another_branch_and_a_choice_elsewhere_are_noticed(scene):
    write_workflow(scene, "loop: false")
    scene.repository.switch("feature/x", scene.repository.remote["main"])
    with pytest.raises(BranchUndecided) as asked:
        wanted_for(scene.app, NAME)
    key = branch_key(NAME, asked.value)
    assert asks_for_branch(key)
    assert standing_of(scene.app, NAME, key) == "open"
    scene.repository.switch("feature/y", scene.repository.remote["main"])
    assert standing_of(scene.app, NAME, key) == "changed"
    chosen = wanted_for(scene.app, NAME, "isolated")
    assert standing_of(scene.app, NAME, question_key(chosen), "isolated") == "open"
    approve(scene.app, chosen, chosen.name, "ada")
    assert standing_of(scene.app, NAME, key) == "settled"
    assert standing_of(scene.app, NAME, question_key(chosen), "mine") == "settled", "whatever another form has chosen"


@pytest.mark.parametrize("error", [EnvironmentRefused("HEAD is detached"), RemoteUnavailable("away")])
def test_what_cannot_be_read_just_now_stays_open_and_keeps_nothing_else_from_being_looked_at(scene, error):
    document = scene.write(ONE_TASK).name
    key = question_key(wanted_for(scene.app, document))
    assert standing_of(replace(scene.app, policy=raising(error)), document, key) == "open"
