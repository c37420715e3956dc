"""A person works on the sample of `irontree demo` on Prefect's pages; the rest is `serve` (`make test-e2e`).

UPDATE_IMAGES=1 takes the pictures of the documentation anew. A small form is in test_in_the_browser.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from irontree.bootstrap import set_up
from irontree.demo import layout
from irontree.demo import layout as sample
from irontree.flows.server.links import signed_in
from tests.prefect.harness import prepare_folder
from tests.prefect.terminal import Typed, typed
from tests.support.soak import SOAK

browser = pytest.importorskip("tests.support.browser", reason="needs the extra `browser`")
story = pytest.importorskip("tests.support.browser_story")
CHROMIUM = browser.chromium()
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("E2E") != "all" and not SOAK, reason="a longer form: make test-e2e"),
    pytest.mark.skipif(CHROMIUM is None, reason="install chromium (a package of Debian and Ubuntu)"),
]

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
BIGGEST_IMAGE = 150_000
SETTLED = 5_000
"""Milliseconds."""
START = 120.0
"""Seconds for a server and a worker to be there."""
PATIENCE = 300.0
"""Seconds between an answer and what comes of it: five tasks are done in a row, each in processes of its own."""


@pytest.fixture
def project(tmp_path):
    place = layout.lay_out(tmp_path / "demo", pace=0.2)
    set_up(place.repository)
    return story.Project(place.repository, sample.REQUIREMENTS.document, 6, "#6 Print a summary")


@pytest.fixture
def state(tmp_path) -> Path:
    """The private server's state folder."""
    return prepare_folder(tmp_path / "state" / "irontree" / f"prefect-{version('prefect')}")


@pytest.fixture
def serve(project, tmp_path, state) -> Iterator[Typed]:
    """`irontree serve` with a private server of its own."""
    home = tmp_path / "state"
    with typed(project.root, ["serve"], {"XDG_STATE_HOME": str(home)}, home / "said") as program:
        program.wait_until_it_says("Ctrl-C stops", patience=START)
        yield program
        program.interrupt()
        program.end()


def take_picture(page, name: str) -> None:
    """For the documentation, if that was asked for; forms fade in and graphs move into place, and nothing says when."""
    if "UPDATE_IMAGES" in os.environ:
        page.wait_for_timeout(SETTLED)
        taken = page.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
        assert len(taken) < BIGGEST_IMAGE


def test_a_person_approves_sends_back_and_accepts_in_the_browser(project, serve, state):
    """...and wrong, empty and late answers are refused on the page, with the reason."""
    [base] = re.findall(r"In the browser: (\S+)/runs", serve.said)
    with browser.person_at(base, CHROMIUM, patience=PATIENCE, graphs=True) as person:
        page = person.sign_in(signed_in(f"{base}/deployments", state))
        browser.open_deployment(page, "intake")
        story.live_through(project, person, page, take_picture)
    serve.wait_until_it_says("completed", patience=START)
    story.came_out(project)
