"""Which runs are executed, as what, and which are refused: whatever the server says of them."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from prefect.client.schemas.objects import FlowRun, State
from prefect.results import ResultRecord, ResultRecordMetadata
from prefect.serializers import PickleSerializer

from irontree.errors import NotEligible
from irontree.flows.serve.taken import COMMAND, SERVED, TEMPLATE, believe_no_results, flow_of, own_worker

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


class Evil:
    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> Any:
        return Path.touch, (self.sprung,)


@pytest.fixture
def _as_before():
    """What is refused in this process stays refused: here no other test may see that."""
    kept = {name: vars(ResultRecord)[name] for name in ("deserialize", "deserialize_from_result_and_metadata")}
    yield
    for name, way in kept.items():
        setattr(ResultRecord, name, way)


@pytest.mark.usefixtures("_as_before")
def test_a_stored_result_that_a_state_names_is_not_decoded(tmp_path):
    """Who writes to the server gives a run that state, and the engine asks for its result."""
    sprung, stored = tmp_path / "sprung", tmp_path / "stored"
    metadata = ResultRecordMetadata(storage_key=str(stored), serializer=PickleSerializer())
    stored.write_bytes(ResultRecord(result=Evil(sprung), metadata=metadata).serialize())
    given = {"type": "COMPLETED", "data": {"storage_key": str(stored), "serializer": {"type": "pickle"}}}
    believe_no_results()
    with pytest.raises(NotEligible, match="names a stored result"):
        asyncio.run(State.model_validate(given).aresult(retry_result_failure=False))
    assert not sprung.exists()
