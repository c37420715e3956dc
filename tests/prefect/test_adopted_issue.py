"""An issue that somebody wrote by hand: approved in a form, and brought to its end by the same runs as any other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.domain.commands import Issues
from irontree.flows.intake import intake
from irontree.flows.runs.recovery import wake_overtaken
from irontree.flows.serve.chores import take_up_what_died
from irontree.services.loops.loop import cancel
from irontree.services.proposals.again import propose_again
from irontree.services.proposals.sources import resolve
from irontree.services.record import read_world
from tests.prefect.toys import FRIENDLY, make_toy, served
from tests.support.approving import approve_as_shown

APPROVE = "approve this revision and start the loop"
BODY = "## Acceptance criteria\n\n- it is there `$ test -f greeting.txt`\n"


@pytest.fixture
def toy(tmp_path, client):
    """A project with one issue that nobody has adopted."""
    made = make_toy(tmp_path, client, FRIENDLY, "intake", "issue", "loop")
    (made.root / "SPEC.md").unlink()
    made.app.forge().create_issue("Greeting", BODY)
    return made


def start(toy, words: str):
    deployment = toy.deployment("intake")
    parameters = {"repository": str(toy.root), "document": words}
    return toy.client.create_flow_run_from_deployment(deployment, parameters=parameters).id


def test_an_adopted_issue_is_approved_in_a_form_runs_and_is_done(toy):
    """TC-9.5, through the flows."""
    asking = start(toy, "#1")
    assert toy.drive(asking, intake).name == "Suspended"
    shown = toy.asked(asking).description
    for needed in ("Loop Mode", "#1 Greeting", "[adopted]", "test -f greeting.txt"):
        assert needed in shown
    assert toy.app.log.streams() == ()
    forge, asked = toy.app.forge(), []
    looking = replace(toy.app, forge=lambda: asked.append("the forge") or forge)
    assert ([*take_up_what_died(looking)], asked) == ([], []), "every minute, for as long as the form is open"
    assert wake_overtaken(looking) == ()
    assert asked, "the janitor looks what became of it"
    toy.answer(asking, APPROVE)
    assert toy.drive(asking, intake).name == "Approved"
    assert toy.events() == ["task_adopted", "task_approved"]
    [loop_id] = toy.app.loops.ids()
    with served(toy):
        assert toy.rest(loop_id).state_name == "Goal reached"
    assert toy.state().done
    assert toy.events()[-1] == "checkup_done"
    assert toy.app.forge().read_issue(1).body == BODY
    assert [run.state_name for run in toy.runs_of(1)] == ["Done"]


def test_an_approval_that_an_open_loop_keeps_from_being_taken_is_asked_for_again_with_the_reason(toy):
    toy.app.forge().create_issue("Farewell", BODY)
    with toy.app.driver.hold("adopt"):
        loop_id = approve_as_shown(toy.app, resolve(toy.app, Issues((1, 2)), "#1 #2"), "ada").id
    asking = start(toy, "#1")
    assert toy.drive(asking, intake).name == "Suspended"
    toy.answer(asking, APPROVE)
    assert toy.drive(asking, intake).name == "Suspended"
    assert f"**Not taken:** loop {loop_id} is open" in toy.asked(asking).description
    cancel(toy.app, loop_id, "ada")
    toy.answer(asking, APPROVE)
    assert toy.drive(asking, intake).name == "Approved"


def test_a_text_that_was_edited_after_the_approval_is_asked_about_by_the_issues_own_run_and_taken_in_anew(toy):
    """TC-9.4 and R7, through the flows."""
    with toy.app.driver.hold("adopt"):
        loop_id = approve_as_shown(toy.app, resolve(toy.app, Issues((1,)), "#1"), "ada").id
    toy.app.forge().edit_issue(1, body=f"{BODY}- it is friendly `$ test -f greeting.txt`\n")
    with served(toy):
        assert toy.go(loop_id).state_name == "Halted"
        [asking] = toy.suspended()
        shown = toy.asked(asking.id).description
        assert "criterion added: it is friendly" in shown
        name = propose_again(toy.app, read_world(toy.app).plan(toy.state())).name
        assert name in shown
        toy.answer(asking.id, "approve this revision")
        assert toy.rest(loop_id).state_name == "Goal reached"
    assert toy.events()[:2] == ["task_re_adopted", "task_approved"]
    assert toy.state().done
