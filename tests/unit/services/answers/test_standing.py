"""What became of an approval while its form was open (R6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.errors import EnvironmentRefused, RemoteUnavailable
from irontree.services.answers.approve import question_key, standing_of, wanted_for
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


@pytest.mark.parametrize("error", [EnvironmentRefused("HEAD is detached"), RemoteUnavailable("away")])
def test_what_cannot_be_read_just_now_stays_open_and_keeps_nothing_else_from_being_looked_at(scene, error):
    document = scene.write(ONE_TASK).name
    key = question_key(wanted_for(scene.app, document))
    assert standing_of(replace(scene.app, policy=raising(error)), document, key) == "open"
