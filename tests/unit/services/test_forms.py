"""What the approval shows, and the questions: everything needed to decide, in one place (design, section 6)."""

from __future__ import annotations

from dataclasses import replace

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.halt import RULE
from irontree.domain.plan import AgentSpec, CheckCommand, WorkspacePolicy
from irontree.services.execution.checkup import Decider, send_back
from irontree.services.execution.run import run
from irontree.services.execution.steps import question_about
from irontree.services.execution.verify import verify
from irontree.services.planning.approval import approval_text
from irontree.services.planning.approve import propose
from irontree.services.projections.forms import issue_form, question_text
from tests.support.world import GREETING, MANUAL_TASK, ONE_TASK, SPEC, Scene, does


def shown(scene: Scene, text: str = ONE_TASK, *, which=lambda name: f"/bin/{name}") -> str:
    app = replace(scene.app, which=which)
    return approval_text(app, propose(app, scene.write(text)), loop_mode=True, answer="yes")


def with_policy(scene: Scene, **changes) -> Scene:
    scene.policy = scene.policy.model_copy(update=changes)
    return scene


# --- the approval -------------------------------------------------------------------------------------------


def test_the_agents_command_is_shown_as_one_would_type_it(scene):
    with_policy(scene, agent=AgentSpec(command=("agent", "-p", "do it", "$HOME")))
    assert "agent -p 'do it' '$HOME'" in shown(scene)


def test_what_the_agent_sees_and_what_is_copied_is_shown(scene):
    agent = AgentSpec(command=("agent",), environment=("API_KEY",))
    text = shown(with_policy(scene, agent=agent, workspace=WorkspacePolicy(copy_files=(".env",))))
    assert "The agent sees these variables of yours: `API_KEY`" in text
    assert "Copied from your checkout into the workspaces: `.env`" in text


def test_the_approval_has_an_estimate(scene):
    """Three executable tasks and a composite; four attempts each, of an hour at most."""
    assert "called 4 times if every first attempt passes, and at most 16 times (16 h)" in shown(scene, SPEC)


def test_every_check_of_a_task_is_shown_once_the_ones_of_its_criteria_too(scene):
    with_policy(scene, checks=(CheckCommand(name="all", run="make test"),))
    text = shown(scene)
    assert "Check `all`: `make test`" in text
    assert text.count(f"Check of `{GREETING}`: `has greet.txt hello`") == 1


def test_a_criterion_that_proves_nothing_is_pointed_out(scene):
    assert "`true` proves nothing" in shown(scene, "# Toy\n\n## Greeting\n\n- [ ] it says hello `$ true`\n")


def test_an_agent_that_is_not_there_is_pointed_out(scene):
    assert "the agent's program agent is not on PATH here" in shown(scene, which=lambda _: None)
    assert "is not on PATH" not in shown(scene)


def test_a_program_of_the_repository_is_not_looked_for_on_path(scene):
    with_policy(scene, agent=AgentSpec(command=("tools/agent",)))
    assert "is not on PATH" not in shown(scene, which=lambda _: None)


def test_an_agent_that_nobody_configured_is_pointed_out(scene):
    with_policy(scene, agent=AgentSpec())
    assert "no agent is configured" in shown(scene)


def test_the_criteria_of_a_composite_are_covered_by_its_parts(scene):
    text = shown(scene, "# Toy\n\n## Parts\n\n- [ ] all is well\n\n### Part one\n\n- [ ] one exists `$ has one.txt`\n")
    assert "all is well: covered by `its parts, all done`" in text


# --- the questions ------------------------------------------------------------------------------------------


def asked(scene: Scene) -> str:
    state = scene.state()
    rule = scene.world.halt_of(state)
    assert rule is not None
    return question_text(scene.app, question_about(state, rule))


def test_who_is_asked_again_sees_what_was_said_the_last_time(scene):
    scene.agent = ScriptedAgent(does(greet_txt="hello"), does(greet_txt="hello, prettier"))
    scene.publish(MANUAL_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    assert "Attempt Before" not in asked(scene)
    send_back(scene.app, 1, Decider("ada", "make it prettier"))
    run(scene.app, 1)
    verify(scene.app, 1)
    text = asked(scene)
    assert "make it prettier" in text
    assert "- Attempt: 2 of 4" in text


def test_who_decides_about_more_attempts_sees_the_change(scene):
    with_policy(scene, max_retry_count=0)
    scene.agent = ScriptedAgent(does(greet_txt="good day"))
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    text = asked(scene)
    assert "+good day" in text
    assert "`greet.txt`" in text
    assert "failed, exit code 1" in text


def test_checks_of_an_older_commit_are_not_shown_beside_a_newer_one(scene):
    scene.agent = ScriptedAgent(does(greet_txt="good day"), does(greet_txt="hello"))
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    run(scene.app, 1)
    with_policy(scene, check_seconds=99)
    verify(scene.app, 1)
    view = issue_form(scene.app, question_about(scene.state(), RULE["reapproval_required"]))
    assert view.results == ()
