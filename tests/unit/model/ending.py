"""The friendly end: the agent works, the checks pass, people answer. Then everything wanted is done, soon."""

from __future__ import annotations

from pathlib import Path

from irontree.app import App
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.answers.approve import approve
from irontree.services.consistency.reconcile import reconcile
from irontree.services.execution.steps import Idle, catch_up, next_step, perform
from irontree.services.loops import loop as loops
from irontree.services.proposals.again import propose_again
from irontree.services.proposals.sources import propose
from irontree.services.questions.questions import Question
from irontree.services.record import read_world
from tests.support.memory_project import push_from_elsewhere
from tests.support.world import Answers, Scene, drive
from tests.unit.model.chances import KIND, Chances
from tests.unit.model.invariants import Ledger, check, look

Spoilt = dict[tuple[int, int, str], bytes]
"""What files held before they were spoilt: by issue, how many streams it had before this one, and name."""
SPOILT_CONTENTS = (None, None, b"", b"garbage: [", b"iron_tree: {}\n")
ROUNDS = 8
STEPS_OF_AN_ISSUE = 12
ANSWERS_TO_A_LOOP = 60


def bring_to_an_end(scene: Scene, chances: Chances, ledger: Ledger, spoilt: Spoilt, documents: list[Path]) -> None:
    """Put right what people can put right, then work until nothing is left; fails if that does not end."""
    restore(scene, spoilt)
    _put_right(scene)
    for _ in range(ROUNDS):
        with chances.under(KIND) as app:
            _one_round(app, documents)
            left = _left(app)
        sight = look(scene, chances.runs, decides=True)
        check(sight, ledger)
        ledger.remember(sight)
        if not left:
            return
    raise AssertionError(f"these never come to an end: {left}")


def restore(scene: Scene, spoilt: Spoilt) -> None:
    """Put back every file that is still spoilt, unless its stream was archived.

    Where all events of a stream were lost, it begins anew: another event then has the number of the lost one.
    """
    for (number, archives, name), content in spoilt.items():
        files = scene.log.files(number).files
        there = {known: text for known, text in files.items() if known.startswith(name[:4])}
        is_free = all(known == name and text in SPOILT_CONTENTS for known, text in there.items())
        if is_free and len(scene.log.archives(number)) == archives:
            files[name] = content
    spoilt.clear()


def _put_right(scene: Scene) -> None:
    scene.repository.blockers.clear()
    push_from_elsewhere(scene.repository, {"broken": b"no"})
    for plan in scene.world.plans.values():
        if plan.adoption and not scene.world.is_done(plan.nodes[0].task_key):
            scene.forge("eve").edit_issue(plan.adoption.issue_number, state="open")


def _one_round(app: App, documents: list[Path]) -> None:
    with app.driver.hold("catch up"):
        catch_up(app)
        reconcile(app)
    for document in documents:
        proposal = propose(app, document)
        with app.driver.hold("publish"):
            approve(app, proposal, proposal.name, "ada")
    for loop in loops.open_loops(app):
        drive(app, loop.id, _patient(app))
    for state in read_world(app).states.values():
        _finish(app, state.issue_number)


def _finish(app: App, number: int) -> None:
    """Bring one issue as far as it goes without a loop."""
    for _ in range(STEPS_OF_AN_ISSUE):
        found = next_step(app, number)
        if isinstance(found, Idle):
            return
        if isinstance(found, Question):
            with app.driver.hold("answer"):
                answer_issue(app, number, _answer(app, found))
        else:
            perform(app, found)
    raise AssertionError(f"issue-{number} goes round in circles: {found}")


def _patient(app: App) -> Answers:
    """Somebody who answers often, but not for ever."""
    left = iter(range(ANSWERS_TO_A_LOOP))
    return lambda question: _answer(app, question) if next(left, None) is not None else None


def _answer(app: App, question: Question) -> Answer:
    """What somebody says who wants the work done."""
    words = {
        "pending_acceptance": "accept",
        "fail_terminal": "retry",
        "reapproval_required": "approve",
        "blocked": "go-on",
        "protocol_gap": "stop",
        "loop_budget_exhausted": "extend",
    }
    plan = read_world(app).plans.get(question.task_key or "")
    revision = propose_again(app, plan).name if plan else None
    return Answer(words[question.rule.reason], "ada", note="fine", count=2, amount="1h", revision=revision)


def _left(app: App) -> list[str]:
    world = read_world(app)
    wanted = (state for state in world.states.values() if state.task_key not in world.cancelled)
    return [f"{state.task_key} is {state.phase}" for state in wanted if not state.done]
