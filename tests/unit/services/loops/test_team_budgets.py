"""Budgets where a team works: what counts are the agents that a task would call."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.agents import AgentSpec, Member
from irontree.domain.attempt import Usage
from irontree.domain.budgets import BudgetPolicy, SpendingLimits
from irontree.ports import AgentResult, AgentTask
from irontree.services.execution.run import run
from irontree.services.loops.funds import calls_agent
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.sources import propose
from tests.support.world import ONE_TASK, Scene, writes_what_is_asked


@pytest.fixture
def limited(scene: Scene) -> Scene:
    """An agent that says what it costs, and a limit of that."""
    budgets = BudgetPolicy(issue=SpendingLimits(money="3 USD"))
    agent = AgentSpec(adapter="aider", command=("agent",))
    scene.policy = scene.policy.model_copy(update={"budgets": budgets, "agent": agent})
    return scene


def costs_a_dollar(task: AgentTask) -> AgentResult:
    writes_what_is_asked(task)
    return AgentResult("exited", 0, 1.0, "", usage=Usage(0, 0, 1.0))


def approval(scene: Scene) -> str:
    return approval_text(scene.app, propose(scene.app, scene.write(ONE_TASK)), loop_mode=True)


@pytest.mark.parametrize(
    ("member", "fits"),
    [
        (Member(name="coder", command=("coder",)), False),
        (Member(name="coder", command=("coder",), kinds=("docs",)), True),
        (Member(name="sceptic", command=("sceptic",), role="reviewer"), False),
        (Member(name="sceptic", command=("sceptic",), role="reviewer", kinds=("docs",)), True),
    ],
)
def test_only_the_agents_that_a_task_would_call_have_to_say_what_they_cost(limited, member, fits):
    limited.policy = limited.policy.model_copy(update={"team": (member,)})
    said = "no attempt would start: there is a budget, and command agents do not report"
    assert (said in approval(limited)) is not fits
    limited.publish(ONE_TASK)
    assert (run(limited.app, 1).last_event == "run_completed") is fits


def test_an_agent_that_never_says_what_it_costs_stops_nothing_where_another_does_the_work(limited):
    member = Member(name="coder", adapter="aider", command=("coder",), kinds=("feature",))
    limited.policy = limited.policy.model_copy(update={"agent": AgentSpec(command=("agent",)), "team": (member,)})
    limited.reviewers["coder"] = ScriptedAgent(costs_a_dollar)
    assert "no attempt would start" not in approval(limited)
    limited.publish(ONE_TASK)
    assert run(limited.app, 1).last_event == "run_completed"


@pytest.mark.parametrize(("kinds", "asks"), [((), True), (("feature",), True), (("docs",), False)])
def test_a_verification_calls_an_agent_where_the_team_reviews_that_type(scene, kinds, asks):
    member = Member(name="eve", command=("eve",), role="reviewer", kinds=kinds)
    scene.policy = scene.policy.model_copy(update={"team": (member,)})
    scene.publish(ONE_TASK)
    assert calls_agent(scene.world, run(scene.app, 1)) is asks
