"""Between looking and saying yes others act: what was shown is compared again under the driver lock (R6, R17)."""

from __future__ import annotations

import pytest

from irontree.domain.commands import Issues
from irontree.domain.halt import RULE
from irontree.errors import ApprovalRefused
from irontree.services.answers.approve import approve, approve_again, approve_stepwise
from irontree.services.execution.run import run
from irontree.services.loops.loop import cancel, read_loop
from irontree.services.proposals.again import propose_again
from irontree.services.proposals.proposal import ApprovalChoices, Proposal
from irontree.services.proposals.sources import propose, resolve
from irontree.services.questions.pages import question_text
from irontree.services.questions.questions import question_about
from tests.support import issues
from tests.support.approving import approve_as_shown
from tests.support.issues import resolved, write
from tests.support.world import CLOSE, GREETING, ONE_TASK, Scene

OTHER = ONE_TASK.replace("says hello", "says good day")
WITH_CLOSE = f"{ONE_TASK}\n## Close\n\n- [ ] closed `$ has close.txt`\n"


def shown(scene: Scene, text: str, *, loop_mode: bool = True) -> Proposal:
    return propose(scene.app, scene.write(text), loop_mode=loop_mode)


def says(scene: Scene) -> str:
    """The criterion that is in force."""
    [criterion] = scene.world.nodes[GREETING].criteria
    return criterion.text


def in_loop_mode(scene: Scene, proposal: Proposal) -> object:
    return approve(scene.app, proposal, proposal.name, "ada")


def stepwise(scene: Scene, proposal: Proposal) -> object:
    return approve_stepwise(scene.app, proposal, proposal.name, "ada")


@pytest.mark.parametrize("put", [in_loop_mode, stepwise])
def test_a_text_that_somebody_else_replaced_meanwhile_is_not_put_in_force_over_it(scene, put):
    mine = shown(scene, ONE_TASK)
    theirs = scene.start(OTHER)
    run(scene.app, 1)
    with pytest.raises(ApprovalRefused) as refused:
        put(scene, mine)
    assert refused.value.remedy.startswith("look at it again")
    assert says(scene) == "it says good day"
    assert scene.events()[-1] == "run_completed"
    assert read_loop(scene.app, theirs.id).is_open


def test_nor_is_it_when_the_same_text_is_there_again(scene):
    """What it replaces is another approval than the one that was shown beside it."""
    mine = shown(scene, ONE_TASK)
    scene.publish(OTHER)
    scene.write(ONE_TASK)
    with pytest.raises(ApprovalRefused, match=r"SPEC\.md .* changed while it was looked at"):
        in_loop_mode(scene, mine)
    assert says(scene) == "it says good day"


def test_a_task_that_was_finished_meanwhile_is_not_cancelled_or_kept_unseen(scene):
    loop = scene.start(WITH_CLOSE)
    mine = shown(scene, ONE_TASK)
    assert [node.task_key for node in mine.draft.removed] == ["close"]
    scene.write(WITH_CLOSE)
    assert scene.drive(loop).reason == "goal_reached"
    scene.write(ONE_TASK)
    with pytest.raises(ApprovalRefused, match="changed while it was looked at"):
        in_loop_mode(scene, mine)


def test_a_document_whose_loop_was_cancelled_meanwhile_is_looked_at_again(scene):
    loop = scene.start(ONE_TASK)
    mine = shown(scene, ONE_TASK)
    assert mine.loop_id == loop.id
    cancel(scene.app, loop.id, "bob")
    with pytest.raises(ApprovalRefused, match="changed while it was looked at"):
        in_loop_mode(scene, mine)
    assert in_loop_mode(scene, shown(scene, ONE_TASK)).is_open


def test_an_issue_that_somebody_edited_and_approved_meanwhile_keeps_that_approval(scene):
    write(scene)
    mine = resolved(scene, 1)
    issues.edit(scene, 1, body="- [ ] it says bye `$ has greet.txt`\n")
    theirs = issues.authorise(scene, 1)
    for put in (approve, approve_stepwise):
        with pytest.raises(ApprovalRefused, match=r"resolves to is \w+ now") as refused:
            put(scene.app, mine, mine.name, "ada")
        assert refused.value.remedy.startswith("look at it again")
    assert read_loop(scene.app, theirs.id).is_open
    assert says(scene) == "it says bye"


def test_a_loop_over_issues_that_was_cancelled_meanwhile_is_not_gone_on_with(scene):
    write(scene)
    loop = issues.authorise(scene, 1)
    mine = resolved(scene, 1)
    cancel(scene.app, loop.id, "bob")
    with pytest.raises(ApprovalRefused, match="changed while it was looked at"):
        approve(scene.app, mine, mine.name, "ada")
    assert approve_as_shown(scene.app, resolve(scene.app, Issues((1,)), "#1"), "ada").id != loop.id


def test_a_stamp_changes_with_what_would_be_replaced_and_not_with_time(scene):
    """A form that is suspended for days is for exactly what it showed."""
    write(scene)
    before, of_issues = shown(scene, OTHER).stamp, resolved(scene, 1).stamp
    assert (shown(scene, OTHER).stamp, resolved(scene, 1).stamp) == (before, of_issues)
    issues.authorise(scene, 1)
    assert resolved(scene, 1).stamp != of_issues
    later = shown(scene, ONE_TASK.replace("Greeting", "Farewell"))
    scene.publish(ONE_TASK.replace("Greeting", "Farewell"))
    assert shown(scene, ONE_TASK.replace("Greeting", "Farewell")).stamp != later.stamp


def test_what_else_a_form_showed_is_compared_too_when_it_is_answered(scene):
    """Eve kept what the form was going to cancel: Ada, who looks at it still, has not seen that."""
    scene.publish(WITH_CLOSE)
    scene.write(ONE_TASK)
    state = run(scene.app, scene.number(CLOSE))
    plan = scene.world.plan(state)
    name = propose_again(scene.app, plan).name
    assert name in question_text(scene.app, question_about(state, RULE["reapproval_required"]))
    assert name == propose_again(scene.app, plan).name
    approve_again(scene.app, 1, name, "eve", ApprovalChoices(keep_removed=True))
    with pytest.raises(ApprovalRefused, match="what it replaces is not what was shown"):
        approve_again(scene.app, 1, name, "ada")
    assert CLOSE not in scene.world.cancelled
