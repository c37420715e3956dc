"""The gate: a suspended run is one open question, answered once, whatever happened to the run in between."""

from __future__ import annotations

import logging
import threading

import pytest
from prefect.states import Cancelled, Scheduled

from irontree.errors import AnswerRefused
from irontree.flows.runs import runs
from irontree.flows.runs.forms import answer_form, open_question
from tests.prefect.harness import deploy, drive, logs
from tests.prefect.sample_flows import QUESTION, question

ACCEPT = {"decision": "accept", "approver": "Ada"}


def ask(client):
    run = client.create_flow_run_from_deployment(deploy(question, "gate"))
    assert drive(question, client, run.id).name == "Suspended"
    return run.id


@pytest.fixture
def asked(client):
    """A run that is suspended with its first question."""
    return ask(client)


@pytest.fixture(scope="module")
def standing(api_url):
    """The same for tests that leave the question open."""
    with runs.connect() as client:
        return ask(client)


def again(client, run_id) -> str:
    """Drive the run once more; the name of the state it ends in."""
    return drive(question, client, run_id).name


def outcome(client, run_id) -> str:
    return runs.state(client, run_id).message


def test_a_suspended_run_shows_its_question(client, standing):
    found = open_question(client, standing)
    assert (found.key, found.description, found.choices) == ("halt-1", QUESTION, ("accept", "send back", "skip"))


def test_a_run_that_is_not_suspended_asks_nothing(client):
    run = client.create_flow_run_from_deployment(deploy(question, "gate"))
    assert open_question(client, run.id) is None


def test_the_answer_of_the_form_lets_the_run_go_on(client, asked):
    answer_form(client, asked, ACCEPT | {"note": "well done"}, key="halt-1")
    assert again(client, asked) == "Answered"
    assert outcome(client, asked) == "accept by Ada (halt-1)"


def test_a_second_answer_is_refused(client, asked):
    answer_form(client, asked, ACCEPT, key="halt-1")
    with pytest.raises(AnswerRefused, match="not open any more"):
        answer_form(client, asked, {"decision": "skip", "approver": "Bob"}, key="halt-1")
    again(client, asked)
    assert outcome(client, asked) == "accept by Ada (halt-1)"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"approver": "Ada"}, "'decision' is a required property"),
        ({"decision": "perhaps", "approver": "Ada"}, "'perhaps' is not one of"),
        ({"decision": "accept"}, "'approver' is a required property"),
        ({"decision": "accept", "approver": " "}, "' ' does not match"),
        (ACCEPT | {"count": 51}, "51 is greater than the maximum of 50"),
        (ACCEPT | {"shell": "rm"}, "'shell' does not match any"),
    ],
)
def test_a_wrong_answer_is_refused_with_its_reason_and_the_question_stays_open(client, standing, payload, reason):
    with pytest.raises(AnswerRefused, match=reason):
        answer_form(client, standing, payload, key="halt-1")
    assert open_question(client, standing).key == "halt-1"


def test_an_answer_to_an_earlier_question_is_refused(client, standing):
    with pytest.raises(AnswerRefused, match="not open any more"):
        answer_form(client, standing, ACCEPT, key="halt-0")
    assert open_question(client, standing).key == "halt-1"


def test_a_question_can_be_answered_after_a_wrong_answer(client, asked):
    with pytest.raises(AnswerRefused):
        answer_form(client, asked, {}, key="halt-1")
    answer_form(client, asked, ACCEPT, key="halt-1")
    assert again(client, asked) == "Answered"


def test_an_undecided_run_that_was_rescheduled_asks_again_under_the_next_key(client, asked):
    for number in (2, 3):
        runs.reschedule(client, asked)
        assert again(client, asked) == "Suspended"
        assert open_question(client, asked).key == f"halt-1-again-{number}"
    answer_form(client, asked, ACCEPT, key="halt-1-again-3")
    assert again(client, asked) == "Answered"


def test_a_replay_takes_the_stored_answer_and_asks_nobody(client, asked):
    answer_form(client, asked, ACCEPT, key="halt-1")
    again(client, asked)
    runs.reschedule(client, asked)
    assert again(client, asked) == "Answered"
    assert outcome(client, asked) == "accept by Ada (halt-1)"


def test_an_answer_survives_a_process_that_died_before_it_read_it(client, asked):
    answer_form(client, asked, ACCEPT, key="halt-1")
    client.set_flow_run_state(asked, Cancelled(), force=True)
    client.set_flow_run_state(asked, Scheduled())
    assert again(client, asked) == "Answered"


def test_a_cancelled_run_that_starts_again_asks_its_question_anew(client, asked):
    """Prefect forgets the key then, but not the form: saving it a second time would fail."""
    client.set_flow_run_state(asked, Cancelled())
    client.set_flow_run_state(asked, Scheduled())
    assert again(client, asked) == "Suspended"
    answer_form(client, asked, ACCEPT, key=open_question(client, asked).key)
    assert again(client, asked) == "Answered"


@pytest.mark.parametrize("part", ["schema", "description"])
def test_a_run_whose_process_died_before_it_asked_asks_when_it_is_rescheduled(client, asked, part):
    """Prefect suspends the run first, and stores the form and its text after it."""
    client.delete_flow_run_input(asked, f"suspended-halt-1-{part}")
    assert open_question(client, asked) is None
    runs.reschedule(client, asked)
    assert again(client, asked) == "Suspended"
    assert open_question(client, asked).key == "halt-1-again-2"


def test_an_answer_that_comes_before_the_form_is_stored_waits_for_it(client, asked):
    form = client.read_flow_run_input(asked, "suspended-halt-1-schema")
    client.delete_flow_run_input(asked, "suspended-halt-1-schema")
    threading.Timer(0.3, client.create_flow_run_input, (asked, "suspended-halt-1-schema", form)).start()
    answer_form(client, asked, ACCEPT, key="halt-1")
    assert again(client, asked) == "Answered"


def test_a_run_that_halted_and_was_answered_has_no_log_line_above_info(client, asked):
    runs.reschedule(client, asked)
    again(client, asked)
    answer_form(client, asked, ACCEPT, key="halt-1-again-2")
    again(client, asked)
    lines = logs(client, asked)
    assert [text for level, text in lines if level > logging.INFO] == []
    assert [text for _, text in lines if text.startswith("Finished in state Suspended")]
