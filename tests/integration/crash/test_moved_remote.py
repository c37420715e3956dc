"""Somebody pushes to the real remote between verification and publication, or it is not there (R5, R14)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.domain.decide import Run, Verify
from irontree.domain.state import Phase, TaskState
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.answers.approve import approve
from irontree.services.execution.steps import perform
from irontree.services.proposals.sources import propose
from tests.integration.crash.laboratory import faults, lay_out
from tests.support.repositories import commit, git, head, hook
from tests.support.watching import Watched
from tests.support.world import Patience

KEY = "greeting"
SPEC = """\
# Toy

## Greeting

- [ ] it says hello, in peace `$ grep -q hello greet.txt && ! test -e loud.txt`
"""
MANUAL = f"{SPEC}- [ ] it is friendly (manual)\n"


@dataclass
class Place:
    """A project with one task, and somebody else who works on the same remote."""

    folder: Path

    @property
    def remote(self) -> Path:
        return self.folder / "remote.git"

    def lay_out(self, spec: str = SPEC, settings: str = "") -> None:
        self.root = lay_out(self.folder, "echo hello > greet.txt", spec, settings)
        self.app = open_app(self.root, origin=Origin("ada", "command"), cancel=Patience())
        proposal = propose(self.app, self.root / "SPEC.md")
        approve(self.app, proposal, proposal.name, "ada")

    def push(self, path: str, text: str) -> str:
        """Somebody else publishes a change; the remote's new tip."""
        other = self.folder / "other"
        if not other.is_dir():
            git(self.folder, "clone", "--quiet", "remote.git", "other")
        git(other, "pull", "--quiet", "--ff-only")
        tip = commit(other, path, text, "from elsewhere")
        git(other, "push", "--quiet", "origin", "HEAD:main")
        return tip

    def verify_while(self, path: str, text: str) -> TaskState:
        """Verify, and have that pushed after the checks and just before our own push."""
        return perform(self.while_somebody_pushes(path, text), Verify(KEY))

    def while_somebody_pushes(self, path: str, text: str) -> App:
        left = [True]

        def tell(_: str, side: str) -> None:
            if side == "before" and left:
                left.clear()
                self.push(path, text)

        return replace(self.app, repository=Watched(self.app.repository, ["publish"], tell))

    def state(self) -> TaskState:
        return self.app.replays.all()[1].replay.state

    def published(self) -> set[str]:
        return set(git(self.remote, "ls-tree", "-r", "--name-only", "main").splitlines())


@pytest.fixture
def place(tmp_path) -> Iterator[Place]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        yield Place(tmp_path)


def test_the_change_is_merged_checked_and_published(place):
    place.lay_out()
    perform(place.app, Run(KEY))
    state = place.verify_while("elsewhere.txt", "theirs\n")
    assert state.last_event == "verify_passed"
    assert head(place.remote, "main") == state.code_ref == state.anchor != state.commit
    assert {"greet.txt", "elsewhere.txt"} <= place.published()
    assert (place.root / "elsewhere.txt").exists(), "the user's own branch follows"
    assert place.app.results.load(1, state.anchor).failed is None
    assert faults(place.app) == []


def test_work_starts_from_what_others_have_published_by_then(place):
    place.lay_out()
    tip = place.push("elsewhere.txt", "theirs\n")
    assert perform(place.app, Run(KEY)).base_sha == tip
    perform(place.app, Verify(KEY))
    assert git(place.remote, "log", "--format=%s", "main").splitlines()[:2] == ["[run] #1: Greeting", "from elsewhere"]


def test_what_fails_only_together_is_done_again_on_top_of_the_others_work(place):
    place.lay_out()
    perform(place.app, Run(KEY))
    state = place.verify_while("loud.txt", "LOUD\n")
    tip = head(place.remote, "main")
    assert (state.last_event, state.base_sha) == ("verify_failed_retryable", tip)
    state = perform(place.app, Run(KEY))
    assert git(place.root, "show", "--no-patch", "--format=%P", state.commit) == tip
    assert faults(place.app) == []


def test_a_target_that_is_red_by_itself_blocks_until_it_is_put_right(place):
    place.lay_out(settings="verify:\n  commands:\n    - name: quiet\n      run: '! test -e broken.txt'\n")
    perform(place.app, Run(KEY))
    state = place.verify_while("broken.txt", "x\n")
    assert (state.phase, state.blocking_check) == (Phase.BLOCKED, "target-broken")
    git(place.folder / "other", "rm", "--quiet", "broken.txt")
    git(place.folder / "other", "commit", "--quiet", "--message", "put right")
    git(place.folder / "other", "push", "--quiet", "origin", "HEAD:main")
    answer_issue(place.app, 1, Answer("go-on", "ada"))
    assert perform(place.app, Verify(KEY)).last_event == "verify_passed"


def test_a_conflict_blocks_and_the_work_is_done_again_on_the_new_tip(place):
    place.lay_out()
    perform(place.app, Run(KEY))
    state = place.verify_while("greet.txt", "good day\n")
    assert (state.phase, state.blocking_check) == (Phase.BLOCKED, "merge-conflict")
    answer_issue(place.app, 1, Answer("go-on", "ada"))
    perform(place.app, Run(KEY))
    state = perform(place.app, Verify(KEY))
    assert state.last_event == "verify_passed"
    assert git(place.remote, "log", "--format=%s", "main").splitlines() == [
        *("[run] #1: Greeting", "from elsewhere", "first"),
    ]


def test_an_acceptance_holds_for_the_merge_too(place):
    place.lay_out(MANUAL)
    perform(place.app, Run(KEY))
    pending = perform(place.app, Verify(KEY))
    state = answer_issue(place.while_somebody_pushes("elsewhere.txt", "theirs\n"), 1, Answer("accept", "ada"))
    assert (state.last_event, state.code_ref) == ("checkup_accept_recorded", head(place.remote, "main"))
    assert place.app.log.read(1).records[-1].meta["accepted_sha"] == pending.anchor
    assert {"greet.txt", "elsewhere.txt"} <= place.published()


def test_a_remote_that_is_gone_blocks_and_is_published_to_once_it_is_back(place):
    place.lay_out()
    perform(place.app, Run(KEY))
    place.remote.rename(place.folder / "away.git")
    state = perform(place.app, Verify(KEY))
    assert (state.phase, state.blocking_check) == (Phase.BLOCKED, "remote-not-found")
    place.folder.joinpath("away.git").rename(place.remote)
    answer_issue(place.app, 1, Answer("go-on", "ada"))
    assert perform(place.app, Verify(KEY)).last_event == "verify_passed"


def test_new_work_waits_for_a_remote_that_is_gone(place):
    place.lay_out()
    place.remote.rename(place.folder / "away.git")
    state = perform(place.app, Run(KEY))
    assert (state.phase, state.blocking_check, state.runs_started) == (Phase.BLOCKED, "remote-not-found", 0)


def test_a_protected_branch_blocks_at_once(place):
    place.lay_out()
    perform(place.app, Run(KEY))
    hook(place.remote / "hooks", "pre-receive", "echo 'protected branch hook declined'; exit 1")
    state = perform(place.app, Verify(KEY))
    assert state.phase is Phase.BLOCKED
    assert place.app.cancel.pauses == []
    assert "protected branch hook declined" in place.app.log.read(1).records[-1].meta["reason"]
