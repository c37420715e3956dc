"""Proposing with real git and the forge of plain files: a person merges with plain git (R5, R15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.app import App
from irontree.domain.decide import Finalize
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.answers.approve import approve
from irontree.services.delivery.comments import lint_comments
from irontree.services.execution.steps import perform
from irontree.services.proposals.sources import propose
from irontree.services.record import read_world
from tests.support.greeting import SPEC, approved, laid_out, look, work
from tests.support.repositories import git

BRANCH = "feature/1-greeting"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    return approved(laid_out(tmp_path, monkeypatch, "pull_request"))


def test_a_merge_by_hand_accepts_what_was_proposed(app: App, tmp_path: Path):
    work(app)
    remote = tmp_path / "remote.git"
    assert "greet.txt" not in git(remote, "ls-tree", "--name-only", "main")
    assert look(app) == "verify_pending_acceptance"
    [asked] = app.forge().comments(1)
    assert "Merge the request #2 " in asked.body
    assert lint_comments(app) == ()
    git(tmp_path, "clone", "--quiet", "remote.git", "theirs")
    git(tmp_path / "theirs", "merge", "--quiet", "--no-ff", "-m", "Merge it", f"origin/{BRANCH}")
    git(tmp_path / "theirs", "push", "--quiet", "origin", "main")
    assert look(app) == "checkup_accept_recorded"
    perform(app, Finalize("greeting"))
    state = read_world(app).states["greeting"]
    assert state.done
    assert state.code_ref == git(remote, "rev-parse", "main").strip()


def test_a_later_attempt_is_one_more_commit_on_the_branch(app: App, tmp_path: Path):
    work(app)
    first = git(tmp_path / "remote.git", "rev-parse", BRANCH).strip()
    with app.driver.hold("answer"):
        answer_issue(app, 1, Answer("send-back", "ada", note="say it twice"))
    work(app)
    assert git(tmp_path / "remote.git", "rev-parse", f"{BRANCH}~1").strip() == first
    assert git(tmp_path / "remote.git", "show", f"{BRANCH}:greet.txt").split("\n")[:2] == [
        "hello, attempt 1",
        "hello, attempt 2",
    ]
    assert git(app.repository.root, "branch", "--list", "feature/*") == ""


def test_a_review_in_a_file_that_names_no_commit_sends_back_once(app: App):
    work(app)
    reviews = next((app.repository.root / ".mino" / "forge" / "pulls").glob("*.md")).with_suffix("") / "reviews"
    reviews.mkdir(parents=True)
    (reviews / "0001.md").write_text("---\nverdict: changes_requested\n---\n\nSay it twice.\n")
    assert look(app) == "verify_failed_retryable"
    work(app)
    assert look(app) == "verify_pending_acceptance"


def test_a_branch_that_was_rewritten_and_merged_accepts_nothing(app: App, tmp_path: Path):
    work(app)
    git(tmp_path, "clone", "--quiet", "remote.git", "theirs")
    theirs = tmp_path / "theirs"
    git(theirs, "switch", "--quiet", "-c", "other", "origin/main")
    (theirs / "other.txt").write_text("unrelated\n")
    git(theirs, "add", "other.txt")
    git(theirs, "commit", "--quiet", "-m", "Other")
    git(theirs, "push", "--quiet", "--force", "origin", f"other:{BRANCH}", "other:main")
    assert look(app) == "verify_pending_acceptance"


def test_the_request_of_a_text_that_was_approved_anew_is_closed_with_the_reason(app: App):
    work(app)
    spec = app.repository.root / "SPEC.md"
    spec.write_text(SPEC.replace("it says hello", "it says hello to all"))
    proposal = propose(app, spec)
    approve(app, proposal, proposal.name, "ada")
    look(app)
    asked = next((app.repository.root / ".mino" / "forge" / "pulls").glob("*.md"))
    assert "state: closed" in asked.read_text()
    comments = [path.read_text() for path in asked.with_suffix("").glob("comments/*.md")]
    assert ["approved anew" in comment for comment in comments] == [True]
