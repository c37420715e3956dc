"""Waiting for another run by our own log: what it shows counts, and a run that stopped short of it is noticed."""

from __future__ import annotations

import asyncio

import pytest

from irontree.flows.runs.runs import RunInfo, wait_for
from tests.prefect.harness import deploy, drive
from tests.prefect.sample_flows import note, question


@pytest.fixture
def run_id(client, tmp_path):
    """A run that nobody takes up."""
    return client.create_flow_run_from_deployment(deploy(note, "waiting"), parameters={"folder": str(tmp_path)}).id


def test_what_the_log_shows_ends_the_wait(run_id):
    shown = iter([None, None, "issue 12 is done"])
    assert asyncio.run(wait_for(lambda: next(shown), run_id)) == "issue 12 is done"


def test_a_run_that_ended_without_it_is_what_was_found(client, run_id):
    drive(note, client, run_id)
    found = asyncio.run(wait_for(lambda: None, run_id))
    assert isinstance(found, RunInfo)
    assert (found.id, found.state) == (run_id, "COMPLETED")


def test_so_is_a_run_that_asks_a_person(client):
    run = client.create_flow_run_from_deployment(deploy(question, "waiting"))
    drive(question, client, run.id)
    assert asyncio.run(wait_for(lambda: None, run.id)).state_name == "Suspended"
