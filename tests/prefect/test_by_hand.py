"""What a person does to our runs in Prefect's pages, Retry, Cancel, Delete, another state, does no harm.

Beside what `test_issue_flow`, `test_loop_flow`, `test_runs` and `tests/e2e/test_crashes.py` say of runs that ask or
work.
"""

from __future__ import annotations

import pytest
from prefect.states import Cancelled, Completed, Running, Scheduled

from irontree.flows.intake import intake
from irontree.flows.issue import issue
from irontree.flows.janitor import janitor
from irontree.flows.loop import loop
from irontree.flows.runs import runs
from irontree.flows.runs.recovery import NOBODY_STARTS, mark_dead_runs, newest_run, take_up
from irontree.services.loops.loop import read_loops
from tests.integration.crash.laboratory import faults
from tests.prefect.toys import GREETING, Toy, make_halted, make_toy, served, text_of
from tests.support.soak import in_soak

ACCEPT = "accept this commit"
FLOWS = ("intake", "issue", "loop", "janitor")


def retry(toy: Toy, run_id) -> None:
    """What the button does."""
    toy.client.set_flow_run_state(run_id, Scheduled(name="AwaitingRetry", message="Retry from the UI"))


def started(toy: Toy, flow: str, **parameters: object):
    """A run of that deployment, made by hand."""
    deployment = toy.deployment(flow)
    return toy.client.create_flow_run_from_deployment(deployment, parameters=parameters).id


@pytest.fixture
def halted(tmp_path, client) -> tuple[Toy, str]:
    """A loop that halted at the acceptance of its one issue."""
    return make_halted(tmp_path, client, *FLOWS)


def test_whatever_is_tried_again_after_its_end_says_what_it_said_and_changes_nothing(halted):
    """Retry on the halted loop's run, then on those of an issue that is done and of a loop at its goal."""
    toy, loop_id = halted
    before, driving = toy.loop_events(loop_id), newest_run(toy.app, loop_id)
    retry(toy, driving.id)
    assert toy.drive(driving.id, loop).name == "Halted"
    assert toy.loop_events(loop_id) == before
    with served(toy):
        toy.answer(toy.suspended()[0].id, ACCEPT)
        assert toy.rest(loop_id).state_name == "Goal reached"
    events, ends = toy.events(), [(toy.runs_of(1)[0].id, "Done"), (newest_run(toy.app, loop_id).id, "Completed")]
    for run_id, ending in ends:
        retry(toy, run_id)
        assert toy.drive(run_id, loop if ending == "Completed" else issue).name == ending
    assert toy.events() == events
    assert faults(toy.app) == []


def test_a_halted_loop_whose_runs_were_deleted_is_asked_again_and_goes_on(halted):
    toy, loop_id = halted
    before = text_of(toy.asked(toy.suspended()[0].id))
    for run in toy.all_runs():
        toy.delete(run.id)
    with served(toy):
        started(toy, "janitor", repository=str(toy.root))
        toy.settle()
        [asking] = toy.suspended()
        assert text_of(toy.asked(asking.id)) == before
        toy.answer(asking.id, ACCEPT)
        assert toy.rest(loop_id).state_name == "Goal reached"
    assert faults(toy.app) == []


@pytest.mark.parametrize(
    "state", [Completed(), pytest.param(Cancelled(), marks=in_soak)], ids=["Completed", "Cancelled"]
)
def test_an_approval_whose_run_was_ended_by_hand_is_none_and_asks_when_it_is_tried_again(tmp_path, client, state):
    toy = make_toy(tmp_path, client, GREETING, *FLOWS)
    run_id = started(toy, "intake", repository=str(toy.root), document="SPEC.md")
    assert toy.drive(run_id, intake).name == "Suspended"
    client.set_flow_run_state(run_id, state, force=True)
    assert read_loops(toy.app)[0] == ()
    retry(toy, run_id)
    assert toy.drive(run_id, intake).name == "Suspended"
    toy.answer(run_id, "approve this revision and start the loop")
    assert toy.drive(run_id, intake).name == "Approved"
    assert len(read_loops(toy.app)[0]) == 1


def test_a_loop_that_was_said_to_run_though_nobody_drives_it_is_found_dead_and_taken_up(halted, client):
    """...and so is the run of its issue, with its question."""
    toy, loop_id = halted
    asking, driving = toy.suspended()[0], newest_run(toy.app, loop_id)
    for run in (asking, driving):
        client.set_flow_run_state(run.id, Running(), force=True)
    assert len(mark_dead_runs(toy.app, grace=NOBODY_STARTS)) == 2
    with served(toy):
        assert take_up(toy.app, loop_id)
        toy.settle()
        toy.answer(asking.id, ACCEPT)
        assert toy.rest(loop_id).state_name == "Goal reached"
    assert faults(toy.app) == []


def test_the_janitor_may_be_cancelled_or_tried_again_at_any_time(halted, client):
    toy, _ = halted
    run_id = started(toy, "janitor", repository=str(toy.root))
    client.set_flow_run_state(run_id, Cancelled(), force=True)
    retry(toy, run_id)
    assert toy.drive(run_id, janitor).name == "Completed"
    assert len(toy.suspended()) == 1
    toy.delete(run_id)
    assert runs.state(client, run_id).state_name == "Deleted"
