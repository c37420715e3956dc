"""Answers in comments to blocks that offer more than to go on: an agent that asks, checks that are red before."""

from __future__ import annotations

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.attempt import Claim
from irontree.domain.plan import Shell
from irontree.ports import AgentResult
from irontree.services.answers.comments import look
from tests.support.world import ONE_TASK, Scene, does


def answered(scene: Scene, text: str) -> list[str]:
    """What became of that comment by somebody with write access."""
    scene.tracker.writers |= {"alice"}
    scene.forge("alice").post_comment(1, text)
    return [found.outcome for found in look(scene.app)]


def test_an_agent_that_asks_is_answered_in_a_comment(scene):
    """Everything that is needed to decide is in the comment that asks, and in the issue."""
    asked = AgentResult("exited", 0, 1.0, "", Claim(None, "summary", "Which greeting is meant?"))
    scene.agent = ScriptedAgent(lambda _: asked, does(greet_txt="hello"))
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    assert "Which greeting is meant?" in scene.comments()[-1]
    assert "`/send-back NOTE`: answer the agent" in scene.comments()[-1]
    assert "The agent asks for an answer" in scene.tracker.issues[1].body
    assert answered(scene, "/send-back the English one") == ["taken"]
    scene.drive(loop)
    assert "> the English one" in scene.agent.tasks[1].prompt
    assert scene.state().done


def test_checks_that_are_red_before_are_accepted_in_a_comment(scene):
    checks = (Shell(name="tests", run="has greet.txt"),)
    scene.policy = scene.policy.model_copy(update={"checks": checks, "preflight": True})
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    assert "`/accept`: accept it as it was before" in scene.comments()[-1]
    assert answered(scene, "/accept") == ["taken"]
    scene.drive(loop)
    assert scene.state().done
