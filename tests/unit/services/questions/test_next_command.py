"""What to type next: of a repository and of each of its issues the same, and nothing that nobody wants."""

from __future__ import annotations

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.agents import AgentSpec
from irontree.domain.attempt import Usage
from irontree.domain.budgets import BudgetPolicy, SpendingLimits
from irontree.domain.decide import Run, Verify
from irontree.ports import AgentResult, AgentTask
from irontree.services.execution.steps import perform
from irontree.services.loops import loop as loops
from irontree.services.loops.loop import read_loops
from irontree.services.questions.commands import next_command, next_command_about
from tests.support.world import GREETING, ONE_TASK, Scene, does

TWO_TASKS = f"{ONE_TASK}\n## Close\n\n- [ ] closed `$ has close.txt`\n"


def of_all(scene: Scene) -> str:
    return next_command(scene.app, scene.world, read_loops(scene.app)[0])


def of(scene: Scene, key: str = GREETING) -> str:
    return next_command_about(scene.app, scene.world, read_loops(scene.app)[0], scene.state(key))


def test_outside_of_a_loop_it_is_the_issues_own_step_else_that_of_another(scene):
    scene.publish(TWO_TASKS)
    assert (of_all(scene), of(scene), of(scene, "close")) == (
        "irontree run issue-1",
        "irontree run issue-1",
        "irontree run issue-2",
    )
    for step in (Run(GREETING), Verify(GREETING)):
        perform(scene.app, step)
    assert of(scene) == "irontree checkup finalize issue-1"


def test_an_open_loop_is_resumed_unless_it_is_at_work(scene):
    loop = scene.start(TWO_TASKS)
    assert (of_all(scene), of(scene)) == (f"irontree resume {loop.id}",) * 2
    with scene.lease.hold(loop.id):
        assert (of_all(scene), of(scene)) == ("", "")


def test_what_a_person_skipped_is_nobodys_next_step(scene):
    loop = scene.start(TWO_TASKS)
    loops.skip(scene.app, loop.id, GREETING, "ada")
    scene.drive(loop)
    assert loops.read_loop(scene.app, loop.id).entity.status == "completed"
    assert (of_all(scene), of(scene), of(scene, "close")) == ("", "", "")


def test_what_is_published_is_finalized_though_its_loop_was_stopped(scene):
    loop = scene.start(ONE_TASK)
    for step in (Run(GREETING), Verify(GREETING)):
        perform(scene.app, step)
    loops.cancel(scene.app, loop.id, "ada")
    assert (of_all(scene), of(scene)) == ("irontree checkup finalize issue-1",) * 2


def fails_dearly(task: AgentTask) -> AgentResult:
    does(greet_txt="bye")(task)
    return AgentResult("exited", 0, 1.0, "", usage=Usage(0, 0, 3.0))


def test_what_no_agent_may_work_on_is_nobodys_next_step(scene):
    budgets, agent = BudgetPolicy(issue=SpendingLimits(money="3 USD")), AgentSpec(adapter="aider", command=("agent",))
    scene.policy = scene.policy.model_copy(update={"budgets": budgets, "agent": agent})
    scene.agent = ScriptedAgent(fails_dearly)
    scene.publish(ONE_TASK)
    for step in (Run(GREETING), Verify(GREETING)):
        perform(scene.app, step)
    assert (of_all(scene), of(scene)) == ("", "")
