"""What an earlier version left at work goes on: its log replays, and open approvals are asked again, with the reason.

`tests/data/upgrade` is a `.mino/` as the version before names of 16 digits wrote it, and the history of its repository.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.domain.state import Phase
from irontree.errors import ApprovalRefused
from irontree.services.answers.answers import Answer
from irontree.services.answers.comments import look
from irontree.services.consistency.audit import audit
from irontree.services.loops.loop import open_loops
from irontree.services.proposals.sources import propose
from irontree.services.questions.pages import question_text
from irontree.services.record import read_world
from tests.support.repositories import git
from tests.support.world import accepts, drive

DATA = Path(__file__).parents[1] / "data" / "upgrade"
EARLIER_NAME = "f8263319-8186c0bb"


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    for name in ("CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    made = tmp_path / "project"
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(tmp_path, "init", "--quiet", "project")
    subprocess.run(["git", "fast-import", "--quiet"], cwd=made, input=(DATA / "history.txt").read_bytes(), check=True)
    git(made, "reset", "--quiet", "--hard", "main")
    git(made, "remote", "add", "origin", "../remote.git")
    git(made, "push", "--quiet", "origin", "main")
    shutil.copytree(DATA / "mino", made / ".mino", dirs_exist_ok=True)
    shutil.copy(DATA / "SPEC.md", made)
    for key, value in {"id": "de6f13ff3e86", "home": f"{socket.gethostname()}:{made}", "events": "yes"}.items():
        git(made, "config", f"irontree.{key}", value)
    return made


def opened(root: Path, sandbox: str = "none") -> App:
    config = root / ".mino" / "config.yml"
    config.write_text(f"{(DATA / 'mino' / 'config.yml').read_text()}sandbox: {sandbox}\n")
    return open_app(root, origin=Origin("ada", "command"))


def test_it_replays_and_is_sound(root):
    app = opened(root)
    world = read_world(app)
    assert (world.problems, audit(app)) == ((), ())
    assert {key: state.phase for key, state in world.states.items()} == {
        "greeting": Phase.DONE,
        "picture": Phase.PENDING,
        "poem": Phase.STALE,
        "close": Phase.READY,
        "wish": Phase.ADOPTED,
    }


def test_an_issue_whose_approval_was_open_is_asked_about_by_its_name_of_now(root):
    app = opened(root)
    look(app)
    asked = app.forge().comments(9)[-1].body
    name = next(word for word in asked.replace("`", " ").split() if len(word) == 16 and word.isalnum())
    assert f"/approve {name}" in asked


def test_a_name_that_it_showed_is_refused_in_words(root):
    with pytest.raises(ApprovalRefused, match="a name as earlier versions gave it"):
        propose(opened(root), root / "SPEC.md").require_named(EARLIER_NAME)


def test_the_loop_goes_on_once_the_picture_is_accepted_and_the_poem_is_approved_again(root):
    app = opened(root)
    [loop] = open_loops(app)
    refused = []

    def person(question):
        if question.rule.reason == "pending_acceptance":
            return accepts("fine")
        assert question.rule.reason == "reapproval_required"
        assert "“Poem” in SPEC.md is not what was approved" in question_text(app, question)
        refused.append(question)
        return Answer("approve", "ada", revision=propose(app, root / "SPEC.md").name)

    assert drive(app, loop.id, person).reason == "goal_reached"
    assert refused
    assert audit(app) == ()
    assert "close.txt" in git(root.parent / "remote.git", "ls-tree", "--name-only", "main").splitlines()
