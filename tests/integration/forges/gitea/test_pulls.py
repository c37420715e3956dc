"""Pull requests and reviews, with what is odd about them on Gitea."""

from __future__ import annotations

import pytest

from irontree.errors import RemoteFailed
from irontree.forges.gitea import GiteaForge
from tests.support.gitea.contents import Remark
from tests.support.gitea.server import Fault, GiteaServer


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


def test_a_prefix_that_makes_no_draft_there_is_not_left_in_the_title(server: GiteaServer, forge: GiteaForge):
    """Servers may have other prefixes, and no answer says which."""
    server.contents.wip = ("ENTWURF:",)
    server.contents.branches["it"] = "b" * 40
    made = forge.create_pull_request(head="it", base="main", title="It", body="", draft=True)
    assert (made.draft, server.contents.issues[made.number].title) == (False, "It")
    assert not forge.edit_pull_request(made.number, draft=True).draft
    assert server.contents.issues[made.number].title == "It"
