"""The `gitea` forge against a server that behaves as Gitea does, at its oddest and on its worst days."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from irontree.errors import AccessRefused, ConfigRefused, RemoteFailed, RemoteUnavailable
from irontree.forges import Location
from irontree.forges.gitea import GiteaForge
from irontree.ports import Forge, Label
from tests.support.certificates import own_authority
from tests.support.forges import Noon
from tests.support.gitea.contents import Remark
from tests.support.gitea.description import NOT_THERE, official
from tests.support.gitea.server import Fault, GiteaServer, gitea_server
from tests.support.gitea.stage import ALWAYS, Waits, settings, settings_at

MARKER = "<!-- irontree:task-key auth-login -->"
NOON = Noon().now()


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.moment = NOON

    def now(self) -> datetime:
        return self.moment

    def pass_by(self, **amount: int) -> None:
        self.moment += timedelta(**amount)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def server(time: Time) -> Iterator[GiteaServer]:
    with gitea_server(time.now) as running:
        running.contents.account("irontree", "admin")
        yield running


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def forge(server: GiteaServer, waits: Waits) -> GiteaForge:
    return GiteaForge(settings(server, "token-of-irontree", sleep=waits))


def at(url: str, ca_file: Path | None = None, **environment: str) -> GiteaForge:
    """A forge at an address of one's own choice."""
    tokens = {"GITEA_TOKEN": "token-of-irontree", **environment}
    return GiteaForge(replace(settings_at(Location(url, "palms/iron", ca_file)), environment=tokens))


# --- the official description -----------------------------------------------------------------------------------


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
    comment = forge.post_comment(issue.number, "x")
    forge.edit_comment(issue.number, comment.id, "y")
    forge.set_labels(issue.number, add=["stage:task"], remove=["bug"])
    judged.contents.new_comment(judged.contents.issues[1], "mallory", "z")
    assert len(forge.comments(issue.number)) == 2
    assert forge.find_issues(MARKER) == forge.open_issues("bug") == ()
    pull = forge.create_pull_request(head="it", base="main", title="It", body="", draft=True)
    judged.contents.review(pull.number, "mallory", "COMMENT", "x", (Remark(1, "a.py", "why?", 3),))
    forge.edit_pull_request(pull.number, draft=False, state="open")
    assert forge.read_pull_request(pull.number) in forge.find_pull_requests("it")
    assert forge.reviews(pull.number)
    forge.set_commit_status("b" * 40, name="it", state="success", description="x", url="https://ci.example")
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


# --- tokens, rights, and where the repository is ------------------------------------------------------------------


def test_a_forge_is_made_without_a_token_and_says_so_when_it_is_asked(server: GiteaServer):
    with pytest.raises(ConfigRefused) as refused:
        GiteaForge(settings(server, "")).about()
    assert "GITEA_TOKEN" in str(refused.value.remedy)
    assert not server.requests


def test_either_name_of_the_token_will_do(server: GiteaServer):
    assert at(server.url, GITEA_TOKEN="", FORGEJO_TOKEN="token-of-irontree").about().account == "irontree"


def test_a_revoked_token_is_named_and_not_shown(server: GiteaServer, forge: GiteaForge):
    server.contents.tokens.clear()
    with pytest.raises(AccessRefused) as refused:
        forge.about()
    assert refused.value.reason == "authentication"
    assert "token-of" not in f"{refused.value} {refused.value.remedy} {forge!r}"


def test_scopes_that_the_token_lacks_are_told_as_the_server_tells_them(server: GiteaServer):
    token = server.contents.account("careful", "admin", scopes=frozenset({"read:user", "read:repository"}))
    with pytest.raises(AccessRefused, match="write:issue") as refused:
        GiteaForge(settings(server, token)).create_issue("Title", "")
    assert refused.value.reason == "permission"


def test_a_reader_learns_that_writing_is_not_allowed(server: GiteaServer):
    forge = GiteaForge(settings(server, server.contents.account("mallory", "read")))
    issue = server.contents.new_issue("irontree", "Title")
    assert not forge.about().can_write
    with pytest.raises(AccessRefused) as refused:
        forge.edit_issue(issue.number, state="closed")
    assert refused.value.reason == "permission"


def test_a_repository_that_may_not_be_seen_is_not_taken_for_a_missing_issue(server: GiteaServer):
    """Or a loop would think that people deleted its issues."""
    forge = GiteaForge(settings(server, server.contents.account("outsider", "none")))
    with pytest.raises(AccessRefused) as refused:
        forge.read_issue(7)
    assert refused.value.reason == "not-found"


@pytest.mark.parametrize(
    "call", [lambda f: f.read_issue(7), lambda f: f.find_issues(MARKER), lambda f: f.open_issues("wanted")]
)
def test_issues_that_are_switched_off_are_told_from_none(server, forge, call: Callable[[Forge], object]):
    server.contents.has_issues = False
    with pytest.raises(AccessRefused) as refused:
        call(forge)
    assert refused.value.reason == "issues-disabled"
    assert not forge.about().has_issues


def test_pull_requests_take_comments_and_labels_without_issues(server: GiteaServer, forge: GiteaForge, pull: int):
    server.contents.has_issues = False
    posted = forge.post_comment(pull, "x")
    forge.set_labels(pull, add=["bug"])
    assert forge.comments(pull) == (posted,)


def test_an_archived_repository_can_be_read_and_says_why_not_written(server: GiteaServer, forge: GiteaForge):
    number = forge.create_issue("Title", "").number
    server.contents.archived = True
    assert forge.read_issue(number)
    assert forge.about().archived
    with pytest.raises(AccessRefused) as refused:
        forge.post_comment(number, "x")
    assert refused.value.reason == "archived"


def test_a_renamed_repository_is_followed_for_reading_and_writing(server: GiteaServer, forge: GiteaForge):
    server.contents.former_name, server.contents.name = "iron", "steel"
    number = forge.create_issue("Title", MARKER).number
    assert [issue.number for issue in forge.find_issues(MARKER)] == [number]
    assert forge.about().full_name == "palms/steel"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_the_token_goes_to_no_other_host(server: GiteaServer, forge: GiteaForge, status: int):
    elsewhere = {"Location": server.url.replace("127.0.0.1", "localhost") + "/api/v1/user"}
    server.faults.append(Fault(status=status, headers=elsewhere))
    with pytest.raises(RemoteFailed, match="localhost") as refused:
        forge.about()
    assert "forge.url" in str(refused.value.remedy)
    assert len(server.requests) == 1


def test_a_circle_of_redirects_ends(server: GiteaServer, forge: GiteaForge):
    server.faults.append(Fault(status=307, headers={"Location": "/api/v1/repos/palms/iron"}, times=ALWAYS))
    with pytest.raises(RemoteFailed, match="circles"):
        forge.about()


def test_a_page_where_the_api_should_be_points_at_the_address(server: GiteaServer, forge: GiteaForge):
    server.faults.append(Fault(status=200, body="<html>Log in</html>"))
    with pytest.raises(RemoteFailed) as refused:
        forge.about()
    assert "forge.url" in str(refused.value.remedy)


@pytest.mark.parametrize("body", [None, []])
def test_a_list_that_does_not_say_how_long_it_is_is_not_taken_for_an_empty_one(server, forge, body):
    """Or everything would be published a second time."""
    forge.create_issue("Title", MARKER)
    server.faults.append(Fault("GET", "/issues", status=200, body=body))
    with pytest.raises(RemoteFailed):
        forge.find_issues(MARKER)


def test_nobody_listening_may_be_an_outage(forge: GiteaForge):
    with pytest.raises(RemoteUnavailable):
        at("http://127.0.0.1:9").about()


def test_addresses_for_people_lead_to_the_pages_of_gitea(server: GiteaServer, forge: GiteaForge):
    assert forge.commit_url("abc") == f"{server.url}/palms/iron/commit/abc"
    assert (
        forge.file_url("feature/7 x", "docs/a b.md")
        == f"{server.url}/palms/iron/src/branch/feature/7%20x/docs/a%20b.md"
    )


# --- bad days -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_failure_that_passes_is_waited_for_when_reading(server, forge, waits, status: int):
    number = forge.create_issue("Title", "").number
    server.faults.append(Fault("GET", "/issues/1", status=status, times=2))
    assert forge.read_issue(number)
    assert waits == [1.0, 2.0]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_what_writes_is_sent_once_though_the_server_fails(server: GiteaServer, forge: GiteaForge, status: int):
    server.faults.append(Fault("POST", status=status, times=ALWAYS))
    with pytest.raises(RemoteUnavailable):
        forge.create_issue("Title", "")
    assert server.writes() == ["POST /api/v1/repos/palms/iron/issues"]


@pytest.mark.parametrize("drop", ["before", "after"])
def test_what_writes_is_sent_once_though_the_connection_breaks(server: GiteaServer, forge: GiteaForge, drop: str):
    server.faults.append(Fault("POST", drop=drop))
    with pytest.raises(RemoteUnavailable):
        forge.create_issue("Title", "")
    assert len(server.writes()) == 1
    assert len(server.contents.issues) == (drop == "after")


def test_a_broken_connection_is_no_matter_when_reading(server: GiteaServer, forge: GiteaForge):
    server.faults.append(Fault("GET", drop="after", times=2))
    assert forge.about().account == "irontree"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_short_limit_is_waited_out_even_when_writing(server, forge, waits, method: str):
    """The server says that it did nothing, and for how long."""
    server.faults.append(Fault(method, "/issues", status=429, headers={"Retry-After": "7"}))
    forge.create_issue("Title", MARKER)
    assert len(forge.find_issues(MARKER)) == 1
    assert waits == [7.0]


def test_a_long_limit_is_the_callers_with_its_end(server: GiteaServer, forge: GiteaForge, waits: Waits):
    server.faults.append(Fault(status=429, headers={"Retry-After": "3600"}))
    with pytest.raises(RemoteUnavailable) as refused:
        forge.about()
    assert refused.value.not_before == NOON + timedelta(hours=1)
    assert not waits


def test_a_limit_may_end_at_a_date(server: GiteaServer, forge: GiteaForge):
    server.faults.append(Fault(status=429, headers={"Retry-After": "Fri, 02 Jan 2026 13:30:00 GMT"}))
    with pytest.raises(RemoteUnavailable) as refused:
        forge.about()
    assert refused.value.not_before == datetime(2026, 1, 2, 13, 30, tzinfo=UTC)


def test_an_issue_that_is_not_there_is_told_from_a_server_that_fails(server: GiteaServer, forge: GiteaForge):
    """Asked for its comments, Gitea fails with a 500 in both cases."""
    with pytest.raises(RemoteFailed, match="no issue #7") as missing:
        forge.comments(7)
    assert not isinstance(missing.value, RemoteUnavailable)
    number = forge.create_issue("Title", "").number
    server.faults.append(Fault("GET", "/comments", status=500, times=3))
    with pytest.raises(RemoteUnavailable):
        forge.comments(number)


# --- lists --------------------------------------------------------------------------------------------------------


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


def test_the_second_look_asks_for_what_changed_since(server: GiteaServer, forge: GiteaForge, time: Time):
    for _ in range(120):
        server.contents.new_issue("irontree", "Title", "")
    time.pass_by(hours=1)
    server.contents.new_issue("irontree", "The newest", "")
    assert forge.find_issues(MARKER) == ()
    pages = server.requests.count("GET /api/v1/repos/palms/iron/issues")
    forge.edit_issue(7, body=MARKER)
    assert [issue.number for issue in forge.find_issues(MARKER)] == [7]
    assert (pages, server.requests.count("GET /api/v1/repos/palms/iron/issues")) == (3, 4)


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


# --- labels, people, pull requests ----------------------------------------------------------------------------------


def test_of_two_labels_with_one_name_the_older_is_used_and_both_are_taken_away(server: GiteaServer, forge: GiteaForge):
    first, second = (server.contents.new_label("bug", "ff0000") for _ in range(2))
    issue = server.contents.new_issue("irontree", "Title", labels=(second.id,))
    assert forge.create_issue("Title", "", ["bug"]).labels == ("bug",)
    assert server.contents.issues[2].labels == [first.id]
    forge.set_labels(issue.number, remove=["bug"])
    assert issue.labels == []


def test_labels_get_their_colour_and_text_and_keep_what_people_gave_them(server: GiteaServer, forge: GiteaForge):
    server.contents.new_label("stage:task", "123456", "ours")
    forge.ensure_labels([Label("stage:task", "FBCA04", "published"), Label("stage:run", "1D76DB", "approved")])
    assert [(label.name, label.color, label.description) for label in server.contents.labels] == [
        ("stage:task", "123456", "ours"),
        ("stage:run", "1d76db", "approved"),
    ]


@pytest.mark.parametrize("us", ["admin", "write"])
def test_whom_to_trust_is_known_to_those_too_who_may_not_ask_for_permissions(server: GiteaServer, us: str):
    """Only an administrator may ask for another's; who may write is open to all."""
    forge = GiteaForge(settings(server, server.contents.account("bot", us)))
    for login, permission in (("boss", "owner"), ("writer", "write"), ("reader", "read")):
        server.contents.account(login, permission)
        server.contents.new_issue(login, "Title", MARKER)
    server.contents.new_issue("Ghost", "Title", MARKER)
    assert [(issue.author, issue.trusted) for issue in forge.find_issues(MARKER)] == [
        ("boss", True),
        ("writer", True),
        ("reader", False),
        ("Ghost", False),
    ]


def test_a_person_is_asked_about_once(server: GiteaServer, forge: GiteaForge):
    server.contents.account("mallory", "read")
    for _ in range(5):
        server.contents.new_issue("mallory", "Title", MARKER)
    forge.find_issues(MARKER)
    assert sum("/permission" in request for request in server.requests) == 1


@pytest.fixture
def pull(server: GiteaServer, forge: GiteaForge) -> int:
    server.contents.push("it", "b" * 40)
    return forge.create_pull_request(head="it", base="main", title="It", body="", draft=False).number


def test_whether_it_can_be_merged_is_waited_for_a_little(server: GiteaServer, forge: GiteaForge, pull: int):
    kept = server.contents.issues[pull].pull
    assert kept
    kept.still_checking = 2
    found = forge.read_pull_request(pull)
    assert found
    assert found.mergeable
    kept.conflicting = True
    found = forge.read_pull_request(pull)
    assert found
    assert found.mergeable is False


def test_a_merge_that_deletes_the_branch_leaves_the_request_under_its_name(server, forge, pull: int):
    server.contents.merge(pull, "irontree", "d" * 40, delete_branch=True)
    (found,) = forge.find_pull_requests("it")
    assert (found.head_branch, found.merged, found.merge_sha, found.merged_by) == ("it", True, "d" * 40, "irontree")


def test_a_forks_branch_of_the_same_name_is_not_ours(server: GiteaServer, forge: GiteaForge, pull: int):
    theirs = server.contents.new_pull("irontree", "Theirs", "", "it").pull
    assert theirs
    theirs.of_a_fork = True
    assert [found.number for found in forge.find_pull_requests("it")] == [pull]


def test_a_merged_request_cannot_be_opened_again_and_says_why(server: GiteaServer, forge: GiteaForge, pull: int):
    server.contents.merge(pull, "irontree", "d" * 40)
    with pytest.raises(RemoteFailed, match="already merged"):
        forge.edit_pull_request(pull, state="open")


def test_a_request_that_the_server_cannot_show_hides_no_other(server: GiteaServer, forge: GiteaForge, pull: int):
    """Gitea writes null in its place, as for one of a fork whose repository is broken."""
    shown = server.api.shapes.pull(server.contents.issues[pull], server.contents.issues[pull].pull, "irontree")
    server.faults.append(Fault("GET", "/pulls", status=200, body=[None, shown], headers={"X-Total-Count": "2"}))
    assert [found.number for found in forge.find_pull_requests("it")] == [pull]


def test_reviews_that_are_not_handed_in_are_not_shown(server: GiteaServer, forge: GiteaForge, pull: int):
    """Those of others Gitea hides, but counts."""
    server.contents.account("ada", "write")
    for author, state in (("ada", "PENDING"), ("irontree", "PENDING"), ("ada", "REQUEST_REVIEW"), ("ada", "COMMENT")):
        server.contents.review(pull, author, state)
    assert [(review.author, review.verdict) for review in forge.reviews(pull)] == [("ada", "commented")]


def test_a_dismissed_review_says_so(server: GiteaServer, forge: GiteaForge, pull: int):
    server.contents.review(pull, "irontree", "REQUEST_CHANGES", "no").dismissed = True
    assert [review.verdict for review in forge.reviews(pull)] == ["dismissed"]


def test_remarks_name_their_line_in_the_new_file_or_the_old(server: GiteaServer, forge: GiteaForge, pull: int):
    remarks = (Remark(1, "a.py", "new", line=3), Remark(2, "a.py", "old", old_line=5), Remark(3, "a.py", "file"))
    server.contents.review(pull, "irontree", "REQUEST_CHANGES", "see", remarks)
    (review,) = forge.reviews(pull)
    assert [(r.body, r.path, r.line, r.trusted) for r in review.remarks] == [
        ("new", "a.py", 3, True),
        ("old", "a.py", 5, True),
        ("file", "a.py", None, True),
    ]


def test_a_slow_answer_is_an_outage_in_the_end(server: GiteaServer):
    """One second here, half a minute in life."""
    answer = threading.Event()
    server.faults.append(Fault("POST", until=answer))
    forge = GiteaForge(replace(settings(server, "token-of-irontree"), answer_within=1))
    try:
        with pytest.raises(RemoteUnavailable, match="no answer"):
            forge.create_issue("Title", "")
    finally:
        answer.set()


# --- certificates ---------------------------------------------------------------------------------------------------


@pytest.fixture
def private(tmp_path: Path) -> Iterator[tuple[GiteaServer, Path]]:
    """A server whose certificate is of an authority of one's own, and the file of that authority."""
    tls, ca_file = own_authority(tmp_path)
    with gitea_server(Noon().now, tls=tls) as server:
        server.contents.account("irontree", "admin")
        yield server, ca_file


def test_an_authority_of_ones_own_is_trusted_when_it_is_named(private: tuple[GiteaServer, Path]):
    server, ca_file = private
    assert at(server.url, ca_file).about().account == "irontree"


def test_a_certificate_that_nobody_vouches_for_is_no_outage(private: tuple[GiteaServer, Path]):
    """Repeating does not cure it; the token was not sent."""
    server, _ = private
    with pytest.raises(RemoteFailed, match="certificate") as refused:
        at(server.url).about()
    assert not isinstance(refused.value, RemoteUnavailable)
    assert "forge.ca_file" in str(refused.value.remedy)
    assert not server.requests


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_certificates_is_named(tmp_path: Path, content: str | None):
    ca_file = tmp_path / "ca.pem"
    if content:
        ca_file.write_text(content)
    with pytest.raises(ConfigRefused, match=r"ca\.pem"):
        at("https://127.0.0.1:9", ca_file).about()
