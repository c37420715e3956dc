"""Tokens, rights, certificates, and where a repository is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from irontree.errors import AccessRefused, ConfigRefused, RemoteFailed, RemoteUnavailable
from irontree.forges.gitea import GiteaForge
from irontree.ports import Forge
from tests.support.certificates import own_authority
from tests.support.forges import Noon
from tests.support.gitea.server import Fault, GiteaServer, gitea_server
from tests.support.gitea.stage import ALWAYS, MARKER, forge_at, settings


def test_a_forge_is_made_without_a_token_and_says_so_when_it_is_asked(server: GiteaServer):
    with pytest.raises(ConfigRefused) as refused:
        GiteaForge(settings(server, "")).about()
    assert "GITEA_TOKEN" in str(refused.value.remedy)
    assert not server.requests


def test_either_name_of_the_token_will_do(server: GiteaServer):
    assert forge_at(server.url, GITEA_TOKEN="", FORGEJO_TOKEN="token-of-irontree").about().account == "irontree"


def test_a_token_with_a_line_end_in_it_is_not_shown(server: GiteaServer):
    with pytest.raises(ConfigRefused, match="GITEA_TOKEN") as refused:
        forge_at(server.url, GITEA_TOKEN="token-of-irontree\nirontree").about()
    assert "token-of" not in f"{refused.value} {refused.value.remedy}"


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
        forge_at("http://127.0.0.1:9").about()


def test_addresses_for_people_lead_to_the_pages_of_gitea(server: GiteaServer, forge: GiteaForge):
    assert forge.links.commit("abc") == f"{server.url}/palms/iron/commit/abc"
    assert (
        forge.links.file("feature/7 x", "docs/a b.md")
        == f"{server.url}/palms/iron/src/branch/feature/7%20x/docs/a%20b.md"
    )


@pytest.fixture
def private(tmp_path: Path) -> Iterator[tuple[GiteaServer, Path]]:
    """A server whose certificate is of an authority of one's own, and the file of that authority."""
    tls, ca_file = own_authority(tmp_path)
    with gitea_server(Noon().now, tls=tls) as server:
        server.contents.account("irontree", "admin")
        yield server, ca_file


def test_an_authority_of_ones_own_is_trusted_when_it_is_named(private: tuple[GiteaServer, Path]):
    server, ca_file = private
    assert forge_at(server.url, ca_file).about().account == "irontree"


def test_a_certificate_that_nobody_vouches_for_is_no_outage(private: tuple[GiteaServer, Path]):
    """Repeating does not cure it; the token was not sent."""
    server, _ = private
    with pytest.raises(RemoteFailed, match="certificate") as refused:
        forge_at(server.url).about()
    assert not isinstance(refused.value, RemoteUnavailable)
    assert "forge.ca_file" in str(refused.value.remedy)
    assert not server.requests


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_certificates_is_named(tmp_path: Path, content: str | None):
    ca_file = tmp_path / "ca.pem"
    if content:
        ca_file.write_text(content)
    with pytest.raises(ConfigRefused, match=r"ca\.pem"):
        forge_at("https://127.0.0.1:9", ca_file).about()
