"""What a gate refuses is offered nowhere: comments, listings and forms say who decides, where, and what to write."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.cli.task import next_after_adopting
from irontree.domain.decide import Run
from irontree.domain.gates import Gate, Gates
from irontree.services.answers.approve import adopt
from irontree.services.answers.comments import look
from irontree.services.execution.steps import perform, stop_at
from irontree.services.loops.loop import read_loop
from irontree.services.proposals.guard import gate_of_issue
from irontree.services.questions.commands import question_json
from irontree.services.questions.listing import explain, waiting
from irontree.services.questions.pages import question_text
from irontree.services.views.history import say_issue_event
from tests.support.issues import say, write
from tests.support.world import GREETING, MANUAL_TASK, ONE_TASK, Scene, does

REFUSED = re.compile(r"irontree (?:accept|retry|answer \d+ \w|task .* --approve)[^`]*")
EVERY = Gate(approvers=2)
GATED = Gates(acceptance=EVERY, approval=EVERY, failure=EVERY, blocked=EVERY)


def accepting(scene: Scene) -> None:
    scene.drive(scene.start(MANUAL_TASK))


def failing(scene: Scene) -> None:
    scene.agent = ScriptedAgent(*[does(greet_txt="bye")] * 4)
    scene.drive(scene.start(ONE_TASK))


def blocked(scene: Scene) -> None:
    scene.start(ONE_TASK)
    stop_at(scene.app, 1, "its run was cancelled")


def changed(scene: Scene) -> None:
    scene.start(ONE_TASK)
    scene.write(ONE_TASK.replace("it says hello", "it says hello to all"))
    perform(scene.app, Run(GREETING))


def adopted(scene: Scene) -> None:
    write(scene)
    adopt(scene.app, 1)


@pytest.mark.parametrize("gates", [GATED, None], ids=["gated", "open"])
@pytest.mark.parametrize(
    ("halted", "word"),
    [(accepting, "accept"), (failing, "retry"), (blocked, "continue"), (changed, "approve"), (adopted, "approve")],
)
def test_only_what_passes_is_offered_and_who_decides_is_said(scene, halted: Callable[[Scene], None], word, gates):
    scene.policy = scene.policy.model_copy(update={"gates": gates})
    scene.tracker.writers |= {"alice", "bob"}
    halted(scene)
    look(scene.app)
    [asked] = waiting(scene.app)
    listed = str(question_json(asked))
    texts = {
        "comments": "\n".join(scene.comments()),
        "the form": question_text(scene.app, asked),
        "listings": listed,
        "why": str(explain(scene.app, GREETING)),
    }
    offered = {surface for surface, text in texts.items() if REFUSED.search(text)}
    if gates is None:
        assert "listings" in offered
        return
    assert offered == set()
    needed = f"/{word} {asked.revision}" if word == "approve" else f"/{word}"
    assert {surface for surface, text in texts.items() if needed in text} >= {"listings", "the form"}
    told = {surface for surface, text in texts.items() if "2 people with write access decide" in text}
    assert told == texts.keys()


def test_who_has_said_so_and_how_many_are_missing_is_shown_and_at_the_end_everybody(scene):
    scene.policy = scene.policy.model_copy(update={"gates": GATED})
    scene.tracker.writers |= {"alice", "bob"}
    adopted(scene)
    for name, so_far in (
        ("alice", "0 of 2 so far: nobody; 2 more are needed"),
        ("bob", "1 of 2 so far: alice; 1 more"),
    ):
        [asked] = waiting(scene.app)
        shown = (asked.said, question_text(scene.app, asked), explain(scene.app, GREETING).rule)
        assert [so_far in text for text in shown] == [True] * 3
        say(scene, 1, f"/approve {asked.revision}", author=name)
        look(scene.app)
    assert [body.splitlines()[0] for body in scene.comments() if "counts:" in body] == [
        f"Your answer `/approve {asked.revision}` counts: 1 of 2 so far: alice; 1 more is needed."
    ]
    assert "alice, bob" in say_issue_event(scene.last())
    [plan] = {plan.spec_revision: plan for plan in scene.world.plans.values()}.values()
    assert plan.approved_by == "alice, bob"


def test_everybody_who_approved_the_plan_counts_as_who_asked_for_the_work(scene):
    gates = Gates(approval=EVERY, acceptance=Gate(not_requester=True))
    scene.policy = scene.policy.model_copy(update={"gates": gates})
    scene.tracker.writers |= {"alice", "bob", "carol"}
    write(scene, body="- [ ] it is friendly (manual)\n", author="carol")
    adopt(scene.app, 1)
    [asked] = waiting(scene.app)
    for name in ("alice", "bob"):
        say(scene, 1, f"/approve {asked.revision}", author=name)
    look(scene.app)
    [loop] = scene.app.loops.ids()
    scene.drive(read_loop(scene.app, loop))
    say(scene, 1, "/accept", author="alice")
    assert [(found.by, found.outcome) for found in look(scene.app)] == [("alice", "refused")]


@pytest.mark.parametrize("gates", [GATED, None], ids=["gated", "open"])
def test_adopting_an_issue_names_only_what_passes(scene, gates):
    scene.policy = scene.policy.model_copy(update={"gates": gates})
    write(scene)
    plan = adopt(scene.app, 1)
    said = next_after_adopting(plan, 1, gate_of_issue(scene.world, plan))
    [asked] = waiting(scene.app)
    assert str(asked.revision) in said
    assert bool(REFUSED.search(said)) == (gates is None)
    assert ("2 people with write access decide" in said) == (gates is not None)
