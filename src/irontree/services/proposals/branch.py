"""The branch of a workflow: where its file, the user's checkout and what somebody chose put it."""

from __future__ import annotations

from typing import Final

from irontree.app import App
from irontree.domain.plan import ExecutionPolicy, Plan, PublishPolicy
from irontree.domain.spec import Requirements
from irontree.domain.workflow.target import HERE, ISOLATED, choose_target
from irontree.domain.workflow.workflow import Workflow
from irontree.errors import ConfigRefused, NotEligible


def policy_on_branch(app: App, requirements: Requirements, known: Plan | None, choice: str) -> ExecutionPolicy:
    """Today's settings for a document, with the branch of its *known* plan, or a workflow's own.

    Raises NotEligible for a *choice* of branch that the document or the plan leaves no room for, and what
    `workflow_target` raises.
    """
    policy = app.policy(known.policy.publish if known else None)
    if requirements.workflow is None and choice:
        raise NotEligible(f"{requirements.name} is no workflow file", remedy=_WITHOUT_CHOICE)
    if requirements.workflow is None:
        return policy
    if known and not known.imported:
        _refuse_another(known, choice)
        return policy
    publish = workflow_target(app, requirements.workflow, requirements.name, choice)
    return policy.model_copy(update={"publish": publish})


_WITHOUT_CHOICE: Final = "leave --branch out: publish.target_branch counts"


def _refuse_another(known: Plan, choice: str) -> None:
    """A plan stays on its branch; a script that repeats its choice is right."""
    publish = known.policy.publish
    own = HERE if publish.branch_from is None else ISOLATED
    if choice not in ("", own, publish.target_branch):
        raise NotEligible(
            f"{known.spec_path} is worked on at {publish.target_branch} since its approval",
            remedy="leave --branch out; for another branch, give the file another name",
        )


def follows_the_work(requirements: Requirements, publish: PublishPolicy) -> bool:
    """Whether the user's checkout is to be put on the branch, once that is approved: one that is there has it."""
    workflow = requirements.workflow
    return workflow is not None and workflow.worktree == "false" and publish.branch_from is not None


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
