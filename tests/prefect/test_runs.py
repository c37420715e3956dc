"""Flow runs by idempotency key: one run per issue for life, whatever became of it."""

from __future__ import annotations

import uuid

import pytest
from prefect.states import Cancelling, Completed, Crashed, Pending, Running

from irontree.errors import ServerUnavailable
from irontree.flows.runs import runs
from tests.prefect.harness import deploy, drive, prefect_at
from tests.prefect.sample_flows import note, question


@pytest.fixture
def workspace_id(client):
    """A name of deployments that no other test uses."""
    name = f"ws-{uuid.uuid4().hex[:8]}"
    for flow in (note, question):
        deploy(flow, name, tags=[runs.owner_tag(name)])
    return name


@pytest.fixture
def ensure(client, workspace_id, tmp_path):
    """Have the note flow's run of issue 1."""

    def ensure(text: str) -> runs.RunInfo:
        parameters = {"folder": str(tmp_path), "text": text}
        key = f"{workspace_id}:issue-1"
        return runs.ensure_run(
            client,
            client.read_deployment_by_name(f"note/{workspace_id}").id,
            key=key,
            parameters=parameters,
            name="#1 note",
        )

    return ensure


def test_the_first_call_makes_the_run_and_a_second_finds_it(client, workspace_id, ensure):
    made = ensure("one")
    assert (made.name, made.state, made.final) == ("#1 note", "SCHEDULED", False)
    assert ensure("two").id == made.id
    assert runs.find_run(client, f"{workspace_id}:issue-1").id == made.id


def test_a_run_that_ended_starts_again_with_the_new_parameters(client, ensure, tmp_path):
    made = ensure("one")
    drive(note, client, made.id)
    assert runs.state(client, made.id).final
    found = ensure("two")
    assert (found.id, found.state_name) == (made.id, "Rescheduled")
    drive(note, client, made.id)
    assert (tmp_path / "notes").read_text() == "one\ntwo\n"


def test_a_suspended_run_is_left_with_its_question(client, workspace_id):
    made = runs.ensure_run(
        client, client.read_deployment_by_name(f"question/{workspace_id}").id, key=f"{workspace_id}:q", parameters={}
    )
    drive(question, client, made.id)
    found = runs.ensure_run(
        client, client.read_deployment_by_name(f"question/{workspace_id}").id, key=f"{workspace_id}:q", parameters={}
    )
    assert (found.id, found.state_name) == (made.id, "Suspended")


def test_without_a_run_of_that_key_none_is_found(client):
    assert runs.find_run(client, "nobody:issue-1") is None


def test_a_deployment_that_nobody_serves_is_named_with_its_remedy(client):
    with pytest.raises(ServerUnavailable, match="no deployment of note for the repository nowhere") as refusal:
        runs.deployment_id(client, "note", "nowhere")
    assert "irontree resume" in refusal.value.remedy


@pytest.mark.parametrize("state", [Completed(), Crashed()])
def test_whatever_has_ended_can_be_scheduled_again(client, ensure, state):
    run = ensure("one")
    client.set_flow_run_state(run.id, state, force=True)
    assert runs.reschedule(client, run.id).state == "SCHEDULED"


@pytest.mark.parametrize("state", [Pending(), Running()])
def test_a_run_that_a_process_has_taken_up_is_not_scheduled_beside_it(client, ensure, state):
    run = ensure("one")
    client.set_flow_run_state(run.id, state, force=True)
    assert runs.reschedule(client, run.id).state == state.type.value


def test_a_run_that_went_on_with_its_answer_is_not_ended_as_overtaken(client, ensure):
    """A person may answer between the look that finds the question overtaken and the word that ends its run."""
    run = ensure("one")
    client.set_flow_run_state(run.id, Running(), force=True)
    assert runs.supersede(client, run.id, "approved elsewhere").state == "RUNNING"


def test_runs_that_were_taken_up_are_found_by_workspace(client, workspace_id, ensure):
    mine = ensure("one")
    client.set_flow_run_state(mine.id, Running(), force=True)
    other = client.create_flow_run_from_deployment(deploy(note, "elsewhere"), parameters={"folder": "."})
    client.set_flow_run_state(other.id, Running(), force=True)
    assert [run.id for run in runs.taken_up(client, workspace_id)] == [mine.id]


@pytest.mark.parametrize(("before", "after"), [(Running(), "CRASHED"), (Cancelling(), "CANCELLED")])
def test_a_run_whose_process_is_gone_has_crashed_unless_it_was_being_cancelled(client, ensure, before, after):
    run = ensure("one")
    client.set_flow_run_state(run.id, before, force=True)
    runs.mark_ended(client, runs.state(client, run.id), "its process is gone")
    ended = runs.state(client, run.id)
    assert (ended.state, ended.message) == (after, "its process is gone")


def test_a_suspended_run_is_cancelled_at_once(client, workspace_id):
    run = runs.ensure_run(
        client, client.read_deployment_by_name(f"question/{workspace_id}").id, key=f"{workspace_id}:c", parameters={}
    )
    drive(question, client, run.id)
    assert runs.cancel(client, run.id).state == "CANCELLED"


def test_a_run_that_somebody_deleted_has_not_come_to_its_end_and_cannot_be_started(client, ensure):
    run = ensure("one")
    client.delete_flow_run(run.id)
    gone = runs.state(client, run.id)
    assert (gone.final, gone.state, gone.message) == (True, "CRASHED", "it was deleted in Prefect")
    with pytest.raises(ServerUnavailable, match="does not know a run"), runs.connect() as connected:
        runs.reschedule(connected, run.id)
    assert ensure("one").id != run.id


def test_the_page_of_a_run_is_the_one_with_the_resume_button(api_url):
    run_id = uuid.uuid4()
    assert runs.url_for(run_id) == f"{api_url.removesuffix('/api')}/runs/flow-run/{run_id}"


def test_a_server_that_does_not_answer_is_named_with_its_address():
    with (
        prefect_at("http://127.0.0.1:9/api"),
        pytest.raises(ServerUnavailable, match=r"127\.0\.0\.1:9"),
        runs.connect() as client,
    ):
        runs.find_run(client, "x")
