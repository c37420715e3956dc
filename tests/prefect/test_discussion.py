"""A new issue from its discussion to its approved parts, by the runs and looks of a server that people serve."""

from __future__ import annotations

import pytest

from irontree.domain.commands import Issues
from irontree.flows.runs.recovery import wake_overtaken
from irontree.flows.runs.requests import ask_for_approval
from irontree.flows.serve.chores import take_comments
from irontree.services.proposals.sources import resolve
from irontree.services.record import read_world
from irontree.services.toolchain.looking import TeamLookout
from tests.integration.crash.laboratory import open_issue, team_that_discusses
from tests.prefect.toys import GREETING, make_toy, served, wait_until

DRAFT = ".mino/drafts/issue-1.md"
APPROVE = "approve this revision and start the loop"


@pytest.fixture
def toy(tmp_path, client):
    """A project with a team of two, and an issue that they are to talk over."""
    flows = ("agent_request", "intake", "issue", "loop")
    made = make_toy(tmp_path, client, GREETING, *flows, settings=team_that_discusses(tmp_path))
    open_issue(made.app)
    return made


@pytest.fixture
def proposed(toy):
    """The same, once the team has proposed to divide it and is served no more; one look has the members asked."""
    with served(toy):
        take_comments(toy.app)
        assert wait_until(lambda: intakes(toy))
        toy.settle()
    return toy


def comments(toy) -> list[str]:
    return [comment.body.split()[0] for comment in toy.app.forge().comments(1)]


def intakes(toy):
    return [run for run in toy.all_runs() if run.parameters.get("document") == DRAFT]


def test_an_opened_issue_is_talked_over_approved_in_a_comment_and_done_by_its_parts(proposed):
    toy = proposed
    assert comments(toy) == ["[quant]", "[coder]", "The"]
    assert (toy.root.parent / "asked").read_text() == "quant\ncoder\n"
    [form] = intakes(toy)
    assert form.state_name == "Suspended"
    for needed in ("#1 Averages", "Part of quant", "test -f part-of-coder.txt"):
        assert needed in toy.asked(form.id).description
    name = resolve(toy.app, Issues((1,)), "#1").name
    assert f"`/approve {name}`" in toy.app.forge().comments(1)[-1].body
    toy.app.forge().post_comment(1, f"/approve {name}")
    with served(toy):
        take_comments(toy.app)
        [loop_id] = toy.app.loops.ids()
        assert toy.rest(loop_id).state_name == "Goal reached"
    world = read_world(toy.app)
    assert world.children["averages"] == ("part-of-quant", "part-of-coder")
    assert all(state.done for state in world.states.values())
    assert [run.id for run in intakes(toy)] == [form.id]
    assert wait_until(lambda: intakes(toy)[0].final)


def test_the_form_approves_the_same(proposed):
    toy = proposed
    [form] = intakes(toy)
    toy.answer(form.id, APPROVE)
    with served(toy):
        toy.settle()
        take_comments(toy.app)
        toy.settle()
    assert intakes(toy)[0].state_name == "Approved"
    assert all(state.done for state in read_world(toy.app).states.values())
    assert comments(toy)[:3] == ["[quant]", "[coder]", "The"]


def test_what_is_declined_in_the_form_is_not_asked_there_again_and_can_be_sent_back(proposed):
    toy = proposed
    [form] = intakes(toy)
    toy.answer(form.id, "do not approve")
    with served(toy):
        toy.settle()
        take_comments(toy.app)
        toy.settle()
        assert [run.state_name for run in intakes(toy)] == ["Declined"]
        assert toy.app.loops.ids() == ()
        toy.app.forge().post_comment(1, "/send-back smaller parts")
        take_comments(toy.app, team=TeamLookout())
        assert wait_until(lambda: len(comments(toy)) == 7)
        toy.settle()
    assert comments(toy)[3:] == ["/send-back", "[quant]", "[coder]", "The"]
    assert not toy.suspended(), "the same claims were declined"


def test_a_form_that_is_open_shows_what_a_later_round_proposes(proposed):
    toy = proposed
    [form] = intakes(toy)
    text = toy.app.agent_requests.draft(1)
    toy.app.agent_requests.save_draft(1, text.replace("Part of quant", "Larger part"))
    with served(toy):
        wake_overtaken(toy.app)
        ask_for_approval(toy.app, [DRAFT])
        toy.settle()
    assert "Larger part" in toy.asked(form.id).description
    assert [run.id for run in toy.suspended()] == [form.id]
