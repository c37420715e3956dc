"""Notes in the project's documents on a real remote: one push, two commits, and what a failure costs (Promotion)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.domain.decide import Finalize, Run, Verify
from irontree.domain.state import TaskState
from irontree.services.answers.approve import approve
from irontree.services.execution.steps import perform
from irontree.services.proposals.sources import propose
from tests.integration.crash.laboratory import faults, lay_out
from tests.support.repositories import commit, git, head, hook
from tests.support.world import Patience

KEY = "connect-the-shop"
DOCUMENT = "docs/integrations/connect-the-shop.md"
SPEC = """\
# Toy

## Connect the shop

Integrate the payment provider: configure its webhook, and give the container the secret that it signs with. The
port has to be open to the outside.

- [ ] it says hello `$ git grep -q hello app.toml`
"""


@dataclass
class Place:
    """A project with one task about set-up; the remote counts what is pushed to it."""

    folder: Path

    @property
    def remote(self) -> Path:
        return self.folder / "remote.git"

    @property
    def root(self) -> Path:
        return self.folder / "project"

    def lay_out(self, settings: str = "", words: str = "") -> None:
        agent = f"echo 'say = \"hello\"' > app.toml; echo {words} > $IRONTREE_SUMMARY_FILE"
        lay_out(self.folder, agent, SPEC, settings)
        hook(self.remote / "hooks", "post-receive", f"cat >> {self.folder}/pushes")
        self.app = open_app(self.root, origin=Origin("ada", "command"), cancel=Patience())

    def work(self) -> TaskState:
        proposal = propose(self.app, self.root / "SPEC.md")
        approve(self.app, proposal, proposal.name, "ada")
        perform(self.app, Run(KEY))
        return perform(self.app, Verify(KEY))

    def pushes(self) -> list[str]:
        """The new tips, one a push."""
        path = self.folder / "pushes"
        return [line.split()[1] for line in path.read_text().splitlines()] if path.exists() else []

    def subjects(self) -> list[str]:
        return git(self.remote, "log", "--format=%s", "main").splitlines()

    def shown(self, path: str, branch: str = "main") -> str:
        return git(self.remote, "show", f"{branch}:{path}")

    def report(self) -> str:
        return (self.root / ".mino/reports/issue-1/report.md").read_text()


@pytest.fixture
def place(tmp_path) -> Iterator[Place]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        yield Place(tmp_path)


def test_the_change_and_its_notes_go_out_in_one_push_as_two_commits(place):
    place.lay_out()
    state = place.work()
    tip = head(place.remote, "main")
    assert place.pushes() == [tip]
    assert place.subjects() == [
        "docs(issue-1): Connect the shop integration notes",
        "[run] #1: Connect the shop",
        "first",
    ]
    assert git(place.remote, "rev-parse", "main^") == state.code_ref == state.anchor
    assert git(place.remote, "show", "--name-only", "--format=", "main") == DOCUMENT
    assert f"Irontree-Docs: {state.run_token}/docs" in git(place.remote, "log", "-1", "--format=%B", "main")
    assert (place.root / DOCUMENT).exists(), "the user's own branch follows"
    assert faults(place.app) == []


def test_the_next_task_starts_from_the_notes_and_the_issue_is_done_by_the_verified_commit(place):
    place.lay_out()
    verified = place.work()
    done = perform(place.app, Finalize(KEY))
    assert done.done
    assert done.code_ref == verified.anchor != head(place.remote, "main")


def test_a_document_that_is_there_is_continued(place):
    place.lay_out()
    commit(place.root, DOCUMENT, "# The shop\n\nBy hand.\n")
    git(place.root, "push", "--quiet", "origin", "main")
    state = place.work()
    text = place.shown(DOCUMENT)
    assert text.startswith("# The shop\n\nBy hand.\n\n## Update 20")
    assert re.search(rf"^## Update \d{{4}}-\d\d-\d\d \(verify_anchor: {state.anchor[:7]}\)$", text, re.MULTILINE)


def test_a_hook_that_refuses_the_notes_does_not_stop_the_change(place):
    place.lay_out()
    hook(
        place.root / ".git" / "hooks",
        "pre-commit",
        "git diff --cached --name-only | grep -q '^docs/' && exit 1; exit 0",
    )
    state = place.work()
    assert state.last_event == "verify_passed"
    assert head(place.remote, "main") == state.code_ref
    assert "Warning: promotion_failed: git refused the commit" in place.report()
    assert faults(place.app) == []


def test_an_outage_is_followed_by_one_push_of_the_same_notes(place):
    place.lay_out()
    proposal = propose(place.app, place.root / "SPEC.md")
    approve(place.app, proposal, proposal.name, "ada")
    perform(place.app, Run(KEY))
    url = git(place.root, "remote", "get-url", "origin")
    git(place.root, "remote", "set-url", "--push", "origin", "git://127.0.0.1:1/remote.git")
    failed = perform(place.app, Verify(KEY))
    assert (failed.last_event, failed.attempt_count) == ("verify_publication_failed", 1)
    kept = git(place.root, "for-each-ref", "--format=%(objectname)", "refs/irontree/issue-1/*-docs-*")
    git(place.root, "remote", "set-url", "--push", "origin", url)
    assert perform(place.app, Verify(KEY)).last_event == "verify_passed"
    assert place.pushes() == [kept]


def test_the_report_says_with_what_it_was_verified(place):
    place.lay_out()
    place.work()
    assert re.search(r"^- system: \w+", place.report(), re.MULTILINE)
    assert re.search(r"^- git: \d+\.\d+", place.report(), re.MULTILINE)


def test_no_text_shows_the_value_of_a_secret_variable(place):
    """Wherever it came from: here the agent says it."""
    place.lay_out(words="the key is correct-horse-battery")
    environment = {**os.environ, "SHOP_API_KEY": "correct-horse-battery"}
    place.app = open_app(place.root, origin=Origin("ada", "command"), cancel=Patience(), environment=environment)
    assert "correct-horse" not in repr(place.app)
    place.work()
    brief = (place.root / ".mino/briefs/issue-1.md").read_text()
    assert "- Notes: the agent says: the key is (secret)" in brief
    assert "correct-horse" not in brief + place.report() + place.shown(DOCUMENT)


def test_without_a_remote_the_local_branch_gets_both(place):
    place.lay_out()
    config = place.root / ".mino" / "config.yml"
    config.write_text(config.read_text().replace("  remote: origin\n", ""))
    git(place.root, "remote", "remove", "origin")
    git(place.root, "commit", "--quiet", "--all", "--message", "no remote")
    place.app = open_app(place.root, origin=Origin("ada", "command"), cancel=Patience())
    state = place.work()
    assert state.last_event == "verify_passed"
    assert git(place.root, "rev-parse", "main^") == state.code_ref
    assert (place.root / DOCUMENT).exists()
