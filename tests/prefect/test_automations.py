"""Ready-made automations on a real server: a person is told where to answer, an issue is put up for approval."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.events.worker import EventsWorker
from prefect.states import Completed

from irontree.errors import ConfigRefused, ServerUnavailable
from irontree.flows.reconcile import reconcile
from irontree.flows.runs import runs
from irontree.flows.serve.automations import Configured, register_automations
from irontree.flows.serve.changes import ForgeChanges
from irontree.flows.serve.chores import put_up_for_approval, remind
from irontree.flows.serve.closings import emit_closing
from irontree.flows.serve.serving import NIGHTLY
from irontree.ports import Label
from irontree.services.toolchain.closed import Closing
from irontree.tasks.artifacts import mirror, read_told
from tests.prefect.toys import FRIENDLY, GREETING, make_toy, wait_until

SETTINGS = "automations: {notify: [custom-webhook/team], start_label: agent, remind_hours: 24}\n"


@pytest.fixture
def received() -> Iterator[Queue[dict[str, Any]]]:
    """What a webhook of ours on loopback is sent; a notification block of that name leads there."""
    bodies: Queue[dict[str, Any]] = Queue()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = {"subject": "{{subject}}", "body": "{{body}}"}
        address = f"http://127.0.0.1:{server.server_port}/"
        block = CustomWebhookNotificationBlock(name="team", url=address, json_data=words, allow_private_urls=True)
        block.save("team", overwrite=True, _sync=True)
        yield bodies
        server.shutdown()


@pytest.fixture
def toy(tmp_path, client, received):
    """A project that wants all automations."""
    return make_toy(tmp_path, client, FRIENDLY, "issue", "intake", "reconcile", settings=SETTINGS)


class Later:
    """A clock that is ahead."""

    def __init__(self, hours: int) -> None:
        self._ahead = timedelta(hours=hours)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead


def told(received: Queue[dict[str, Any]]) -> dict[str, Any]:
    EventsWorker.drain_all(timeout=10)
    return received.get(timeout=60)


def test_who_is_asked_is_told_where_and_reminded_and_a_label_or_a_change_outside_starts_a_run(toy, client, received):
    names = register_automations(client, toy.app)
    assert register_automations(client, toy.app) == names
    mine = [found for found in client.read_automations() if found.name in names]
    assert len(mine) == len(names) == 3

    toy.publish()
    asking = toy.start()
    assert toy.drive(asking).name == "Suspended"
    first = told(received)
    assert "#1 Greeting: Your acceptance is needed" in first["subject"]
    assert runs.url_for(asking) in first["body"]

    later = replace(toy.app, clock=Later(hours=49))
    assert (remind(toy.app), remind(later), remind(later)) == ((), ("#1 Greeting",), ())
    assert "open for 48 hours" in told(received)["subject"]

    forge = toy.app.forge()
    forge.ensure_labels([Label("agent", "ededed")])
    number = forge.create_issue("Another", "- [ ] it is there `$ test -f x`", ["agent"]).number
    assert (put_up_for_approval(toy.app), put_up_for_approval(toy.app)) == ((number,), ())
    assert list(ForgeChanges()(toy.app)) == [], "what we did ourselves is no change"
    forge.edit_issue(1, state="closed")
    assert list(ForgeChanges()(toy.app)) == ["changed on the forge: #1"]
    EventsWorker.drain_all(timeout=10)
    wait_until(lambda: len(toy.all_runs()) == 3)
    [compares] = [run.id for run in toy.all_runs() if not run.parameters.keys() & {"document", "number"}]
    assert toy.drive(compares, reconcile).is_completed()
    assert toy.events()[-1] == "checkup_reconcile_external_close_detected"
    [asks] = [run.id for run in toy.all_runs() if "document" in run.parameters]
    assert client.read_flow_run(asks).parameters["document"] == f"#{number}"

    assert put_up_for_approval(later) == (), "a run asks for its approval, or has asked"
    client.delete_flow_run(asks)  # as with the server's database
    assert (put_up_for_approval(later), put_up_for_approval(later)) == ((number,), ())
    EventsWorker.drain_all(timeout=10)

    [again] = wait_until(lambda: [run for run in toy.all_runs() if run.parameters.get("document") == f"#{number}"])
    client.set_flow_run_state(again.id, Completed(name="Declined"), force=True)
    much_later = replace(toy.app, clock=Later(hours=98))
    assert put_up_for_approval(much_later) == ()
    client.delete_flow_run(again.id)  # as the server does with runs that ended long ago
    assert put_up_for_approval(much_later) == (), "a person has decided"


def test_an_assigned_issue_is_asked_about_once_and_a_closed_one_is_told(tmp_path, client, received):
    team = "toolchain:\nteam: [{name: coder, command: ['true'], account: coder-bot}]\n"
    settings = f"automations: {{notify: [custom-webhook/team], reconcile: false}}\n{team}"
    toy = make_toy(tmp_path, client, GREETING, "intake", settings=settings)
    register_automations(client, toy.app)
    forge = toy.app.forge()
    number = forge.create_issue("Another", "- [ ] it is there `$ test -f x`").number
    assert put_up_for_approval(toy.app) == ()
    forge.assign(number, ["Coder-Bot"])
    assert (put_up_for_approval(toy.app), put_up_for_approval(toy.app)) == ((number,), ())
    emit_closing(toy.app, Closing(number, "Another", "ada", "No longer needed.", "https://forge.example/1"), 1)
    news = told(received)
    assert news["subject"] == f"ada closed #{number}: Another"
    assert news["body"] == "No longer needed.\n\nhttps://forge.example/1"
    [run] = wait_until(lambda: [run for run in toy.all_runs() if "document" in run.parameters])
    assert run.parameters["document"] == f"#{number}"


def test_what_the_configuration_switches_off_is_removed(toy, client):
    register_automations(client, toy.app)
    (toy.root / ".mino" / "config.yml").write_text("automations: {reconcile: false}\n")
    assert register_automations(client, toy.app) == ()
    assert not [found for found in client.read_automations() if toy.id in found.name]


def test_while_it_is_served_a_change_of_the_configuration_is_followed_at_night_too(toy, client):
    said, app = Configured(), toy.app  # one App for as long as it is served
    assert list(said(app)) == list(said(app)) == []
    assert nights(toy, client) == []
    (toy.root / ".mino" / "config.yml").write_text("automations: {reconcile: false, nightly: all open}\n")
    assert list(said(app)) == ["automations as .mino/config.yml says now; `all open` every night"]
    [night] = nights(toy, client)
    assert (night.parameters, night.schedule.cron, night.slug) == ({"document": "all open"}, *NIGHTLY)
    assert list(Configured()(app)) == []
    assert nights(toy, client) == [night], "served again, it is as a person left it"
    client.delete_deployment_schedule(intake(toy, client), night.id)
    said.forget(toy.id)
    assert list(said(app)) == []
    assert [again.parameters for again in nights(toy, client)] == [night.parameters], "the server had forgotten it"
    (toy.root / ".mino" / "config.yml").write_text("automations: {reconcile: false}\n")
    assert list(Configured()(app)) == []
    assert nights(toy, client) == []
    assert not [found for found in client.read_automations() if toy.id in found.name]


def nights(toy, client):
    return client.read_deployment_schedules(intake(toy, client))


def intake(toy, client):
    return toy.deployment("intake")


def test_a_block_or_a_deployment_that_is_not_there_is_named_and_nothing_is_changed(toy, client, tmp_path):
    (toy.root / ".mino" / "config.yml").write_text("automations: {notify: [slack-webhook/nobody]}\n")
    with pytest.raises(ConfigRefused, match="no block slack-webhook/nobody"):
        register_automations(client, toy.app)
    bare = make_toy(tmp_path / "bare", client, GREETING)
    with pytest.raises(ServerUnavailable, match=f"no deployment of reconcile for the repository {bare.id}"):
        register_automations(client, bare.app)
    assert not [found for found in client.read_automations() if toy.id in found.name or bare.id in found.name]


def test_every_event_of_issues_and_loops_is_emitted_once_whoever_recorded_it(tmp_path, client):
    toy = make_toy(tmp_path, client, GREETING)
    loop_id = toy.authorise()
    assert mirror(toy.app) == 2
    assert mirror(toy.app) == 0
    assert read_told(toy.app) == {"issue.1": 1, f"loop.{loop_id}": 1}
    (toy.root / ".mino" / ".mirrored").unlink()
    assert mirror(toy.app) == 2, "the same ids: Prefect has them already"
    EventsWorker.drain_all(timeout=10)
    chosen = {"filter": {"any_resource": {"id": [f"irontree.{toy.id}"]}}}
    wait_until(lambda: len(client.request("POST", "/events/filter", json=chosen).json()["events"]) > 1, patience=30)
    events = client.request("POST", "/events/filter", json=chosen).json()["events"]
    assert sorted((event["event"], event["resource"]["prefect.resource.id"]) for event in events) == [
        ("irontree.loop_started", f"irontree.{toy.id}.loop.{loop_id}"),
        ("irontree.task_published", f"irontree.{toy.id}.issue.1"),
    ]
