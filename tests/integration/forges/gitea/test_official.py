"""Every message that the forge and the double exchange, before the official description."""

from __future__ import annotations

import pytest

from irontree.forges.gitea import GiteaForge
from irontree.ports import Label
from tests.support.gitea.contents import Remark
from tests.support.gitea.description import NOT_THERE, official
from tests.support.gitea.server import GiteaServer
from tests.support.gitea.stage import MARKER


@pytest.fixture
def judged(server: GiteaServer) -> GiteaServer:
    """A server whose messages are judged; what is not at hand is said aloud."""
    if official() is None:
        pytest.skip(NOT_THERE)
    return server


def test_every_call_of_the_port_fits_the_official_description(judged: GiteaServer, forge: GiteaForge):
    judged.contents.account("mallory", "read")
    judged.contents.push("it", "b" * 40)
    issue = forge.create_issue("Title", MARKER, ["bug"])
    forge.ensure_labels([Label("stage:task", "FBCA04", "published")])
    forge.edit_issue(issue.number, title="Other", body="x", state="closed")
    forge.post_comment(issue.number, "x")
    forge.set_labels(issue.number, add=["stage:task"], remove=["bug"])
    judged.contents.new_comment(judged.contents.issues[1], "mallory", "z")
    assert len(forge.comments(issue.number)) == 2
    assert forge.find_issues(MARKER) == forge.open_issues("bug") == ()
    pull = forge.create_pull_request(head="it", base="main", title="It", body="", draft=True)
    judged.contents.review(pull.number, "mallory", "COMMENT", "x", (Remark(1, "a.py", "why?", 3),))
    forge.edit_pull_request(pull.number, draft=False, state="open")
    assert forge.read_pull_request(pull.number) in forge.find_pull_requests("it")
    assert forge.reviews(pull.number)
    forge.set_commit_status("b" * 40, name="it", state="success", description="x")
    assert forge.commit_checks("b" * 40)
    assert forge.about().full_name == "palms/iron"
    assert not judged.violations


def test_the_judge_objects_to_what_the_description_does_not_know(judged: GiteaServer):
    path = "/api/v1/repos/palms/iron/issues"
    description = official()
    assert description
    assert description.request("POST", path, {}, {"title": "x", "labels": ["bug"]})
    assert description.request("POST", path, {}, {"body": "no title"})
    assert description.request("GET", path, {"state": "any"}, None)
    assert description.request("GET", path, {"sort": "oldest"}, None)
    assert description.request("PUT", path, {}, None)
    assert description.response("GET", path, 200, [{"number": "7"}])
    assert description.response("GET", path, 200, [{"nodes": 7}])
    assert description.response("GET", path, 201, [])
    assert not description.request("POST", path, {}, {"title": "x", "labels": [7]})
