"""The branch of a workflow: where its file, the user's checkout and what somebody chose put it."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.plan import PublishPolicy
from irontree.domain.workflow.target import choose_target
from irontree.domain.workflow.workflow import Workflow
from irontree.errors import ConfigRefused


def workflow_target(app: App, workflow: Workflow, path: str, choice: str = "") -> PublishPolicy:
    """Where a workflow goes that was never approved before; *path* is its file's, from the top of the repository.

    *choice* is `isolated`, `here` or the name of a branch, empty if nobody has chosen. One that was approved stays on
    the branch of its plan: `app.policy(plan.policy.publish)` has it. Raises Refused, BranchUndecided where somebody has
    to choose first, and EnvironmentRefused on a detached HEAD if no target is configured.
    """
    today = app.policy(None).publish
    file = (app.repository.root / path).resolve()
    found = choose_target(workflow, str(file), app.repository.user_checkout(today.remote), choice)
    if today.mode == "pull_request" and found.branch == today.target_branch:
        raise ConfigRefused(
            f"the work goes to {found.branch}, and with publish.mode: pull_request that would be merged into itself",
            remedy="set publish.target_branch in .mino/config.yml to the branch that it is to be merged into",
        )
    return today.on_own_branch(found.branch, found.start or None)
