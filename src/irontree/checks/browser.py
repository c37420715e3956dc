"""Look at a page for a person who has to judge it: a picture of it, its HTTP status, the errors of its console.

It runs as a program of its own where checks run, and there it has nothing but Playwright, from the extra `browser`:
`python -I browser.py URL SHOT CHROMIUM`. It uses the Chromium that is installed, and judges nothing.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page

LOOK_SECONDS: Final = 60
"""The limit of a look; a page that takes longer is shown as one that did not load."""
_LOAD_SECONDS: Final = 20
_QUIET_SECONDS: Final = 5
"""How long a page that has loaded may go on loading."""
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_FLAGS: Final = ("--disable-gpu", "--disable-background-networking")
_MOST_ERRORS: Final = 20
_LONGEST: Final = 500


def look_command(url: str, shot: Path, which: Callable[[str], str | None] = shutil.which) -> tuple[str, ...]:
    """What looks at *url* and leaves its picture at *shot*; empty without the extra or without Chromium."""
    chromium = next(filter(None, map(which, _NAMES)), None)
    if chromium is None or find_spec("playwright") is None:
        return ()
    return (sys.executable, "-I", __file__, url, str(shot), chromium)


def look_needs() -> tuple[str, ...]:
    """The folders that the command reads beside the system's."""
    return (sys.prefix, sys.base_prefix)


def main(url: str, shot: str, chromium: str) -> None:
    """Print what the page shows; its picture goes to *shot*."""
    from playwright.sync_api import Error, sync_playwright  # noqa: PLC0415  (of the extra)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_FLAGS)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            errors = _heard(page)
            answer, is_there = _answer(page, url)
            with suppress(Error):
                if is_there:
                    page.screenshot(path=shot)
        finally:
            browser.close()
    more = [f"{len(errors) - _MOST_ERRORS} more errors"] if len(errors) > _MOST_ERRORS else []
    none = ["its console has no errors"] if is_there and not errors else []
    told = [answer, *errors[:_MOST_ERRORS], *more, *none]
    sys.stdout.write("".join(f"{line}\n" for line in told))


def _heard(page: Page) -> list[str]:
    """The errors of the page's console and scripts, as they come."""
    errors: list[str] = []

    def hear(what: str, text: str) -> None:
        errors.append(f"{what}: {' '.join(text.split())[:_LONGEST]}")

    def hear_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            hear("console error", f"{message.text} {message.location['url']}")

    page.on("console", hear_console)
    page.on("pageerror", lambda error: hear("script error", str(error)))
    return errors


def _answer(page: Page, url: str) -> tuple[str, bool]:
    """The HTTP status of the page, once it is there, or why it is not; and whether any of it is."""
    from playwright.sync_api import Error, TimeoutError  # noqa: A004, PLC0415  (of the extra)

    try:
        response = page.goto(url, timeout=_LOAD_SECONDS * 1000)
    except Error as error:
        why = error.message.splitlines()[0].removeprefix("Page.goto: ")
        return f"{url} did not load: {why}", isinstance(error, TimeoutError)
    with suppress(Error):
        page.wait_for_load_state("networkidle", timeout=_QUIET_SECONDS * 1000)
    status = f"{response.status} {response.status_text}".rstrip() if response else "without a status"
    return f"{page.url} answered {status}", True


if __name__ == "__main__":
    main(*sys.argv[1:])
