"""A commit that waits for acceptance and is published already: a kill came between push and event (R11, R14)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.errors import AnswerRefused, RemoteUnavailable
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.consistency.audit import audit
from irontree.services.loops import loop as loops
from tests.support.memory_project import push_from_elsewhere
from tests.support.watching import Killed, Watched, dying, dying_at
from tests.support.world import MANUAL_TASK, Scene, accepts, sends_back

LANDED = "waits for acceptance, but main has it already"


def killed_behind_the_push(scene: Scene) -> loops.Loop:
    """The loop of a task whose acceptance published its commit, and came to nothing more."""
    loop = scene.start(MANUAL_TASK)
    scene.drive(loop)
    dead = replace(scene.app, repository=Watched(scene.repository, ["publish"], dying("after")))
    with pytest.raises(Killed):
        answer_issue(dead, 1, accepts(), loop.id)
    assert scene.repository.remote["main"] == scene.state().anchor
    return loop


@pytest.mark.parametrize("answer", [sends_back("longer"), Answer("skip", "ada"), Answer("stop", "ada")])
@pytest.mark.parametrize("away", [False, True])
def test_any_other_answer_is_refused_and_acceptance_records_what_everybody_has(scene, answer, away):
    loop = killed_behind_the_push(scene)
    scene.repository.failures += [RemoteUnavailable("out")] * away
    with pytest.raises(AnswerRefused, match=LANDED) as refused:
        answer_issue(scene.app, 1, answer, loop.id)
    assert "`irontree accept 1`" in refused.value.remedy
    assert (scene.events()[-1], loops.read_loop(scene.app, loop.id).is_open) == ("verify_pending_acceptance", True)
    after = answer_issue(scene.app, 1, accepts(), loop.id)
    assert (after.last_event, after.code_ref) == ("checkup_accept_recorded", scene.repository.remote["main"])


def test_so_it_is_with_a_merge_that_was_pushed(scene):
    loop = scene.start(MANUAL_TASK)
    scene.drive(loop)
    push_from_elsewhere(scene.repository, {"elsewhere.txt": b"theirs"})
    dead = replace(scene.app, repository=Watched(scene.repository, ["publish"], dying_at("after", 2)))
    with pytest.raises(Killed):
        answer_issue(dead, 1, accepts(), loop.id)
    with pytest.raises(AnswerRefused, match=LANDED):
        answer_issue(scene.app, 1, sends_back("longer"), loop.id)
    assert answer_issue(scene.app, 1, accepts(), loop.id).code_ref == scene.repository.remote["main"]


def test_an_audit_names_it_until_it_is_accepted(scene):
    loop = killed_behind_the_push(scene)
    (found,) = audit(scene.app)
    assert (found.where, LANDED in found.what) == ("issue-1", True)
    answer_issue(scene.app, 1, accepts(), loop.id)
    assert audit(scene.app) == ()


def test_what_is_not_published_can_be_sent_back(scene):
    loop = scene.start(MANUAL_TASK)
    scene.drive(loop)
    assert audit(scene.app) == ()
    assert answer_issue(scene.app, 1, sends_back("longer"), loop.id).last_event == "verify_failed_retryable"
