"""The `github` adapter over a real connection: what goes wrong between here and there, and what is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from irontree import __version__
from irontree.errors import AccessRefused, ConfigRefused, RemoteFailed, RemoteUnavailable
from irontree.forges import Location
from irontree.forges.github import GithubForge
from irontree.ports import Label
from tests.support.forges import HEAD_SHA
from tests.support.github.stage import GithubStage, github, github_settings
from tests.support.github.state import Fault, Reply, Request

MARKER = "<!-- irontree:task-key auth-login -->"
LIMITED = {"message": "You have exceeded a secondary rate limit."}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[GithubStage]:
    with github(tmp_path) as opened:
        yield opened


def another(stage: GithubStage, tmp_path: Path, **changes: Any) -> GithubForge:
    """A second adapter for the same repository, set up differently."""
    return GithubForge(replace(github_settings(tmp_path, stage.server, "irontree"), **changes))


def asked(stage: GithubStage, verb: str, end: str = "") -> list[Request]:
    return [request for request in stage.hub.requests if request.verb == verb and request.path.endswith(end)]


# --- looking again and again ----------------------------------------------------------------------------------


def test_comments_that_did_not_change_are_not_sent_again(stage: GithubStage):
    """The second look is answered with 304, which counts for no limit; write access that did not change too."""
    number = stage.ours.create_issue("Title", "").number
    stage.ours.post_comment(number, "/accept")
    for _ in range(2):
        assert len(stage.ours.comments_since(number, "2026-01-02T11:00:00Z")) == 1
        assert stage.ours.may_write("writer")
    for end in ("/comments", "/permission"):
        assert "if-none-match" in asked(stage, "GET", end)[-1].headers


# --- rate limits and outages --------------------------------------------------------------------------------


def test_a_short_limit_is_waited_out_and_the_issue_is_there_once(stage: GithubStage, tmp_path: Path):
    naps: list[float] = []
    forge = another(stage, tmp_path, sleep=naps.append)
    stage.hub.faults.append(Fault(Reply(403, LIMITED, {"Retry-After": "7"}), lambda r: r.verb == "POST", times=2))
    assert forge.create_issue("Title", MARKER).number == 1
    assert (naps, len(stage.hub.issues)) == ([7.0, 7.0], 1)


def test_a_long_limit_is_left_to_a_timer(stage: GithubStage):
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767358800"}
    stage.hub.faults.append(Fault(Reply(403, {"message": "API rate limit exceeded for user ID 1."}, headers)))
    with pytest.raises(RemoteUnavailable) as unavailable:
        stage.ours.read_issue(1)
    assert str(unavailable.value.not_before) == "2026-01-02 13:00:00+00:00"
    assert len(stage.hub.requests) == 1


def test_a_question_survives_two_failures(stage: GithubStage):
    stage.ours.create_issue("Title", "")
    stage.hub.faults += [Fault(Reply(502, {"message": "Server Error"}), times=1), Fault("reset-before", times=1)]
    assert stage.ours.read_issue(1)


@pytest.mark.parametrize("failure", [Reply(500, {"message": "oops"}), "reset-before", "reset-after"])
def test_a_write_is_sent_once_whatever_becomes_of_it(stage: GithubStage, failure: Any):
    stage.hub.faults.append(Fault(failure, lambda request: request.verb == "POST", times=1))
    with pytest.raises(RemoteUnavailable):
        stage.ours.create_issue("Title", MARKER)
    assert len(asked(stage, "POST")) == 1
    assert len(stage.hub.issues) == (1 if failure == "reset-after" else 0)


def test_a_forge_that_says_nothing_is_given_up_on(stage: GithubStage, tmp_path: Path):
    forge = another(stage, tmp_path, answer_within=1)
    assert forge.read_issue(1) is None
    stage.hub.faults.append(Fault("silence", lambda request: request.verb == "POST"))
    with pytest.raises(RemoteUnavailable, match="no answer"):
        forge.create_issue("Title", "")


def test_nobody_listening_is_an_outage(tmp_path: Path, stage: GithubStage):
    forge = another(stage, tmp_path, location=Location("http://127.0.0.1:9", "ada/engine"))
    with pytest.raises(RemoteUnavailable) as unavailable:
        forge.about()
    assert unavailable.value.message.startswith("no answer from http://127.0.0.1:9: Failed to establish")
    assert "ada/engine" not in unavailable.value.message, "the request itself says nothing to a person"


def test_a_page_of_something_else_is_not_taken_for_an_answer(stage: GithubStage):
    stage.hub.faults.append(Fault(Reply(200, "<html>Please log in to this network</html>")))
    with pytest.raises(RemoteUnavailable, match="Please log in"):
        stage.ours.read_issue(1)


# --- what repeating cannot cure -----------------------------------------------------------------------------


def refusal(call: Any) -> str:
    with pytest.raises(AccessRefused) as refused:
        call()
    assert refused.value.remedy
    return str(refused.value.reason)


def test_a_revoked_token_is_told_from_an_outage(stage: GithubStage):
    stage.hub.tokens.clear()
    assert refusal(lambda: stage.ours.read_issue(1)) == "authentication"


def test_an_archived_repository_can_be_read_and_not_written(stage: GithubStage):
    stage.ours.create_issue("Title", "")
    stage.hub.archived = True
    assert stage.ours.read_issue(1)
    assert refusal(lambda: stage.ours.create_issue("Title", "")) == "archived"
    assert stage.ours.about().archived


def test_a_repository_without_issues_says_so(stage: GithubStage):
    stage.hub.has_issues = False
    assert refusal(lambda: stage.ours.create_issue("Title", "")) == "issues-disabled"
    assert refusal(lambda: stage.ours.find_issues(MARKER)) == "issues-disabled"
    assert stage.ours.about().has_issues is False


def test_a_repository_that_is_hidden_or_gone_is_not_found(stage: GithubStage):
    stage.hub.private = True
    assert refusal(lambda: stage.stranger.read_issue(1)) == "not-found"
    assert refusal(lambda: stage.stranger.comments_since(1, "2026-01-02T11:00:00Z")) == "not-found"


def test_somebody_without_rights_is_told_which_are_needed(stage: GithubStage):
    stage.ours.create_issue("Title", "")
    assert refusal(lambda: stage.stranger.ensure_labels([Label("bug", "FF0000")])) == "permission"
    assert stage.stranger.about().can_write is False


def test_a_renamed_repository_is_followed_and_shown_by_its_new_name(stage: GithubStage, tmp_path: Path):
    """All later calls go to the new name: PyGithub would drop the query of a redirected page."""
    stage.hub.names_of_old.add("machine")
    forge = another(stage, tmp_path, location=Location(stage.server.url, "ada/machine"))
    forge.create_issue("Title", MARKER)
    assert [issue.number for issue in forge.find_issues(MARKER)] == [1]
    assert forge.about().full_name == "ada/engine"
    assert {r.path for r in stage.hub.requests if "machine" in r.path} == {"/repos/ada/machine"}


def test_a_repository_that_is_renamed_while_we_work_is_asked_for_again(stage: GithubStage):
    """GitHub answers a write with 307, which must not be taken for success."""
    stage.ours.create_issue("Title", "")
    stage.hub.names_of_old.add("engine")
    stage.hub.name = "motor"
    with pytest.raises(RemoteUnavailable):
        stage.ours.create_issue("Title", "")
    assert len(stage.hub.issues) == 1


# --- listings -----------------------------------------------------------------------------------------------


def test_every_listing_is_read_to_its_end(stage: GithubStage):
    stage.hub.largest_page = 2
    for index in range(5):
        stage.ours.create_issue("Title", MARKER, ["wanted", f"label-{index}"])
        stage.ours.post_comment(1, f"{index}")
    assert [issue.number for issue in stage.ours.find_issues(MARKER)] == [1, 2, 3, 4, 5]
    assert [issue.number for issue in stage.ours.open_issues("wanted")] == [1, 2, 3, 4, 5]
    assert [comment.body for comment in stage.ours.comments(1)] == ["0", "1", "2", "3", "4"]
    stage.ours.ensure_labels([Label(f"label-{index}", "000000") for index in range(5)])
    assert asked(stage, "POST", "/ada/engine/labels") == []


def test_a_second_look_asks_for_what_changed_since(stage: GithubStage):
    stage.ours.create_issue("Title", MARKER)
    for _ in range(2):
        stage.ours.find_issues(MARKER)
    first, second = asked(stage, "GET", "/ada/engine/issues")
    assert "since" not in first.query
    assert second.query["since"] == "2026-01-02T11:55:00Z"
    assert {query.query["state"] for query in (first, second)} == {"all"}


def test_a_deleted_issue_is_nowhere(stage: GithubStage):
    for _ in range(2):
        stage.ours.create_issue("Title", MARKER)
    assert len(stage.ours.find_issues(MARKER)) == 2
    del stage.hub.issues[2]
    stage.hub.deleted.add(2)
    assert [issue.number for issue in stage.ours.find_issues(MARKER)] == [1]
    assert stage.ours.read_issue(2) is None
    with pytest.raises(RemoteFailed, match="there is no issue #2") as gone:
        stage.ours.comments_since(2, "2026-01-02T11:00:00Z")
    assert not isinstance(gone.value, AccessRefused), "to the other issues we are let in"


def test_an_unchanged_answer_is_not_sent_again(stage: GithubStage):
    """Looking whether a pull request was merged costs nothing of the rate limit."""
    stage.push("it", HEAD_SHA)
    stage.ours.create_pull_request(head="it", base="main", title="It", body="", draft=False)
    before = stage.ours.read_pull_request(1)
    assert stage.ours.read_pull_request(1) == before
    assert "if-none-match" in asked(stage, "GET", "/pulls/1")[-1].headers
    stage.merge(1)
    after = stage.ours.read_pull_request(1)
    assert after
    assert after.merged


# --- accounts -----------------------------------------------------------------------------------------------


def test_write_access_is_asked_for_once_per_author(stage: GithubStage):
    """R20: an association such as MEMBER or COLLABORATOR proves no write access."""
    stage.ours.create_issue("Title", "")
    stage.hub.tokens["token-writer"] = "writer"
    for account in ("writer", "mallory", "writer", "mallory"):
        key = stage.hub.new_id()
        comment = {"id": key, "number": 1, "body": "x", "author": account, "created_at": stage.hub.now}
        stage.hub.comments[key] = comment
    assert [comment.trusted for comment in stage.ours.comments(1)] == [True, False, True, False]
    assert len(asked(stage, "GET", "/permission")) == 2


def test_the_owner_is_believed_without_asking(stage: GithubStage):
    stage.hub.tokens["token-ada"] = "ada"
    GithubForge(github_settings(Path(), stage.server, "ada")).create_issue("Title", MARKER)
    (issue,) = stage.ours.find_issues(MARKER)
    assert (issue.author, issue.trusted) == ("ada", True)
    assert asked(stage, "GET", "/permission") == []


def test_an_outage_is_not_taken_for_a_lack_of_rights(stage: GithubStage):
    stage.stranger.create_issue("Title", MARKER)
    stage.hub.faults.append(Fault(Reply(503, {"message": "down"}), lambda r: r.path.endswith("/permission"), times=3))
    with pytest.raises(RemoteUnavailable):
        stage.ours.find_issues(MARKER)
    assert [issue.trusted for issue in stage.ours.find_issues(MARKER)] == [False]


def test_an_app_works_with_a_token_it_fetches_and_knows_its_own_name(stage: GithubStage, tmp_path: Path):
    """GitHub tells an App's name in GraphQL alone."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encodings = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    stage.hub.apps[42] = "irontree-app[bot]"
    stage.hub.rights["irontree-app[bot]"] = "write"
    forge = another(
        stage,
        tmp_path,
        environment={
            "GITHUB_APP_ID": "7",
            "GITHUB_APP_INSTALLATION_ID": "42",
            "GITHUB_APP_PRIVATE_KEY": key.private_bytes(*encodings).decode(),
        },
    )
    issue = forge.create_issue("Title", "")
    assert (issue.author, issue.trusted, forge.about().account) == ("irontree-app[bot]", True, "irontree-app[bot]")
    assert len(asked(stage, "POST", "/access_tokens")) == 1


def test_a_key_that_is_none_is_refused(stage: GithubStage, tmp_path: Path):
    broken = "-----BEGIN RSA PRIVATE KEY-----\nbm90IGEga2V5\n-----END RSA PRIVATE KEY-----\n"
    names = {"GITHUB_APP_ID": "7", "GITHUB_APP_INSTALLATION_ID": "42", "GITHUB_APP_PRIVATE_KEY": broken}
    with pytest.raises(ConfigRefused, match="private key"):
        another(stage, tmp_path, environment=names).about()


def test_without_a_credential_nothing_is_asked(stage: GithubStage, tmp_path: Path):
    with pytest.raises(ConfigRefused, match="no credential"):
        another(stage, tmp_path, environment={}).about()
    assert stage.hub.requests == []


def test_a_file_of_certificates_that_is_not_there_is_named(stage: GithubStage, tmp_path: Path):
    location = Location(stage.server.url, "ada/engine", tmp_path / "ca.pem")
    with pytest.raises(ConfigRefused, match=r"ca\.pem"):
        another(stage, tmp_path, location=location).about()


def test_we_say_who_we_are_and_which_version_of_the_api_we_speak(stage: GithubStage):
    stage.ours.about()
    headers = stage.hub.requests[-1].headers
    assert headers["user-agent"] == f"irontree/{__version__}"
    assert headers["x-github-api-version"] == "2022-11-28"


# --- labels, checks, reviews --------------------------------------------------------------------------------


def test_a_label_in_another_case_is_the_same_label(stage: GithubStage):
    stage.ours.ensure_labels([Label("Bug", "FF0000")])
    stage.ours.ensure_labels([Label("bug", "00FF00", "x" * 500)])
    stage.ours.create_issue("Title", "", ["BUG"])
    stage.ours.set_labels(1, add=["bug"])
    assert [label["name"] for label in stage.hub.labels.values()] == ["Bug"]
    stage.ours.set_labels(1, remove=["bUg"])
    issue = stage.ours.read_issue(1)
    assert issue
    assert issue.labels == ()


def run(stage: GithubStage, name: str, conclusion: str | None, **more: Any) -> int:
    key = stage.hub.new_id()
    status = "completed" if conclusion else "in_progress"
    about = {"id": key, "name": name, "head_sha": HEAD_SHA, "status": status, "conclusion": conclusion}
    stage.hub.runs.append(about | more)
    return key


def begun(stage: GithubStage, *, suite: int, event: str) -> None:
    """A workflow began that suite."""
    assert stage.hub.workflow_runs is not None
    stage.hub.workflow_runs.append({"id": stage.hub.new_id(), "workflow": 1, "suite": suite, "event": event})


def test_a_failed_check_run_shows_where_and_the_end_of_its_log(stage: GithubStage):
    stage.push("it", HEAD_SHA)
    key = run(stage, "test", "failure", title="2 failed")
    stage.hub.annotations[key] = [{"path": "src/a.py", "start_line": 7, "message": "assert 1 == 2"}]
    stage.hub.logs[key] = "2026-01-02T12:00:00.1234567Z noise\n" * 1000 + "2026-01-02T12:00:01.0Z FAILED test_a\n"
    run(stage, "lint", "success")
    run(stage, "deploy", "skipped")
    run(stage, "build", None)
    checks = {check.name: check for check in stage.ours.commit_checks(HEAD_SHA)}
    states = {name: check.state for name, check in checks.items()}
    assert states == {"build": "pending", "deploy": "success", "lint": "success", "test": "failure"}
    assert list(checks) == sorted(checks)
    assert checks["test"].summary == "2 failed"
    assert checks["test"].excerpt.endswith("noise\nFAILED test_a")
    assert len(checks["test"].excerpt) <= 4000
    assert checks["lint"].excerpt == ""


def test_a_failed_check_run_without_a_log_shows_its_annotations(stage: GithubStage):
    stage.push("it", HEAD_SHA)
    key = run(stage, "scan", "timed_out", app="scanner", summary="see below")
    stage.hub.annotations[key] = [{"path": "src/a.py", "start_line": 7, "message": "leak"}]
    (check,) = stage.ours.commit_checks(HEAD_SHA)
    assert (check.state, check.excerpt) == ("failure", "src/a.py:7: leak\n\nsee below")


@pytest.mark.parametrize(
    "place", ["http://127.0.0.1:9/log?sig=x", "http://localhost:{port}/1?sig=", "ftp://a/log", "log"]
)
def test_a_failed_check_run_whose_log_cannot_be_had_is_red_all_the_same(stage: GithubStage, place: str):
    stage.push("it", HEAD_SHA)
    run(stage, "test", "failure", title="2 failed", summary="see below")
    away = {"Location": place.format(port=stage.server.server_address[1])}
    stage.hub.faults.append(Fault(Reply(302, None, away), lambda request: request.path.endswith("/logs")))
    (check,) = stage.ours.commit_checks(HEAD_SHA)
    assert (check.state, check.summary, check.excerpt) == ("failure", "2 failed", "see below")


@pytest.mark.parametrize(
    "states", [("failure", None), ("failure", "success"), ("cancelled", "success"), (None, "success")]
)
@pytest.mark.parametrize("worst_first", [True, False])
def test_of_checks_with_one_name_the_worst_counts(
    stage: GithubStage, states: tuple[str | None, str | None], worst_first: bool
):
    """R15: jobs of one name in two workflows, or in one on `push` and on `pull_request`, are two checks."""
    stage.push("it", HEAD_SHA)
    first, second = states if worst_first else reversed(states)
    run(stage, "test", first, suite=1)
    run(stage, "test", second, suite=2)
    begun(stage, suite=1, event="push")
    begun(stage, suite=2, event="pull_request")
    (check,) = stage.ours.commit_checks(HEAD_SHA)
    assert check.state == ("failure" if {*states} & {"failure", "cancelled"} else "pending")


def test_a_status_and_a_check_run_of_one_name_hide_nothing_of_each_other(stage: GithubStage):
    stage.push("it", HEAD_SHA)
    run(stage, "test", "success")
    stage.ours.set_commit_status(HEAD_SHA, name="test", state="failure", description="2 failed")
    stage.ours.set_commit_status(HEAD_SHA, name="lint", state="success", description="")
    run(stage, "lint", "failure")
    assert [check.state for check in stage.ours.commit_checks(HEAD_SHA)] == ["failure", "failure"]


def test_a_job_that_ran_again_is_what_it_came_to_last(stage: GithubStage):
    stage.push("it", HEAD_SHA)
    run(stage, "test", "failure")
    run(stage, "test", "success")
    (check,) = stage.ours.commit_checks(HEAD_SHA)
    assert check.state == "success"


@pytest.mark.parametrize(("seen", "state"), [(True, "success"), (False, "failure")])
def test_a_workflow_that_the_same_event_began_again_counts_by_its_last_run(stage: GithubStage, seen: bool, state: str):
    """As where a request is opened again, or where the first run was cancelled for the second."""
    stage.push("it", HEAD_SHA)
    run(stage, "test", "cancelled", suite=1)
    run(stage, "test", "success", suite=2)
    begun(stage, suite=1, event="pull_request")
    begun(stage, suite=2, event="pull_request")
    if not seen:
        stage.hub.workflow_runs = None
    (check,) = stage.ours.commit_checks(HEAD_SHA)
    assert check.state == state


def test_remarks_belong_to_their_review_and_tell_their_line(stage: GithubStage):
    stage.push("it", HEAD_SHA)
    stage.ours.create_pull_request(head="it", base="main", title="It", body="", draft=False)
    stage.review(1, "writer", "changes_requested", "", (("a.py", 3, "why?"), ("b.py", 9, "no")))
    stage.review(1, "mallory", "commented", "", (("a.py", 3, "rm -rf"),))
    first, second = stage.ours.reviews(1)
    assert [(r.path, r.line, r.body, r.trusted) for r in first.remarks] == [
        ("a.py", 3, "why?", True),
        ("b.py", 9, "no", True),
    ]
    assert [(r.author, r.trusted) for r in second.remarks] == [("mallory", False)]


def test_a_review_that_is_still_being_written_is_nobodys_word(stage: GithubStage):
    stage.push("it", HEAD_SHA)
    stage.ours.create_pull_request(head="it", base="main", title="It", body="", draft=False)
    stage.review(1, "irontree", "commented", "later")
    stage.hub.reviews[0]["state"] = "PENDING"
    assert stage.ours.reviews(1) == ()


def test_where_there_are_no_drafts_a_pull_request_is_open_to_all_at_once(stage: GithubStage):
    """A private repository of a free account: work must not stop for it."""
    stage.hub.drafts = False
    stage.push("it", HEAD_SHA)
    pull = stage.ours.create_pull_request(head="it", base="main", title="It", body="", draft=True)
    assert pull.draft is False
    assert stage.ours.edit_pull_request(pull.number, draft=True, title="Other").title == "Other"
    assert len(stage.hub.issues) == 1


def test_pages_for_people_are_known_without_asking(stage: GithubStage):
    """Texts are written during an outage too."""
    stage.go_down()
    assert stage.ours.links.commit(HEAD_SHA) == f"{stage.server.url}/ada/engine/commit/{HEAD_SHA}"
    assert stage.ours.links.file("main", "docs/SPEC.md") == f"{stage.server.url}/ada/engine/blob/main/docs/SPEC.md"
