"""Prefect's pages as a person uses them, in the Chromium that is installed; none reaches beyond this machine."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Error, Locator, Page, Route, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
MUCH = 5_000
"""Letters of a page that are shown of a test that failed on it."""
FLAGS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE *.localhost",
)
NO_GRAPHS = "--disable-3d-apis"
"""Drawn without a graphics card, the graph of a run takes as much of the processor as all the rest of a page."""


def chromium() -> str | None:
    """The path of the browser."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Person:
    """Somebody with a browser, and the addresses beyond this machine that its pages asked for."""

    context: BrowserContext
    base: str
    beyond: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """That page in a tab of its own."""
        page = self.context.new_page()
        page.goto(self.base + path)
        return page

    def other(self) -> Person:
        """Somebody else, with a browser profile of their own."""
        browser = self.context.browser
        assert browser
        other = Person(browser.new_context(), self.base)
        other.context.route("**/*", other.guard)
        return other

    def sign_in(self, link: str) -> Page:
        """Open that link of `irontree ui`; from then on this person's pages are those at the server's own name."""
        page = self.context.new_page()
        page.goto(link)
        page.wait_for_url(re.compile(r"^http://irontree-[0-9a-f]+[.]localhost:[0-9]+/(?!irontree/)"))
        self.base = "http://" + urlsplit(page.url).netloc
        return page

    def guard(self, route: Route) -> None:
        """Let nothing pass that is not on this machine."""
        host = urlsplit(route.request.url).hostname or ""
        if host == "127.0.0.1" or host.endswith(".localhost"):
            route.continue_()
        else:
            self.beyond.append(route.request.url)
            route.abort()


@contextmanager
def person_at(base: str, program: str, *, patience: float, graphs: bool = False) -> Iterator[Person]:
    """Somebody who looks at the server at *base* with that Chromium, and waits *patience* seconds for what is to come.

    *graphs* has the pages draw the graph of a run. An error that ends the block tells what every page looked like.
    """
    with sync_playwright() as playwright:
        flags = FLAGS if graphs else (*FLAGS, NO_GRAPHS)
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        context = browser.new_context(
            viewport={"width": 1280, "height": 900}, color_scheme="dark", locale="en-GB", timezone_id="UTC"
        )
        context.set_default_timeout(patience * 1000)
        expect.set_options(timeout=patience * 1000)
        person = Person(context, base)
        context.route("**/*", person.guard)
        try:
            yield person
        except BaseException as error:
            error.add_note(_seen(context))
            raise
        finally:
            browser.close()


def _seen(context: BrowserContext) -> str:
    """What is on each page, and where its picture is."""
    folder = Path(tempfile.mkdtemp(prefix="irontree-browser-"))
    return "\n\n".join(_page_seen(page, folder / f"{number}.png") for number, page in enumerate(context.pages, 1))


def _page_seen(page: Page, picture: Path) -> str:
    try:
        page.screenshot(path=picture, timeout=10_000)
        text = page.locator("body").inner_text(timeout=10_000)
    except Error as error:
        return f"The page {page.url} could not be looked at: {error.message}"
    return f"The page {page.url} (its picture: {picture}):\n{text[:MUCH]}"


# --- what one does on the pages ------------------------------------------------------------------------------------


def open_deployment(page: Page, flow: str) -> None:
    """From the list of deployments to the page of that flow's."""
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=flow, exact=True))
    row.locator("a[href*='/deployments/deployment/']").first.click()
    page.wait_for_url("**/deployments/deployment/*")


def run_with(page: Page, **parameters: str) -> None:
    """On the page of a deployment that never ran: *Run*, *Custom run*, its parameters, *Submit*, and to the new run."""
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run").click()
    for name, value in parameters.items():
        fill(page, name, value)
    page.get_by_role("button", name="Submit").click()
    open_run(page)


def open_run(page: Page, name: str = "") -> None:
    """The page of that run, from a list in which it stands, or will; there its flow has a link too, before it."""
    page.locator("a[href*='/runs/flow-run/']").filter(has_text=name).first.click()
    page.wait_for_url("**/runs/flow-run/*")


def open_form(page: Page) -> Locator:
    """The form of the run's question, once it asks one."""
    page.get_by_role("button", name="Resume").click()
    form = page.get_by_role("dialog")
    expect(form.get_by_text("Your name")).to_be_visible()
    return form


def fill(place: Page | Locator, label: str, text: str) -> None:
    """Type into the field with that label."""
    _field(place, label).locator("textarea").fill(text)


def decide(form: Locator, label: str) -> None:
    """Choose that decision; by the keyboard, because a click opens the list and closes it again."""
    _field(form, "Decision").locator(".p-select-button__control").press("ArrowDown")
    form.page.get_by_role("listbox").get_by_text(label, exact=True).click()


def submit(form: Locator) -> None:
    """Send the form as it is filled in."""
    form.get_by_role("button", name="Submit").click()


def answer(form: Locator, decision: str, name: str, **more: str) -> None:
    """Decide as somebody of that name; the run goes on."""
    page = form.page
    decide(form, decision)
    fill(form, "Your name", name)
    for label, text in more.items():
        fill(form, label, text)
    submit(form)
    expect(page.get_by_role("button", name="Resume")).to_be_hidden()


def ended_as(page: Page, state: str) -> None:
    """Wait until the run's state is *state*."""
    expect(page.get_by_text(state, exact=True).first).to_be_visible()


def _field(place: Page | Locator, label: str) -> Locator:
    return place.locator(".p-label").filter(has_text=re.compile(f"^{re.escape(label)}", re.IGNORECASE))
