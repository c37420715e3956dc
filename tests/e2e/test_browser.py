"""A person does everything on Prefect's pages: approves, answers wrongly, sends back, accepts; the rest is `serve`.

With BROWSER=toy on a toy of one task. With BROWSER=all (`make test-e2e`) on the sample of `irontree demo`; then
UPDATE_IMAGES=1 takes the pictures of the documentation anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from irontree.app import App, Origin
from irontree.bootstrap import open_app, set_up
from irontree.demo import layout, sample
from irontree.services.planning.approve import propose
from irontree.services.world import read_world
from tests.integration.crash.laboratory import faults, lay_out
from tests.prefect.harness import prepare_home
from tests.prefect.terminal import Typed, typed
from tests.prefect.toys import AGENT, FRIENDLY
from tests.support import browser
from tests.support.browser import Person

CHROMIUM = browser.chromium()
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif("BROWSER" not in os.environ, reason="it takes minutes: make test-e2e"),
    pytest.mark.skipif(CHROMIUM is None, reason="install chromium (a package of Debian and Ubuntu)"),
]

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
BIGGEST_IMAGE = 150_000
START = 120.0
"""Seconds for a server and a worker to be there."""
ACCEPT, SEND_BACK = "accept this commit", "send back with a note"
APPROVE = "approve this revision and start the loop"
NOTE = "Begin with the total, and make it a little longer"


@dataclass(frozen=True)
class Project:
    """A repository with a document whose task *number* a person judges; the first attempt at it is sent back."""

    root: Path
    document: str
    number: int
    issue: str

    @property
    def app(self) -> App:
        return open_app(self.root, origin=Origin("ada", "command"))


def toy(folder: Path) -> Project:
    return Project(lay_out(folder, AGENT, FRIENDLY), "SPEC.md", 1, "#1 Greeting")


def demo(folder: Path) -> Project:
    place = layout.lay_out(folder / "demo", pace=0.2)
    set_up(place.repository)
    return Project(place.repository, sample.DOCUMENT, 6, "#6 Print a summary")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    make = demo if os.environ.get("BROWSER") == "all" else toy
    return make(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def serve(project, tmp_path_factory) -> Iterator[Typed]:
    """`irontree serve` with a private server of its own."""
    state = tmp_path_factory.mktemp("state")
    prepare_home(state / "irontree" / f"prefect-{version('prefect')}")
    with typed(project.root, ["serve"], {"XDG_STATE_HOME": str(state)}, state / "said") as program:
        program.wait_until_it_says("Ctrl-C stops", patience=START)
        yield program
        program.interrupt()
        program.end()


@pytest.fixture(scope="module")
def person(serve) -> Iterator[Person]:
    [base] = re.findall(r"Dashboard: (\S+)/dashboard", serve.said)
    with browser.person_at(base, str(CHROMIUM)) as person:
        yield person


Camera = Callable[[Page, str], None]


@pytest.fixture
def picture() -> Camera:
    """Take a picture for the documentation, if that was asked for."""

    def take(page: Page, name: str) -> None:
        if "UPDATE_IMAGES" in os.environ:
            taken = page.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
            assert len(taken) < BIGGEST_IMAGE

    return take


def test_a_person_approves_sends_back_and_accepts_in_the_browser(project, serve, person, picture):
    """...and wrong, empty and late answers are refused on the page, with the reason."""
    approve_document(project, person, picture)
    page = person.open("/runs")
    browser.open_run(page, project.issue)
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    picture(page, "issue-run")
    look_at_loop(project, person, picture)
    form = browser.open_form(page)
    picture(page, "question")
    late = browser.open_form(person.open(page.url.removeprefix(person.base)))
    browser.answer(form, SEND_BACK, "Ada", Note=NOTE)
    form = browser.open_form(page)
    refuse_late(late)
    browser.answer(form, ACCEPT, "Ada")
    browser.ended_as(page, "Done")
    serve.wait_until_it_says("completed", patience=START)
    assert person.beyond == []
    came_out(project)


def approve_document(project: Project, person: Person, picture: Camera) -> None:
    """Start the intake, and approve the document in its form, at the third try."""
    page = person.open("/deployments")
    browser.start_deployment(page, "intake", document=project.document)
    browser.open_run(page, f"intake {project.document}")
    form = browser.open_form(page)
    picture(page, "approval")
    browser.fill(form, "Your name", "Ada")
    browser.submit(form)
    expect(form.get_by_text("'decision' is a required property")).to_be_visible()
    browser.answer(form, APPROVE, "Ada", Revision="00000000")
    form = browser.open_form(page)
    expect(form.get_by_text("revision 00000000 was approved, but")).to_be_visible()
    browser.answer(form, APPROVE, "Ada", Revision=propose(project.app, project.root / project.document).revision)
    browser.ended_as(page, "Approved")


def look_at_loop(project: Project, person: Person, picture: Camera) -> None:
    """The loop's page tells where the question is; its tree shows the task that waits."""
    page = person.open("/runs")
    browser.open_run(page, "loop ")
    browser.ended_as(page, "Halted")
    expect(page.get_by_text(f"{project.issue}: at http")).to_be_visible()
    picture(page, "loop-run")
    page.get_by_text("Artifacts", exact=True).first.click()
    page.locator("a").filter(has_text="The tree of loop").first.click()
    expect(page.get_by_role("row").filter(has_text=project.issue.partition(" ")[2]).first).to_be_visible()
    picture(page, "tree")


def refuse_late(form: Locator) -> None:
    """Answer in a tab that was left open, while the next question is open already: nothing is taken."""
    browser.decide(form, ACCEPT)
    browser.fill(form, "Your name", "Bob")
    browser.submit(form)
    expect(form.page.get_by_text("Validation failed for field 'question'").first).to_be_visible()


def came_out(project: Project) -> None:
    """Whether the log says what the person did, and the goal is reached."""
    app = project.app
    state = read_world(app).state(project.number)
    assert (state.done, state.attempt_count) == (True, 2)
    records = app.log.read(project.number).records
    by_ada = [(record.event.event, record.meta["channel"]) for record in records if record.meta.get("by") == "Ada"]
    assert by_ada == [("verify_failed_retryable", "form"), ("checkup_accept_recorded", "form")]
    assert app.forge().read_issue(project.number).state == "closed"
    assert faults(app) == []
