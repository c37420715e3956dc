"""Lists, labels and people, with what is odd about them on Gitea."""

from __future__ import annotations

import json

import pytest

from irontree.forges.gitea import GiteaForge
from irontree.ports import Label
from tests.support.gitea.server import Fault, GiteaServer
from tests.support.gitea.stage import MARKER, MovingClock, settings


@pytest.mark.parametrize("max_page", [7, 50])
def test_a_list_is_read_to_its_end_whatever_the_server_gives_at_once(server, forge, max_page: int):
    server.contents.max_page = max_page
    for _ in range(60):
        server.contents.new_issue("irontree", "Title", MARKER)
    assert len(forge.find_issues(MARKER)) == 60


def test_a_list_that_grows_while_it_is_read_is_read_again(server: GiteaServer, forge: GiteaForge):
    """The newest come first: one more pushes another over to the next page."""
    for _ in range(60):
        server.contents.new_issue("irontree", "Title", "")
    server.contents.issues[11].body = MARKER
    grow = Fault("GET", "/issues", meanwhile=lambda: server.contents.new_issue("irontree", "Title", MARKER))
    server.faults += [Fault("GET", "/issues"), grow]
    assert [issue.number for issue in forge.find_issues(MARKER)] == [11, 61]


def test_the_second_look_asks_for_what_changed_since(server: GiteaServer, forge: GiteaForge, time: MovingClock):
    for _ in range(120):
        server.contents.new_issue("irontree", "Title", "")
    time.pass_by(hours=1)
    server.contents.new_issue("irontree", "The newest", "")
    assert forge.find_issues(MARKER) == ()
    pages = server.requests.count("GET /api/v1/repos/palms/iron/issues")
    forge.edit_issue(7, body=MARKER)
    assert [issue.number for issue in forge.find_issues(MARKER)] == [7]
    assert (pages, server.requests.count("GET /api/v1/repos/palms/iron/issues")) == (3, 4)


def test_what_the_server_says_is_utf_8_whatever_a_proxy_calls_it(server: GiteaServer, forge: GiteaForge):
    number = forge.create_issue("Größe in Ω", "").number
    shown = json.dumps(server.api.shapes.issue(server.contents.issues[number]), ensure_ascii=False)
    latin = {"Content-Type": "application/json;charset=iso-8859-1"}
    server.faults.append(Fault("GET", f"/issues/{number}", status=200, headers=latin, body=shown))
    found = forge.read_issue(number)
    assert found
    assert found.title == "Größe in Ω"


def test_an_issue_that_was_deleted_is_not_found_from_memory(server: GiteaServer, forge: GiteaForge):
    number = forge.create_issue("Title", MARKER).number
    assert forge.find_issues(MARKER)
    del server.contents.issues[number]
    assert forge.find_issues(MARKER) == ()


def test_a_label_that_does_not_exist_is_on_no_issue(server: GiteaServer, forge: GiteaForge):
    """Gitea leaves it out of the filter, so that every issue passes."""
    server.contents.new_issue("irontree", "Title")
    assert forge.open_issues("wanted") == ()


def test_a_label_with_a_comma_is_one_label(forge: GiteaForge):
    number = forge.create_issue("Title", "", ["a,b"]).number
    forge.create_issue("Title", "", ["a"])
    assert [issue.number for issue in forge.open_issues("a,b")] == [number]


def test_of_two_labels_with_one_name_the_older_is_used_and_both_are_taken_away(server: GiteaServer, forge: GiteaForge):
    first, second = (server.contents.new_label("bug", "ff0000") for _ in range(2))
    issue = server.contents.new_issue("irontree", "Title", labels=(second.id,))
    assert forge.create_issue("Title", "", ["bug"]).labels == ("bug",)
    assert server.contents.issues[2].labels == [first.id]
    forge.set_labels(issue.number, remove=["bug"])
    assert issue.labels == []


def test_a_label_that_was_deleted_and_made_again_is_set_all_the_same(server: GiteaServer, forge: GiteaForge):
    """Its id is another one, and Gitea passes over ids that do not exist."""
    issue = server.contents.new_issue("irontree", "Title")
    forge.ensure_labels([Label("bug", "ff0000")])
    server.contents.labels.clear()
    again = server.contents.new_label("bug", "ff0000")
    forge.set_labels(issue.number, add=["bug"])
    assert issue.labels == [again.id]


def test_a_label_that_was_deleted_before_an_issue_was_made_with_it_is_made_with_the_next(
    server: GiteaServer, forge: GiteaForge
):
    forge.ensure_labels([Label("bug", "ff0000")])
    server.contents.labels.clear()
    assert forge.create_issue("Title", "", ["bug"]).labels == ()
    assert forge.create_issue("Title", "", ["bug"]).labels == ("bug",)


def test_labels_get_their_colour_and_text_and_keep_what_people_gave_them(server: GiteaServer, forge: GiteaForge):
    server.contents.new_label("stage:task", "123456", "ours")
    forge.ensure_labels([Label("stage:task", "FBCA04", "published"), Label("stage:run", "1D76DB", "approved")])
    assert [(label.name, label.color, label.description) for label in server.contents.labels] == [
        ("stage:task", "123456", "ours"),
        ("stage:run", "1d76db", "approved"),
    ]


@pytest.mark.parametrize("us", ["admin", "write"])
def test_whom_to_trust_is_known_to_administrators_alone(server: GiteaServer, us: str):
    """Others may not ask, and nothing else that they see proves that somebody may push: then nobody is believed."""
    forge = GiteaForge(settings(server, server.contents.account("bot", us)))
    for login, permission in (("boss", "owner"), ("writer", "write"), ("reader", "read")):
        server.contents.account(login, permission)
        server.contents.new_issue(login, "Title", MARKER)
    server.contents.new_issue("Ghost", "Title", MARKER)
    assert [(issue.author, issue.trusted) for issue in forge.find_issues(MARKER)] == [
        ("boss", us == "admin"),
        ("writer", us == "admin"),
        ("reader", False),
        ("Ghost", False),
    ]


def test_a_person_is_asked_about_once(server: GiteaServer, forge: GiteaForge):
    server.contents.account("mallory", "read")
    for _ in range(5):
        server.contents.new_issue("mallory", "Title", MARKER)
    forge.find_issues(MARKER)
    assert sum("/permission" in request for request in server.requests) == 1
