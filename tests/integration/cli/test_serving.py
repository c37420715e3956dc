"""`repos`, `inbox`, `ui` and what `serve` refuses: the verbs that look beyond one repository, as people type them."""

from __future__ import annotations

import io
import itertools
import json
import re
import shutil
import threading
from argparse import Namespace
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from irontree.cli.console import Console
from irontree.cli.context import Context
from irontree.cli.inbox import Newcomers
from irontree.store.registry import RepositoryRegistry, user_registry
from tests.integration.cli.conftest import Shell
from tests.support.repositories import git


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    """A user whose registry no other test writes to."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def repository_id(shell) -> str:
    return git(shell.root, "config", "irontree.id").strip()


def test_a_repository_is_added_listed_and_forgotten(shell, repository_id):
    assert "No repositories yet." in shell("repos").out
    assert "takes it up within seconds" in shell("repos", "add").err
    [row] = shell("repos", "add", "--json").data["repositories"]
    assert (row["root"], row["id"], row["queue"]) == (str(shell.root), repository_id, repository_id)
    assert (row["done"], row["total"], row["waiting"], row["problem"]) == (0, 3, 0, None)
    assert shell("repos", "remove", "--json").data == {"repositories": []}


def test_who_serves_finds_what_is_registered_later_once(shell, repository_id):
    """...and one that could not be opened, as soon as it can: until then its problem is said once."""
    context = Context(Namespace(), Console(io.StringIO(), said := io.StringIO()), shell.root)
    newcomers = Newcomers(context, set(), now=itertools.count(step=60).__next__)
    assert list(newcomers.added()) == []
    config = shell.root / ".mino" / "config.yml"
    good = config.read_text()
    config.write_text("publish: [")
    shell("repos", "add")
    user_registry().add("ba9876543210", shell.root.parent / "nowhere")
    assert list(newcomers.added()) == list(newcomers.added()) == []
    assert said.getvalue().count("left out: ") == 2
    config.write_text(good)
    assert [app.repository.id for app in newcomers.added()] == [repository_id]
    assert list(newcomers.added()) == []
    assert said.getvalue().count("left out: ") == 2


def test_who_serves_finds_what_is_removed_once_and_finds_it_again_when_it_is_registered_again(shell, repository_id):
    context = Context(Namespace(), Console(io.StringIO(), io.StringIO()), shell.root)
    newcomers = Newcomers(context, {repository_id})
    shell("repos", "add")
    assert newcomers.removed() == frozenset()
    assert "releases it within seconds, as soon as nothing is at work there" in shell("repos", "remove").err
    assert newcomers.removed() == {repository_id}
    assert newcomers.removed() == frozenset()
    shell("repos", "add")
    assert [app.repository.id for app in newcomers.added()] == [repository_id]


def test_while_the_list_cannot_be_read_nothing_is_removed_from_it(shell, repository_id, tmp_path):
    """Neither where its file system is away, nor where the disk refuses."""
    context = Context(Namespace(), Console(io.StringIO(), io.StringIO()), shell.root)
    for folder in (tmp_path / "unmounted", tmp_path / ("too-long" * 100)):
        newcomers = Newcomers(context, {repository_id}, registry=RepositoryRegistry(folder))
        assert (newcomers.removed(), list(newcomers.added())) == (frozenset(), [])


def test_a_repository_that_is_gone_says_so_and_can_be_forgotten_by_its_id(shell, repository_id, tmp_path):
    shell("repos", "add")
    shutil.move(shell.root, tmp_path / "moved")
    elsewhere = Shell(tmp_path, shell.remote, shell.capsys)
    [row] = elsewhere("repos", "--json").data["repositories"]
    assert "is not a folder" in row["problem"]
    assert f"irontree repos remove {shell.root}" in row["problem"]
    assert str(shell.root) in elsewhere("repos").out
    assert elsewhere("repos", "remove", repository_id, "--json").data == {"repositories": []}


def test_a_broken_configuration_is_a_problem_of_that_repository_alone(shell, tmp_path):
    """`serve` leaves out what has a problem, and serves the others."""
    shell("repos", "add")
    (shell.root / ".mino" / "config.yml").write_text("budgets: {day: {money: 5 EUR}}\n")
    answered = Shell(tmp_path, shell.remote, shell.capsys)("repos", "--json")
    assert answered.code == 0
    [row] = answered.data["repositories"]
    assert "`budgets.day.money`: expected an amount" in row["problem"]


def test_what_is_not_registered_cannot_be_forgotten(shell):
    refused = shell("repos", "remove")
    assert refused.code == 1
    assert "is not registered" in refused.err


def test_another_word_than_add_and_remove_is_wrong_usage(shell):
    assert shell("repos", "delete").code == 2


def test_from_anywhere_the_inbox_shows_what_waits_in_registered_repositories(judged, tmp_path):
    judged("repos", "add")
    found = Shell(tmp_path, judged.remote, judged.capsys)("inbox", "--json").data
    [one] = found["waiting"]
    assert (one["repository"], one["issue"], one["reason"]) == ("project", 3, "pending_acceptance")
    assert one["form_url"] is None
    assert one["since"]
    assert f"irontree -C {judged.root} accept 3" in [a["command"] for a in one["answers"]]
    assert found["problems"] == []


def test_the_inbox_shows_the_repository_here_though_nobody_registered_it(judged):
    shown = judged("inbox").out
    assert shown.startswith("project #3 Second text:\n  Your acceptance is needed")
    assert "since " in shown


def test_who_only_looks_needs_no_state_folder(judged, tmp_path, monkeypatch):
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a-file"))
    looked = judged("inbox")
    assert looked.code == 0
    assert looked.out.startswith("project #3 Second text:")


def test_where_nothing_waits_the_inbox_says_so(shell):
    assert shell("inbox").out == "Nothing waits for you in the one repository on the list.\n"


def test_outside_of_every_repository_the_inbox_says_how_to_add_one(tmp_path, bare_shell):
    assert "irontree repos add DIR" in Shell(tmp_path, bare_shell.remote, bare_shell.capsys)("inbox").out


def test_a_repository_that_cannot_be_read_does_not_hide_the_others(judged, tmp_path):
    judged("repos", "add")
    (tmp_path / "state" / "irontree" / "repositories" / "ba9876543210").write_text(str(tmp_path / "nowhere"))
    found = judged("inbox", "--json").data
    assert len(found["waiting"]) == 1
    assert str(tmp_path / "nowhere") in found["problems"][0]


def test_without_a_server_there_is_no_page_to_open(shell):
    refused = shell("ui")
    assert refused.code == 1
    assert "no Prefect server runs here" in refused.err
    assert "`irontree demo` has a server of its own: open the address that it printed" in refused.err
    assert "irontree serve" in refused.err


def test_with_a_configured_server_the_page_of_all_runs_is_named(shell, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    assert re.fullmatch(r"http://127\.0\.0\.1:9/runs\?tag=repository:[0-9a-f]{8,}\n", shell("ui", "--print").out)


@pytest.fixture
def asking_server(shell, monkeypatch) -> Iterator[str]:
    """A configured server, which asks for the approval of issue #7 under a label."""
    run = {"id": "5ca1ab1e", "parameters": {"repository": str(shell.root), "document": "#7"}}
    run["latest_id"] = "a2" * 16  # of the page of all that waits
    details = {"pause_key": f"intake-{'0123abcd' * 8}"}
    run["state"] = {"timestamp": "2026-01-02T03:04:05.678901Z", "state_details": details}

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps([run]).encode())

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("PREFECT_API_URL", f"{address}/api")
        yield address
        server.shutdown()


def test_an_approval_that_only_the_server_knows_of_is_in_every_list(shell, asking_server):
    form, command = f"{asking_server}/runs/flow-run/5ca1ab1e", "task '#7' --approve 0123abcd0123abcd"
    [one] = shell("inbox", "--json").data["waiting"]
    assert (one["document"], one["issue"], one["since"], one["form_url"]) == ("#7", None, "2026-01-02T03:04:05Z", form)
    assert [answer["command"] for answer in one["answers"]] == [f"irontree -C {shell.root} {command}"]
    for verb in ("inbox", "status"):
        shown = shell(verb).out
        said = ("#7", "Your approval is needed", form, command, "its form closes by itself", "to decline, use the form")
        assert all(words in shown for words in said)
    assert shell("ui", "--print").out.startswith(f"{asking_server}/")
    assert [q["document"] for q in shell("status", "--json").data["questions"]] == ["#7"]
    shell("repos", "add")
    assert [row["waiting"] for row in shell("repos", "--json").data["repositories"]] == [1]


def test_where_no_server_says_what_a_label_asks_for_the_lists_say_that(shell, monkeypatch):
    config = shell.root / ".mino" / "config.yml"
    assert shell("status", "--json").data["approvals_unknown"] is None
    config.write_text(f"{config.read_text()}automations: {{start_label: agent}}\n")
    assert "no Prefect server runs" in shell("status").out
    assert "no Prefect server runs" in shell("inbox", "--json").data["problems"][0]
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    assert "http://127.0.0.1:9/api does not say" in shell("status", "--json").data["approvals_unknown"]
    [row] = shell("repos", "add", "--json").data["repositories"]
    assert "http://127.0.0.1:9/api does not say" in row["approvals_unknown"]
    assert "http://127.0.0.1:9/api does not say" in shell("repos").out


def test_serve_attaches_to_nothing_where_nothing_is_configured(shell):
    refused = shell("serve", "--attach")
    assert refused.code == 1
    assert "none is configured" in refused.err


def test_serve_starts_no_server_beside_a_configured_one(shell, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    refused = shell("serve")
    assert refused.code == 1
    assert "serve --attach" in refused.err


def test_serve_outside_of_every_repository_says_how_to_name_one(tmp_path, bare_shell):
    refused = Shell(tmp_path, bare_shell.remote, bare_shell.capsys)("serve")
    assert refused.code == 1
    assert "irontree serve DIR" in refused.err
