"""A plan with a branch of its own: made by the first publication, the same ever after, and never taken from others."""

from __future__ import annotations

import pytest

from irontree.domain.plan import PublishPolicy
from irontree.domain.state import Phase
from irontree.repository.memory import Commit
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.answers.approve import approve
from irontree.services.consistency.audit import audit
from irontree.services.execution.checkup import finalize
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.proposals.sources import propose
from irontree.services.work.preflight import changed_since_approval, forge_blockers
from tests.support.own_branch import propose_on_own_branch
from tests.support.world import CLOSE, GREETING, Scene

NAME = "hotl/greeting"
TWO_TASKS = """\
# Toy

## Greeting

- [ ] it says hello `$ has greet.txt hello`

## Close

Depends on: Greeting

- [ ] closed `$ has close.txt`
"""


@pytest.fixture
def started(scene) -> Scene:
    scene.write(TWO_TASKS)
    proposal = propose_on_own_branch(scene.app)
    approve(scene.app, proposal, proposal.name, "ada")
    return scene


def somebody_makes_it(scene: Scene) -> str:
    files = {**scene.repository.commits[scene.repository.remote["main"]].files, "theirs.txt": b"theirs\n"}
    made = scene.repository.add(Commit(files, (scene.repository.remote["main"],), "theirs"))
    scene.repository.remote[NAME] = made
    return made


def begun_at(scene: Scene, key: str = GREETING) -> str:
    return next(r.told.base_sha for r in reversed(scene.records(key)) if r.event.event == "run_started")


def test_the_branch_starts_where_it_was_approved_and_each_task_builds_on_the_one_before(started):
    start = started.repository.remote["main"]
    run(started.app, 1)
    assert (begun_at(started), NAME in started.repository.remote) == (start, False)
    verify(started.app, 1)
    first = started.repository.remote[NAME]
    finalize(started.app, 1)
    run(started.app, 2)
    assert begun_at(started, CLOSE) == first
    verify(started.app, 2)
    finalize(started.app, 2)
    assert started.state(CLOSE).phase is Phase.DONE
    assert started.repository.remote["main"] == start
    assert set(started.repository.history(started.repository.remote[NAME])) > {first, start}
    assert audit(started.app) == ()


def test_the_commit_that_it_starts_from_is_kept_from_the_approval_on(started):
    start = started.repository.remote["main"]
    assert started.repository.read_ref(f"refs/irontree/from/{start}") == start


def test_that_main_moves_or_is_named_by_the_configuration_is_no_change(started):
    moved = started.policy.publish.model_copy(update={"target_branch": "develop"})
    started.policy = started.policy.model_copy(update={"publish": moved})
    assert changed_since_approval(started.app, started.world, started.state()) is None
    assert propose(started.app, started.root / "SPEC.md").approved_plan is not None
    other = started.policy.publish.model_copy(update={"mode": "pull_request"})
    started.policy = started.policy.model_copy(update={"publish": other})
    assert changed_since_approval(started.app, started.world, started.state()), "how it is published is still compared"


def test_a_branch_that_somebody_else_has_made_is_asked_about_before_work_starts_and_once(started):
    theirs = somebody_makes_it(started)
    state = run(started.app, 1)
    assert (state.phase, state.blocking_check) == (Phase.BLOCKED, "branch-appeared")
    assert theirs[:12] in started.last().told.reason
    assert "git push origin --delete" in started.last().told.remedy
    answer_issue(started.app, 1, Answer("go-on", "ada"))
    run(started.app, 1)
    assert begun_at(started) == theirs
    assert verify(started.app, 1).phase is Phase.VERIFIED
    assert started.repository.contains(started.repository.remote[NAME], theirs)


def test_one_that_the_user_has_worked_on_here_is_said_to_be_here(started):
    start = started.repository.remote["main"]
    files = {**started.repository.commits[start].files, "mine.txt": b"mine\n"}
    started.repository.refs[f"refs/heads/{NAME}"] = started.repository.add(Commit(files, (start,), "mine"))
    run(started.app, 1)
    assert "it is here with other work" in started.last().told.reason
    assert f"git branch --move {NAME}" in started.last().told.remedy


def test_one_that_appears_while_the_agent_works_is_asked_about_before_anything_is_published(started):
    run(started.app, 1)
    theirs = somebody_makes_it(started)
    state = verify(started.app, 1)
    assert (state.blocking_check, started.repository.remote[NAME]) == ("branch-appeared", theirs)
    answer_issue(started.app, 1, Answer("go-on", "ada"))
    run(started.app, 1)
    assert begun_at(started) == theirs
    assert verify(started.app, 1).phase is Phase.VERIFIED


def test_one_that_was_made_where_it_is_to_start_is_taken(started):
    """Such as by the user, who puts the checkout on it."""
    started.repository.remote[NAME] = started.repository.remote["main"]
    run(started.app, 1)
    assert verify(started.app, 1).phase is Phase.VERIFIED


def test_one_that_others_push_to_once_it_is_ours_is_merged_like_any_other(started):
    run(started.app, 1)
    verify(started.app, 1)
    finalize(started.app, 1)
    run(started.app, 2)
    tip = started.repository.remote[NAME]
    files = {**started.repository.commits[tip].files, "theirs.txt": b"theirs\n"}
    theirs = started.repository.remote[NAME] = started.repository.add(Commit(files, (tip,), "theirs"))
    assert verify(started.app, 2).phase is Phase.VERIFIED
    assert started.repository.contains(started.repository.remote[NAME], theirs)


def test_the_forge_is_asked_about_pushes_to_it_even_if_it_is_proposed_as_a_whole(started):
    forge = started.app.forge()
    own = PublishPolicy(mode="pull_request", remote="origin", target_branch="main").on_own_branch(NAME, "1" * 40)
    assert own.pushes
    assert tuple(forge_blockers(forge, forge.about(), own)) == ()
