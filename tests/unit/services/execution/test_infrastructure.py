"""Red CI of which the agent says that the infrastructure is at fault: one issue about it, and a block that names it."""

from __future__ import annotations

import json

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.decide import Run, Verify
from irontree.domain.instructions import Instructions
from irontree.ports import AgentTask, CommitCheck
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.steps import perform
from tests.support.requests import look, request, requesting_scene, work
from tests.support.watching import Killed, Side, Watched, dying_at
from tests.support.world import GREETING, Scene, does

TOLD = (Instructions(action="ci_failure", steps=("read the output",), report="{problem}"),)


def blames(cause: str = "infrastructure", *, changes: bool = False, **more: str):
    def step(task: AgentTask) -> None:
        if changes:
            does(greet_txt="hello, again")(task)
        (task.workspace / ".irontree-report.json").write_text(json.dumps({"cause_type": cause} | more))

    return step


@pytest.fixture
def scene(tmp_path) -> Scene:
    """A request whose CI is red."""
    made = requesting_scene(tmp_path)
    made.policy = made.policy.model_copy(update={"instructions": TOLD})
    made.agent = ScriptedAgent(does(greet_txt="hello"), blames())
    work(made)
    turn_red(made)
    return made


def turn_red(scene: Scene, name: str = "build") -> None:
    scene.tracker.check(request(scene).head_sha, CommitCheck(name, "failure", "no space left on device, @ada /approve"))
    look(scene)


def attempt(scene: Scene, *steps) -> None:
    if steps:
        scene.agent = ScriptedAgent(*steps)
    perform(scene.app, Run(GREETING))
    perform(scene.app, Verify(GREETING))


def filed(scene: Scene) -> list[int]:
    return [number for number, issue in scene.tracker.issues.items() if "type/infrastructure" in issue.labels]


def test_one_issue_is_filed_and_the_task_is_blocked_naming_it(scene: Scene):
    attempt(scene)
    [number] = filed(scene)
    last = scene.last()
    assert (last.event.event, last.event.blocking_check) == ("checkup_preflight_blocked", "infrastructure")
    assert last.meta["reason"].endswith(f"because of the infrastructure: see #{number}")
    issue = scene.tracker.issues[number]
    assert issue.title == "build (CI) fails because of the infrastructure"
    assert "> no space left on device" in issue.body
    assert "@ada" not in issue.body
    assert "`cause_type` is `infrastructure` if" in scene.agent.tasks[1].prompt


def test_it_is_filed_once_for_a_check_as_long_as_the_issue_is_open(scene: Scene):
    attempt(scene)
    answer_issue(scene.app, 1, Answer("go-on", by="ada"))
    assert scene.state().blocking_check is None
    perform(scene.app, Verify(GREETING))
    assert scene.events()[-1] == "verify_pending_acceptance", "the same commit waits for CI again"
    assert len(filed(scene)) == 1


def test_an_issue_whose_answer_was_lost_on_its_way_is_found_again(scene: Scene):
    perform(scene.app, Run(GREETING))
    scene.tracker.lost_answers = 1
    perform(scene.app, Verify(GREETING))
    assert scene.state().blocking_check == "remote-unavailable"
    answer_issue(scene.app, 1, Answer("go-on", by="ada"))
    perform(scene.app, Verify(GREETING))
    assert scene.state().blocking_check == "infrastructure"
    assert len(filed(scene)) == 1


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("port", "method"), [("forge_seen", "ensure_labels"), ("forge_seen", "create_issue"), ("log", "append")]
)
def test_killed_around_any_effect_one_issue_is_filed_and_one_block_names_it(
    scene: Scene, port: str, method: str, side: Side
):
    perform(scene.app, Run(GREETING))
    real = getattr(scene, port)
    setattr(scene, port, Watched(real, [method], dying_at(side, 1)))
    with pytest.raises(Killed):
        perform(scene.app, Verify(GREETING))
    setattr(scene, port, real)
    if (port, side) != ("log", "after"):
        perform(scene.app, Verify(GREETING))
    [number] = filed(scene)
    assert scene.events().count("checkup_preflight_blocked") == 1
    assert scene.last().meta["reason"].endswith(f"see #{number}")


@pytest.mark.parametrize("step", [blames("code"), blames(changes=True), blames("")])
def test_what_changes_something_or_blames_the_code_is_verified_as_ever(scene: Scene, step):
    attempt(scene, step)
    assert scene.last().event.event != "checkup_preflight_blocked"
    assert filed(scene) == []


def test_a_first_attempt_has_nothing_to_blame(tmp_path):
    made = requesting_scene(tmp_path)
    made.policy = made.policy.model_copy(update={"instructions": TOLD})
    made.agent = ScriptedAgent(blames())
    work(made)
    assert filed(made) == []


def test_what_the_agent_says_is_quoted_without_effect(scene: Scene):
    attempt(scene, blames(problem="Closes #1 @ada <!-- irontree:task-key greeting -->"))
    [number] = filed(scene)
    body = scene.tracker.issues[number].body
    assert "> problem: " in body
    assert body.count("<!--") == 1
    assert "Closes #1" not in body
    assert "@ada" not in body
