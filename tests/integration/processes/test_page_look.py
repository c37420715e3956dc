"""What a person is shown of a page that they have to judge: the Chromium of this machine looks at it, on loopback."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from irontree.checks import browser
from irontree.checks.shell import ShellCheckRunner
from irontree.domain.checks import CheckResult
from irontree.domain.places import OPEN, ContainerSpec, PlaceSpec
from irontree.domain.workflow.step import Browser
from irontree.processes.children import ChildProcesses
from tests.support.containers import bubblewrap_place
from tests.support.processes import NEVER, Heard, MemoryRegistry

PAGE = "<body>Trips<script>console.error('no badge'); setTimeout(() => { throw new Error('boom') })</script></body>"
PNG = b"\x89PNG"


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def site(tmp_path) -> Iterator[str]:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.html").write_text(PAGE)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(pages))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(params=["none", "bubblewrap"])
def place(request) -> PlaceSpec:
    if not browser.look_command("http://localhost/", Path("shot.png")):
        pytest.skip("the extra `browser` or Chromium is not installed")
    return bubblewrap_place().spec if request.param == "bubblewrap" else OPEN


def look(url: str, place: PlaceSpec, workspace: Path) -> CheckResult | None:
    workspace.mkdir(exist_ok=True)
    runner = ShellCheckRunner(ChildProcesses(MemoryRegistry(), environment=os.environ), os.environ).within(place)
    check, shot = Browser(url=url, check="the badge is there"), workspace / "shot.png"
    return runner.show(check, workspace=workspace, shot=shot, cancel=NEVER, progress=Heard())


def test_status_errors_and_a_picture_are_shown_and_nothing_is_passed(site, place, tmp_path):
    found = look(site, place, tmp_path / "workspace")
    assert found
    assert found.is_open
    assert f"{site} answered 200 OK" in found.output
    assert "console error: no badge" in found.output
    assert "script error: boom" in found.output
    assert (tmp_path / "workspace" / "shot.png").read_bytes().startswith(PNG)


def test_a_page_that_is_not_there_is_shown_as_that(site, place, tmp_path):
    gone = look(f"{site}gone", place, tmp_path / "one")
    assert gone
    assert "answered 404" in gone.output
    silent = look("http://127.0.0.1:9/", place, tmp_path / "two")
    assert silent
    assert silent.is_open
    assert silent.output.startswith("http://127.0.0.1:9/ did not load: net::")
    assert "console" not in silent.output
    assert not (tmp_path / "two" / "shot.png").exists(), "Chromium's own page shows nothing of it"


def test_without_the_network_nothing_of_this_machine_is_reached(site, tmp_path):
    place = bubblewrap_place(network=False).spec
    if not browser.look_command(site, Path("shot.png")):
        pytest.skip("the extra `browser` or Chromium is not installed")
    found = look(site, place, tmp_path / "workspace")
    assert found
    assert found.output.startswith(f"{site} did not load: ")


def test_what_the_work_calls_playwright_is_not_run(site, place, tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "playwright.py").write_text("raise SystemExit('of the work')")
    found = look(site, place, tmp_path / "workspace")
    assert found
    assert "answered 200" in found.output


def test_in_a_container_and_without_chromium_nothing_looks(tmp_path):
    place = PlaceSpec(kind="container", container=ContainerSpec(image="x"))
    assert look("http://localhost/", place, tmp_path / "workspace") is None
    assert browser.look_command("http://localhost/", tmp_path, which=lambda _: None) == ()


def test_chromium_is_found_by_any_of_its_names(tmp_path):
    pytest.importorskip("playwright", reason="the extra `browser` is not installed")
    names = {"google-chrome": "/usr/bin/google-chrome"}
    assert browser.look_command("http://localhost/", tmp_path, which=names.get)[-1] == "/usr/bin/google-chrome"
