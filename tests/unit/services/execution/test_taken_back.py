"""A published commit that is gone from its target again: found, and asked about before work builds on it (R5)."""

from __future__ import annotations

import pytest

from irontree.domain.state import Phase
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.consistency.audit import audit
from irontree.services.consistency.reconcile import reconcile
from irontree.services.execution.checkup import finalize
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from tests.support.world import Scene

TWO_TASKS = """\
# Toy

## Greeting

- [ ] it says hello `$ has greet.txt hello`

## Close

Depends on: Greeting

- [ ] closed `$ has close.txt`
"""


@pytest.fixture
def taken_back(scene) -> Scene:
    """The greeting is done and published; then somebody pushes main back to where it was."""
    scene.publish(TWO_TASKS)
    before = scene.repository.remote["main"]
    run(scene.app, 1)
    verify(scene.app, 1)
    finalize(scene.app, 1)
    assert audit(scene.app) == ()
    scene.repository.remote["main"] = before
    return scene


def test_reconciliation_fetches_and_an_audit_names_it_with_what_to_do(taken_back):
    commit = str(taken_back.state().code_ref)
    reconcile(taken_back.app)
    [found] = audit(taken_back.app)
    assert found.where == "issue-1"
    assert f"{commit[:12]} was published to main of origin and is not there now" in found.what
    assert "git merge" in found.remedy


def test_what_depends_on_it_is_not_begun_before_somebody_was_asked_and_asks_once(taken_back):
    state = run(taken_back.app, 2)
    assert (state.phase, state.blocking_check, state.runs_started) == (Phase.BLOCKED, "dependency-gone", 0)
    told = taken_back.last("close").meta
    assert "depends on issue-1" in told["reason"]
    assert "git merge" in told["remedy"]
    answer_issue(taken_back.app, 2, Answer("go-on", "ada"))
    assert run(taken_back.app, 2).runs_started == 1


def test_once_it_is_back_the_work_begins(taken_back):
    run(taken_back.app, 2)
    taken_back.repository.remote["main"] = str(taken_back.state().code_ref)
    answer_issue(taken_back.app, 2, Answer("go-on", "ada"))
    assert run(taken_back.app, 2).phase is not Phase.BLOCKED
    assert audit(taken_back.app) == ()
