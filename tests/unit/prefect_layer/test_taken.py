"""Which runs are executed, as what, and which are refused: whatever the server says of them."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import pytest
from prefect.client.schemas.objects import FlowRun

from irontree.errors import NotEligible
from irontree.flows.serve.taken import COMMAND, SERVED, TEMPLATE, flow_of, own_worker

OURS = uuid.uuid4()


@pytest.fixture(autouse=True)
def _served(monkeypatch):
    """This process serves the flow `note` for one repository."""
    monkeypatch.setenv(SERVED, json.dumps({str(OURS): ["tests.prefect.sample_flows.note", "/repository"]}))


def run(**more: Any) -> FlowRun:
    given = {"deployment_id": OURS, "parameters": {"repository": "/repository", "text": "a"}} | more
    return FlowRun(flow_id=uuid.uuid4(), **given)


def test_a_run_of_ours_is_executed_as_the_flow_that_is_served():
    assert flow_of(run()).name == "note"
    assert flow_of(run(job_variables={})).name == "note"


@pytest.mark.parametrize("name", ["command", "env", "working_dir", "stream_output", "env.PATH", "image"])
def test_a_run_that_brings_a_job_variable_is_refused_with_its_name(name):
    with pytest.raises(NotEligible, match=rf"job variables \({name}\)"):
        flow_of(run(job_variables={name: ""}))


@pytest.mark.parametrize("deployment", [uuid.uuid4(), None])
def test_a_run_of_another_deployment_is_refused(deployment):
    with pytest.raises(NotEligible, match="none of those that are served"):
        flow_of(run(deployment_id=deployment))


@pytest.mark.parametrize("repository", ["/other", "/repository/../other", None, ["/repository"]])
def test_a_run_for_another_repository_is_refused(repository):
    with pytest.raises(NotEligible, match="its repository is not"):
        flow_of(run(parameters={"repository": repository}))


def test_a_process_that_serves_nothing_executes_nothing(monkeypatch):
    monkeypatch.delenv(SERVED)
    with pytest.raises(NotEligible, match="none of those that are served"):
        flow_of(run())


async def _configuration(template: dict[str, Any], values: dict[str, Any]) -> Any:
    return await own_worker("irontree").job_configuration.from_template_and_values(template, values)


def test_neither_the_pools_template_nor_values_change_how_a_worker_starts_a_run():
    evil = {"command": "touch x", "env": {"A": "B"}, "working_dir": "/", "stream_output": False}
    template = {"job_configuration": evil, "variables": {"properties": {}}}
    for given in (template, dict(TEMPLATE)):
        made = asyncio.run(_configuration(given, evil))
        assert (made.command, made.env, made.working_dir, made.stream_output) == (COMMAND, {}, None, True)
