"""The branch of a workflow file, from the file to the settings that are approved; and the checkout that follows it."""

from __future__ import annotations

import pytest

from irontree.domain.plan import PublishPolicy
from irontree.errors import BranchUndecided, ConfigRefused, Refused
from irontree.services.answers.approve import put_on_branch
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.branch import workflow_target
from irontree.services.proposals.sources import propose
from tests.support.hotl import parsed, workflow
from tests.support.world import Scene

FILE = "hotl-workflow-greeting.md"


@pytest.fixture
def start(scene: Scene) -> str:
    (scene.root / FILE).write_text("---\n---\n")
    return scene.repository.remote["main"]


def on_feature(scene: Scene) -> None:
    scene.repository.switch("feature/x", scene.repository.remote["main"])


def with_target(scene: Scene, **changes: object) -> None:
    publish = scene.policy.publish.model_copy(update=changes)
    scene.policy = scene.policy.model_copy(update={"publish": publish})


def test_a_new_branch_starts_where_the_checkout_is_and_stands_in_for_the_configured_one(scene, start):
    assert workflow_target(scene.app, parsed(), FILE) == PublishPolicy(
        remote="origin", target_branch="hotl/greeting", branch_from=start, merge_into="main"
    )


def test_the_branch_that_the_user_is_on_is_taken_as_it_is(scene, start):
    on_feature(scene)
    with pytest.raises(BranchUndecided):
        workflow_target(scene.app, parsed(), FILE)
    found = workflow_target(scene.app, parsed(), FILE, "here")
    assert (found.target_branch, found.branch_from, found.merge_into) == ("feature/x", None, "main")
    assert scene.app.policy(found).publish == found, "what the configuration names is no change of it"


def test_a_branch_of_the_remote_is_one_that_exists(scene, start):
    scene.repository.remote["hotl/greeting"] = start
    with pytest.raises(Refused, match="Branch already exists"):
        workflow_target(scene.app, parsed(), FILE)


def test_what_would_be_merged_into_itself_is_refused_with_what_to_set(scene, start):
    on_feature(scene)
    with_target(scene, mode="pull_request", target_branch="feature/x")
    with pytest.raises(ConfigRefused) as refused:
        workflow_target(scene.app, parsed(), FILE, "here")
    assert "publish.target_branch" in str(refused.value.remedy)
    assert workflow_target(scene.app, parsed(), FILE, "isolated").merge_into == "feature/x"


def test_the_checkout_is_put_on_it_if_that_was_approved_in_it(scene, start):
    own = workflow_target(scene.app, parsed("risk_level: low\nworktree: false"), FILE)
    assert put_on_branch(scene.app, own, is_here=True) == "Your checkout is on hotl/greeting now, and follows the work."
    assert (scene.repository.stands_on, scene.repository.refs["refs/heads/hotl/greeting"]) == ("hotl/greeting", start)
    assert put_on_branch(scene.app, own, is_here=True) == ""


@pytest.mark.parametrize(("branch", "promised"), [("", True), ("\nbranch: feature/x", False)], ids=["new", "there"])
def test_a_checkout_that_is_on_the_branch_is_not_said_to_be_put_there(scene, start, branch, promised):
    on_feature(scene)
    (scene.root / FILE).write_text(workflow("loop: false", front=f"risk_level: low\nworktree: false{branch}"))
    proposal = propose(scene.app, scene.root / FILE)
    said = "Right after the approval your checkout is put on it" in approval_text(scene.app, proposal, loop_mode=True)
    assert (proposal.draft.switches, said) == (promised, promised)


def test_elsewhere_it_is_left_and_a_line_says_how(scene, start):
    own = workflow_target(scene.app, parsed("risk_level: low\nworktree: false"), FILE)
    told = put_on_branch(scene.app, own, is_here=False)
    assert told == (
        "Your checkout stays on main: the approval was not given on a terminal in it. "
        f"To follow the work: git switch --create hotl/greeting {start[:12]}"
    )
    assert scene.repository.stands_on == "main"


def test_one_with_changes_is_left_alone(scene, start):
    own = workflow_target(scene.app, parsed("risk_level: low\nworktree: false"), FILE)
    (scene.root / "README.md").write_text("mine\n")
    assert "changes in no commit: README.md" in put_on_branch(scene.app, own, is_here=True)
    assert scene.repository.stands_on == "main"
