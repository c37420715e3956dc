"""What a loop would do is what it then does, as long as all goes well."""

from __future__ import annotations

from irontree.domain.decide import Aggregate, Finalize, Halt, Run, Verify
from irontree.services.loops.loop import read_loop
from irontree.services.proposals.approval import foresee_loop, foresee_plan
from irontree.services.proposals.sources import propose
from tests.support.world import GREETING, MANUAL_TASK, ONE_TASK, SPEC, Scene, accepts, prepared

SKILLS = {Run: "run", Verify: "verify", Finalize: "checkup", Aggregate: "checkup"}


def foreseen(scene: Scene, text: str) -> list[tuple[str | None, str]]:
    proposal = propose(scene.app, scene.write(text))
    tasks = [(node, proposal.draft.policy) for node in proposal.draft.nodes]
    found = foresee_plan(scene.app, tasks, proposal.draft.budget)
    return steps([item.decision for item in found])


def steps(decisions: list) -> list[tuple[str | None, str]]:
    return [(item.task_key, SKILLS[type(item)]) for item in decisions if not isinstance(item, Halt)]


def taken(scene: Scene, loop_id: str) -> list[tuple[str | None, str]]:
    return [(step.task_key, step.skill) for step in read_loop(scene.app, loop_id).entity.transitions]


def test_a_tree_is_worked_through_in_the_order_that_was_foreseen(scene):
    before = foreseen(scene, SPEC)
    loop = scene.start(SPEC)
    assert scene.drive(loop, prepared(*[accepts()] * 5)).reason == "goal_reached"
    assert taken(scene, loop.id) == before


def test_nothing_is_written_by_looking_ahead(scene):
    foreseen(scene, SPEC)
    assert scene.app.log.streams() == ()
    assert scene.app.plans.revisions() == ()


def test_what_only_a_person_can_judge_is_foreseen_as_a_question(scene):
    proposal = propose(scene.app, scene.write(MANUAL_TASK))
    [node] = proposal.draft.nodes
    found = foresee_plan(scene.app, [(node, proposal.draft.policy)], proposal.draft.budget)
    assert found[2].decision == Halt("pending_acceptance", GREETING)
    assert found[2].assumed == "you accept it"
    assert found[-1].decision == Halt("goal_reached")


def test_a_loop_is_foreseen_from_where_it_is(scene):
    loop = scene.start(MANUAL_TASK)
    scene.drive(loop)
    found = foresee_loop(scene.app, read_loop(scene.app, loop.id))
    assert [item.decision for item in found] == [
        Halt("pending_acceptance", GREETING),
        Finalize(GREETING),
        Halt("goal_reached"),
    ]


def test_what_is_done_already_and_unchanged_is_not_foreseen_again(scene):
    scene.drive(scene.start(ONE_TASK))
    second = ONE_TASK + "\n## Second\n\n- [ ] too `$ has two.txt`\n"
    assert [key for key, _ in foreseen(scene, second)] == ["second"] * 3
