"""A person works on a toy on Prefect's pages: what these show and refuse is tried in Chromium, not assumed.

The small form of `test_browser`: `make test-e2e E2E=one`.
"""

from __future__ import annotations

import pytest

from tests.prefect.toys import FRIENDLY, make_toy, served

browser = pytest.importorskip("tests.support.browser", reason="needs the extra `browser`")
story = pytest.importorskip("tests.support.browser_story")
CHROMIUM = browser.chromium()
PATIENCE = 60.0


@pytest.mark.skipif(CHROMIUM is None, reason="install chromium (a package of Debian and Ubuntu)")
def test_a_person_approves_sends_back_and_accepts_a_toy_in_the_browser(tmp_path, client, api_url):
    """...and a form without a decision is refused on the page, with the reason."""
    toy = make_toy(tmp_path, client, FRIENDLY, "intake", "issue", "loop")
    project = story.Project(toy.root, "SPEC.md", 1, "#1 Greeting")
    intake = client.read_deployment_by_name(f"intake/{toy.id}").id
    base = api_url.removesuffix("/api")
    with served(toy), browser.person_at(base, CHROMIUM, patience=PATIENCE) as person:
        page = person.open(f"/deployments/deployment/{intake}")
        browser.run_with(page, document=project.document)
        form = browser.open_form(page)
        story.refuse_undecided(form)
        browser.answer(form, story.APPROVE, "Ada", Name=toy.revision())
        browser.ended_as(page, "Approved")
        page.close()
        toy.settle()
        page = story.runs_of(project, person)
        browser.open_run(page, project.issue)
        browser.answer(browser.open_form(page), story.SEND_BACK, "Ada", Note=story.NOTE)
        browser.answer(browser.open_form(page), story.ACCEPT, "Ada")
        browser.ended_as(page, "Done")
        toy.settle()
    assert person.beyond == []
    story.came_out(project)
