"""A team: who works on a task and who looks at it, by the task's type (A2 of the toolchain)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.agents import Member, ReviewerSpec
from irontree.ports import AgentTask
from irontree.services.execution.checking import Subject, commands_digest
from irontree.services.views.history import say_issue_event
from tests.support.requests import work
from tests.support.world import Scene, does

DOCS = "# Toy\n\n## Greeting\n\nType: docs\n\n- [ ] it is there `$ has greet.txt`\n"
BUG = DOCS.replace("docs", "bug")


def approves(task: AgentTask) -> None:
    (task.workspace / ".irontree-verdict.json").write_text(json.dumps({"verdict": "approve"}))


@pytest.fixture
def team(scene: Scene) -> Scene:

    members = (
        Member(name="writer", command=("writer",), kinds=("docs",), display="Wu the writer", capabilities=("prose",)),
        Member(name="fixer", command=("fixer",), kinds=("bug", "test")),
        Member(name="second", command=("second",), kinds=("bug",)),
        Member(name="proof-reader", command=("reader",), role="reviewer", kinds=("docs",)),
        Member(name="sceptic", command=("sceptic",), role="reviewer"),
    )
    scene.policy = scene.policy.model_copy(
        update={"team": members, "reviewers": (ReviewerSpec(name="critic", command=("critic",)),)}
    )
    looking = {name: ScriptedAgent(approves, approves) for name in ("critic", "proof-reader", "sceptic")}
    writing = {name: ScriptedAgent(does(greet_txt="hello")) for name in ("writer", "fixer", "second")}
    scene.reviewers = {**looking, **writing}
    return scene


def asked(scene: Scene) -> list[str]:
    return [name for name, agent in scene.reviewers.items() if agent.tasks]


def test_a_task_is_worked_on_by_the_first_author_that_takes_its_type(team: Scene):
    work(team, BUG)
    assert asked(team) == ["critic", "sceptic", "fixer"]
    assert team.events()[-1] == "verify_passed"


def test_the_log_and_its_words_say_who_worked(team: Scene):
    work(team, BUG)
    started = next(record for record in team.app.log.read(team.number()).records if record.event.event == "run_started")
    assert started.told.member == "fixer"
    assert say_issue_event(started) == "attempt 1 of 4: fixer works"


def test_a_type_that_no_author_takes_is_left_to_the_agent_of_all(team: Scene):
    team.agent = ScriptedAgent(does(greet_txt="hello"))
    work(team, DOCS.replace("docs", "refactor"))
    assert len(team.agent.tasks) == 1
    assert asked(team) == ["critic", "sceptic"]


def test_reviewers_of_the_team_look_at_the_types_that_they_take_behind_those_of_all(team: Scene):
    work(team, DOCS)
    assert asked(team) == ["critic", "proof-reader", "sceptic", "writer"]


def test_a_member_is_told_who_it_is(team: Scene):
    work(team, DOCS)
    assert "You are Wu the writer, an author of a team. You are good at: prose." in prompt_of(team, "writer")
    assert "You are sceptic, a reviewer of a team." in prompt_of(team, "sceptic")
    assert "of a team" not in prompt_of(team, "critic")


def prompt_of(scene: Scene, name: str) -> str:
    return scene.reviewers[name].tasks[0].prompt


@pytest.mark.parametrize(("member", "decides"), [("sceptic", True), ("proof-reader", True), ("writer", False)])
def test_a_reviewer_that_was_changed_looks_again_at_the_same_commit_and_an_author_does_not(
    team: Scene, member, decides
):
    """What decides about a commit is part of its stored results (R18)."""
    work(team, DOCS)
    state, world = team.state(), team.world
    subject = Subject(state, world.plan(state), world.node(state), "1" * 40)
    members = [one.model_copy(update={"command": ("no",)}) if one.name == member else one for one in team.policy.team]
    policy = subject.plan.policy.model_copy(update={"team": tuple(members)})
    now = replace(subject, plan=subject.plan.model_copy(update={"policy": policy}))
    assert (commands_digest(now) != commands_digest(subject)) is decides


def test_runs_of_workflows_are_no_part_of_any_work(team: Scene):
    """`hotl-rt` would run the commands of a state that an agent wrote, where nothing confines them."""

    def writes(task: AgentTask) -> None:
        (task.workspace / "greet.txt").write_text("hello")
        (task.workspace / ".hotl" / "state").mkdir(parents=True)
        (task.workspace / ".hotl" / "state" / "a.json").write_text("{}")

    team.agent = ScriptedAgent(writes)
    work(team, DOCS.replace("docs", "refactor"))
    completed = next(record for record in team.records() if record.event.event == "run_completed")
    assert list(completed.told.dropped) == [".hotl/state/a.json"]
