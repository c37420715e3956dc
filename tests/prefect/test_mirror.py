"""Protocol events reach Prefect too; what Prefect does not take is no failure of the work."""

from __future__ import annotations

import logging
import time
import uuid

from prefect.events.worker import EventsWorker

from irontree.tasks.artifacts import emit


def stored(client, resource):
    chosen = {"filter": {"any_resource": {"id": [resource]}}}
    return client.request("POST", "/events/filter", json=chosen).json()["events"]


def test_an_event_names_its_issue_and_its_workspace(client):
    workspace = uuid.uuid4().hex[:8]
    emit("run_started", workspace_id=workspace, stream="issue.12", name="#12", payload={"attempt": 2})
    EventsWorker.drain_all(timeout=10)
    deadline = time.monotonic() + 20
    while not (found := stored(client, f"irontree.{workspace}")):
        assert time.monotonic() < deadline, "the event did not arrive"
        time.sleep(0.1)
    assert found[0]["event"] == "irontree.run_started"
    assert found[0]["resource"] == {
        "prefect.resource.id": f"irontree.{workspace}.issue.12",
        "prefect.resource.name": "#12",
    }
    assert found[0]["payload"] == {"attempt": 2}


def test_an_event_that_is_too_large_is_reported_and_does_no_harm(api_url, caplog):
    with caplog.at_level(logging.WARNING):
        emit("run_completed", workspace_id="w", payload={"output": "x" * 2_000_000})
    assert "irontree.run_completed is in the log, but Prefect did not take it" in caplog.text
