"""What an agent is told of a task: everything that was written for it, and what was delivered before."""

from __future__ import annotations

from importlib.resources import files

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.attempt import Claim
from irontree.domain.spec import read_requirements
from irontree.ports import AgentResult, AgentTask
from irontree.services.record import read_world
from irontree.services.work import prompts
from irontree.services.work.prompts import PromptedAttempt, surroundings, task_prompt
from tests.support.workflow_scenes import NAME, ONE, TWO, begin
from tests.support.world import Scene, prepared

EXAMPLE = files("irontree.templates").joinpath("example", "requirements.md.j2").read_text(encoding="utf-8")
DOCUMENT = """\
# Guest book

Visitors leave a note.

## Background

The site is old.

## Store

Everything about files.

### Out of scope

Databases.

### Write

- [ ] it writes `$ has greet.txt hello`

### Read

Depends on: Write

- [ ] it reads `$ has one.txt`

## Show

Depends on: Store

- [ ] it shows (manual)
"""


@pytest.fixture
def scene(tmp_path) -> Scene:
    return Scene(tmp_path / "repository", tmp_path / "cache")


def writes_and_says(task: AgentTask) -> AgentResult:
    (task.workspace / "greet.txt").write_text(f"hello from {task.task_key}\n")
    (task.workspace / "one.txt").write_text(f"{task.task_key}\n")
    return AgentResult("exited", 0, 1.0, "", Claim(ok=True, kind="success", words=f"wrote {task.task_key}"))


def group_of_tasks(group: int) -> str:
    return f"\n## Group {group}\n" + "".join(f"\n### Task {group}.{number}\n\n- [ ] x\n" for number in range(20))


def told(scene: Scene, key: str) -> str:
    world = read_world(scene.app)
    plan = world.plans[key]
    return task_prompt(scene.app, world, plan, plan.node(key), PromptedAttempt())


def test_of_every_task_of_the_example_the_agent_is_told_all_that_is_around_it(scene):
    scene.publish(EXAMPLE)
    document = read_requirements(EXAMPLE.encode(), "requirements.md")
    nodes = {node.task_key: node for node in document.nodes}
    for node in document.nodes:
        prompt = told(scene, node.task_key)
        assert document.title in prompt
        assert "Visitors of our site can leave a note, and everybody can read them." in prompt
        assert all(f"- {other.title}" in prompt for other in document.nodes)
        assert f"- {node.title} (this task)" in prompt
        assert not node.parent or f"### Part: {nodes[node.parent].title}" in prompt
        assert all(line in prompt for line in node.description.splitlines())
        assert all(criterion.text in prompt for criterion in node.criteria)


def test_common_sections_and_the_texts_of_all_parents_are_in_it(scene):
    scene.publish(DOCUMENT)
    prompt = told(scene, "store-write")
    for words in ("Visitors leave a note.", "Background", "The site is old.", "Everything about files.", "Databases."):
        assert words in prompt
    assert "Everything about files." not in told(scene, "show")


def test_what_was_delivered_before_is_told_with_its_commit_and_the_words_of_its_agent(scene):
    scene.agent = ScriptedAgent(writes_and_says)
    scene.drive(scene.start(DOCUMENT), prepared())
    commits = {key: state.commit for key, state in read_world(scene.app).states.items()}
    prompts_by_key = {task.task_key: task.prompt for task in scene.agent.tasks}
    assert "What it builds on" not in prompts_by_key["store-write"]
    assert f"- Write (commit {commits['store-write'][:7]}): wrote store-write\n" in prompts_by_key["store-read"]
    last = prompts_by_key["show"]
    assert f"- Write (commit {commits['store-write'][:7]})" in last
    assert f"- Read (commit {commits['store-read'][:7]})" in last
    assert "- Read (done)" in last


def test_a_long_document_is_cut_and_says_so(scene):
    long = "\n".join(f"Line {number} of many." for number in range(2000))
    scene.publish(DOCUMENT.replace("The site is old.", long))
    prompt = told(scene, "show")
    assert "Line 10 of many." in prompt
    assert "Line 1999 of many." not in prompt
    assert "more characters of `SPEC.md` are left out here" in prompt
    assert len(prompt) < prompts.INTRODUCTION_CHARACTERS + 5000


def test_introduction_and_common_sections_of_a_workflow_file_reach_every_step_and_are_cut_too(scene):
    long = "\n".join(f"Line {number} of many." for number in range(2000))
    loop = begin(scene, "loop: false\n\nOwn words.", f"loop: false\n\n## Rules\n\nBe kind.\n\n{long}\n")
    scene.agent = ScriptedAgent(writes_and_says)
    scene.drive(loop, prepared())
    told_by_key = {task.task_key: task.prompt for task in scene.agent.tasks}
    assert set(told_by_key) == {ONE, TWO}
    for key, prompt in told_by_key.items():
        assert "**Rules**\n\nBe kind." in prompt
        assert f"more characters of `{NAME}` are left out here" in prompt
        assert ("Own words." in prompt) is (key == ONE)
        assert len(prompt) < prompts.INTRODUCTION_CHARACTERS + 5000


def test_of_many_tasks_the_nearest_are_listed_and_the_others_counted(scene):
    scene.publish("# Big\n" + "".join(map(group_of_tasks, range(10))))
    world = read_world(scene.app)
    plan = next(iter(world.plans.values()))
    node = next(each for each in plan.nodes if each.title == "Task 3.7")
    around = surroundings(scene.app, world, plan, node)
    assert len(around.tasks) == prompts.MOST_LINES
    assert around.tasks_left_out == len(plan.nodes) - prompts.MOST_LINES
    assert {"- Group 9", "- Group 3", "  - Task 3.19", "  - Task 3.7 (this task)"} <= set(around.tasks)


def test_a_parent_by_somebody_without_write_access_is_quoted_at_the_end_alone(scene):
    scene.publish(DOCUMENT)
    world = read_world(scene.app)
    plan = world.plans["store-write"]
    nodes = tuple(
        node.model_copy(update={"outsider": "mallory"}) if node.task_key == "store" else node for node in plan.nodes
    )
    plan = plan.model_copy(update={"nodes": nodes})
    prompt = task_prompt(scene.app, world, plan, plan.node("store-write"), PromptedAttempt())
    before, _, quoted = prompt.partition("## Text by people without write access")
    assert "Everything about files." not in before
    assert "> Everything about files." in quoted
