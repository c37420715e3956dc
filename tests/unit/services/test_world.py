"""What the log and the plans say together about a repository (R7)."""

from __future__ import annotations

from irontree.domain.decide import Run
from irontree.services.execution.publish import cut_short, publish
from irontree.services.execution.steps import next_step
from irontree.services.proposals.proposal import ApprovalChoices
from irontree.services.proposals.sources import propose
from tests.support.approving import write_plan
from tests.support.world import CLOSE, ONE_TASK

LAST = "\n## Last\n\n- [ ] the last `$ has last.txt`\n"
CLOSING = "\n## Close\n\nDepends on: Last\n\n- [ ] closed (manual)\n"


def test_a_kept_task_waits_for_nobody_who_was_cancelled(scene):
    scene.publish(f"{ONE_TASK}{LAST}{CLOSING}")
    for text, choices in ((f"{ONE_TASK}{LAST}", ApprovalChoices(keep_removed=True)), (ONE_TASK, ApprovalChoices())):
        proposal = propose(scene.app, scene.write(text), choices=choices)
        publish(scene.app, write_plan(scene.app, proposal, proposal.name, "ada"))
    assert (scene.world.cancelled, next_step(scene.app, scene.number(CLOSE))) == ({"last"}, Run(CLOSE))
    assert cut_short(scene.app, scene.world) == (), "what was approved of it is unchanged"
