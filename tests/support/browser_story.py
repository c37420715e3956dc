"""What a person does on Prefect's pages from a document to the end of its goal, wrong answers among it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.flows.server.connection import runs_url
from irontree.services.record import read_world
from irontree.services.views.history import NEEDS_YOU
from tests.integration.crash.laboratory import faults
from tests.support import browser
from tests.support.browser import Person

ACCEPT, SEND_BACK = "accept this commit", "send back with a note"
APPROVE = "approve this revision and start the loop"
NOTE = "Begin with the total, and make it a little longer"
Camera = Callable[[Page, str], None]


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


def live_through(project: Project, person: Person, intake: Page, picture: Camera) -> None:
    """Approve, send back and accept; every wrong, empty and late answer is refused on the page, with the reason.

    *intake* is the page of the deployment where it begins.
    """
    approve_document(project, intake, picture)
    page = runs_of(project, person)
    browser.open_run(page, project.issue)
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    picture(page, "issue-run")
    look_at_loop(project, person, picture)
    find_question(project, person, page)
    form = browser.open_form(page)
    picture(page, "question")
    late = browser.open_form(person.open(page.url.removeprefix(person.base)))
    browser.answer(form, SEND_BACK, "Ada", Note=NOTE)
    form = browser.open_form(page)
    refuse_late(late)
    browser.answer(form, ACCEPT, "Ada")
    browser.ended_as(page, "Done")
    assert person.beyond == []


def runs_of(project: Project, person: Person) -> Page:
    """The list of the project's runs."""
    return person.open(runs_url("", project.app))


def approve_document(project: Project, page: Page, picture: Camera) -> None:
    """Start the intake, and approve the document in its form, at the third try: it is edited, and put back."""
    browser.run_with(page, document=project.document)
    form = browser.open_form(page)
    picture(page, "approval")
    refuse_undecided(form)
    document = project.root / project.document
    before = document.read_text(encoding="utf-8")
    for text in (f"{before}\nNothing else is wanted.\n", before):
        document.write_text(text, encoding="utf-8")
        browser.answer(form, APPROVE, "Ada")
        form = browser.open_form(page)
        expect(form.get_by_text("has changed since the form showed it")).to_be_visible()
    browser.answer(form, APPROVE, "Ada")
    browser.ended_as(page, "Approved")


def refuse_undecided(form: Locator) -> None:
    """Send the form without a decision: the page says what is missing, and nothing is sent."""
    expect(form.get_by_text("(Optional)")).to_have_count(1)  # the note
    browser.fill(form, "Your name", "Ada")
    browser.submit(form)
    expect(form.get_by_text("'decision' is a required property")).to_be_visible()


def look_at_loop(project: Project, person: Person, picture: Camera) -> None:
    """The loop's page tells where the question is; its tree shows the task that waits."""
    page = runs_of(project, person)
    browser.open_run(page, "loop ")
    browser.ended_as(page, "Halted")
    expect(page.get_by_text(f"{project.issue}: at http")).to_be_visible()
    picture(page, "loop-run")
    page.get_by_text("Artifacts", exact=True).first.click()
    page.locator("a").filter(has_text="The tree of loop").first.click()
    expect(page.get_by_role("row").filter(has_text=project.issue.partition(" ")[2]).first).to_be_visible()
    picture(page, "tree")


def find_question(project: Project, person: Person, asking: Page) -> None:
    """From the page of what needs you to the run that asks, which *asking* shows; others may ask on that server too."""
    run = asking.url.partition("/flow-run/")[2].partition("?")[0]
    page = person.open(f"/artifacts/key/{NEEDS_YOU}")
    page.locator("a[href*='/artifacts/artifact/']").first.click()
    row = page.get_by_role("row").filter(has=page.locator(f"a[href*='{run}']"))
    expect(row.filter(has_text=project.issue)).to_be_visible()
    with page.expect_popup() as opened:
        row.get_by_role("link", name=re.compile("^Accept #")).click()
    expect(opened.value.get_by_role("button", name="Resume")).to_be_visible()
    opened.value.close()
    page.close()


def refuse_late(form: Locator) -> None:
    """Answer in a tab that was left open, while the next question is open already: nothing is taken."""
    browser.decide(form, ACCEPT)
    browser.fill(form, "Your name", "Bob")
    browser.submit(form)
    expect(form.page.get_by_text("This form is out of date").first).to_be_visible()


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
