"""What the configuration says, and where code goes when it does not say that (R5, R6)."""

from __future__ import annotations

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app, set_up
from irontree.domain.permissions import PermissionRule
from irontree.domain.plan import PublishPolicy
from irontree.errors import EnvironmentRefused
from irontree.services.execution.publish import publish
from irontree.services.proposals.sources import propose
from irontree.services.record import read_world
from irontree.services.work.preflight import changed_since_approval
from tests.support.approving import write_plan
from tests.support.repositories import git

SPEC = "# Toy\n\n## Greeting\n\n- [ ] it says hello (manual)\n"


@pytest.fixture
def app(project):
    set_up(project.root)
    (project.root / "SPEC.md").write_text(SPEC)
    return open_app(project.root, origin=Origin("ada"))


def changed(app) -> str | None:
    world = read_world(app)
    return changed_since_approval(app, world, world.state(1))


def test_what_is_approved_without_settings_is_the_branch_and_remote_of_that_moment(app):
    assert propose(app, app.repository.root / "SPEC.md").draft.policy.publish == PublishPolicy(
        remote="origin", target_branch="main"
    )


@pytest.mark.parametrize("switch", [("switch", "--create", "elsewhere"), ("switch", "--detach")])
def test_to_look_at_another_branch_in_mid_work_is_no_change_of_what_was_approved(app, switch):
    proposal = propose(app, app.repository.root / "SPEC.md")
    publish(app, write_plan(app, proposal, proposal.name, "ada"))
    git(app.repository.root, *switch)
    assert changed(app) is None
    assert propose(app, app.repository.root / "SPEC.md").approved_plan is not None


def test_a_target_that_is_set_to_another_one_is_a_change(app):
    proposal = propose(app, app.repository.root / "SPEC.md")
    publish(app, write_plan(app, proposal, proposal.name, "ada"))
    (app.repository.root / ".mino" / "config.yml").write_text("publish: {target_branch: other}\n")
    assert changed(app)


def test_a_first_approval_on_no_branch_is_refused_with_what_to_do(app):
    git(app.repository.root, "switch", "--detach")
    with pytest.raises(EnvironmentRefused, match="on no branch"):
        propose(app, app.repository.root / "SPEC.md")


def test_a_rule_that_is_added_is_what_the_configuration_says_from_then_on(app):
    """R6: the answer `allow` approves what stands in the file, and nothing waits for another approval."""
    rule = PermissionRule(tool="execute", match="npm test", allow=True)
    app.allow([rule])
    assert app.policy(None).agent.permissions == (rule,)
