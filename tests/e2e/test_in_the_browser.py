"""A person works on a toy on Prefect's pages: what these show and refuse is tried in Chromium, not assumed.

The small form of `test_browser`: `make test-e2e E2E=one`.
"""

from __future__ import annotations

import pytest

from irontree.flows.server.links import signed_in
from tests.prefect.toys import FRIENDLY, make_toy, served

browser = pytest.importorskip("tests.support.browser", reason="needs the extra `browser`")
story = pytest.importorskip("tests.support.browser_story")
CHROMIUM = browser.chromium()
PATIENCE = 60.0


@pytest.mark.skipif(CHROMIUM is None, reason="install chromium (a package of Debian and Ubuntu)")
def test_a_person_approves_sends_back_and_accepts_a_toy_in_the_browser(tmp_path, client, api_url, state_folder):
    """...signed in by a link of the terminal; an undecided form, and one that is out of date, are refused there."""
    toy = make_toy(tmp_path, client, FRIENDLY, "intake", "issue", "loop")
    project = story.Project(toy.root, "SPEC.md", 1, "#1 Greeting")
    intake = toy.deployment("intake")
    base = api_url.removesuffix("/api")
    with served(toy), browser.person_at(base, CHROMIUM, patience=PATIENCE) as person:
        page = person.sign_in(signed_in(f"{base}/deployments/deployment/{intake}", state_folder))
        browser.run_with(page, document=project.document)
        form = browser.open_form(page)
        story.refuse_undecided(form)
        browser.answer(form, story.APPROVE, "Ada")
        browser.ended_as(page, "Approved")
        page.close()
        toy.settle()
        page = story.runs_of(project, person)
        browser.open_run(page, project.issue)
        form = browser.open_form(page)
        late = browser.open_form(person.open(page.url.removeprefix(person.base)))
        browser.answer(form, story.SEND_BACK, "Ada", Note=story.NOTE)
        form = browser.open_form(page)
        story.refuse_late(late)
        story.find_question(project, person, page)
        browser.answer(form, story.ACCEPT, "Ada")
        browser.ended_as(page, "Done")
        toy.settle()
    assert person.beyond == []
    assert not [run for run in client.read_flow_runs() if run.job_variables], "a run that brings any is refused"
    story.came_out(project)


@pytest.mark.skipif(CHROMIUM is None, reason="install chromium (a package of Debian and Ubuntu)")
def test_a_link_signs_one_browser_in_once_and_others_are_told_what_to_do(api_url, state_folder):
    """Pages at another name of the server, as in comments, lead a browser that is signed in to its own name."""
    base = api_url.removesuffix("/api")
    link = signed_in(f"{base}/artifacts?x=1", state_folder)
    with browser.person_at(base, CHROMIUM, patience=PATIENCE) as person:
        page = person.open("/artifacts")
        browser.expect(page.get_by_text("irontree ui")).to_be_visible()
        page = person.sign_in(link)
        assert page.url == f"{person.base}/artifacts?x=1"
        browser.expect(page.get_by_text("Artifacts").first).to_be_visible()
        browser.expect(page.get_by_text("Password")).to_be_hidden()
        page.goto(f"{base}/runs?tag=a")
        page.wait_for_url(f"{person.base}/runs?tag=a")
        stranger = person.other()
        for path in ("/artifacts", f"/irontree/sign-in?{link.partition('?')[2]}"):
            page = stranger.open(path)
            browser.expect(page.get_by_text("irontree ui")).to_be_visible()
    assert person.beyond == []
