"""A document whose plan has a branch of its own, as a workflow file's has."""

from __future__ import annotations

from dataclasses import dataclass, replace

from irontree.app import App
from irontree.domain.plan import canonical_digest
from irontree.services.proposals.proposal import Draft, DraftPlan, Proposal, propose_from
from irontree.services.proposals.sources import DocumentSource, newest_plan
from irontree.services.record import World


@dataclass(frozen=True)
class OnOwnBranch:
    """The document at *path*, worked on at *branch*, which starts where `main` is at the first approval."""

    path: str
    branch: str

    def read(self, app: App, world: World) -> Draft:
        draft = DocumentSource(self.path).read(app, world)
        if newest_plan(app, self.path):
            return draft
        publish = draft.policy.publish
        own = publish.on_own_branch(self.branch, app.repository.base(publish))
        policy = draft.policy.model_copy(update={"publish": own})
        [planned] = draft.plans
        plan = planned.plan.model_copy(update={"policy": policy})
        return replace(
            draft,
            digest=canonical_digest([draft.digest, policy.digest]),
            policy=policy,
            plans=(DraftPlan(plan, planned.earlier),),
            tasks=tuple(replace(task, plan=plan) for task in draft.tasks),
        )


def propose_on_own_branch(app: App, path: str = "SPEC.md", branch: str = "hotl/greeting") -> Proposal:
    return propose_from(app, OnOwnBranch(path, branch), path)
