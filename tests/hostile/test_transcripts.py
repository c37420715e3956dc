"""What is kept of agents: nothing that one leaves is opened for another, read as ours, or counted (R4).

Real git and real programs: an attempt, and the reviewer of its commit.
"""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.domain.decide import Run, Verify
from irontree.services.answers.approve import approve
from irontree.services.execution.steps import perform
from irontree.services.loops.funds import read_funds
from irontree.services.proposals.sources import propose
from irontree.services.record import read_world, reports
from irontree.store.archive import files_to_pack
from irontree.store.layout import Layout
from tests.integration.crash.laboratory import lay_out
from tests.support.containers import bubblewrap_place

SPEC = "# Toy\n\n## Greeting\n\n- [ ] it says hello `$ grep -q hello greet.txt`\n"
REVIEWER = '#!/bin/sh\ncat > /dev/null\necho looked\necho \'{"verdict": "approve"}\' > "$IRONTREE_VERDICT_FILE"\n'
PRECIOUS = "precious\n"
HERE = 'cd "$(dirname "$IRONTREE_PROMPT_FILE")"'
"""The folder that the agent is told of."""

PLANTS = {
    "the whole folder": "ln -s $OUTSIDE $name",
    "a round": "mkdir -p $name; ln -s $OUTSIDE $name/1",
    "each file": "mkdir -p $name/1; for file in prompt.md output.log result.json summary.txt;"
    " do ln -s $OUTSIDE/file $name/1/$file; done",
}
"""What is in the place of a review before it begins."""


@dataclass(frozen=True)
class Project:
    """A project with a reviewer, its task attempted and verified once."""

    app: App
    place: Path

    @property
    def kept(self) -> Path:
        return reports(self.app) / "issue-1"

    def assert_unharmed(self) -> None:
        assert {path.name: path.read_text() for path in (self.place / "outside").iterdir()} == {"file": PRECIOUS}
        assert read_world(self.app).states["greeting"].last_event == "verify_passed"


@pytest.fixture(params=["none", "bubblewrap"])
def attempted(request, tmp_path, monkeypatch):
    """Have an agent carry out a script beside its work, in such a place."""
    if request.param == "bubblewrap":
        bubblewrap_place()
    for folder in ("cache", "state"):
        monkeypatch.setenv(f"XDG_{folder.upper()}_HOME", str(tmp_path / folder))
    (outside := tmp_path / "outside").mkdir()
    (outside / "file").write_text(PRECIOUS)
    (critic := tmp_path / "critic").write_text(REVIEWER)
    critic.chmod(0o755)

    def attempt(script: str) -> Project:
        agent = f"echo hello > greet.txt; OUTSIDE={outside}; ROOT={tmp_path}/project; {script}"
        settings = (
            f"verify:\n  reviewers:\n  - {{name: critic, command: [{critic}]}}\nbudgets: {{issue: {{time: 2h}}}}\n"
        )
        root = lay_out(tmp_path, agent, SPEC, settings, sandbox=f"sandbox: {request.param}\n")
        app = open_app(root, origin=Origin("ada", "command"))
        proposal = propose(app, root / "SPEC.md")
        approve(app, proposal, proposal.name, "ada")
        perform(app, Run("greeting"))
        perform(app, Verify("greeting"))
        return Project(app, tmp_path)

    return attempt


@pytest.mark.parametrize("how", PLANTS)
def test_what_a_coder_plants_for_a_review_is_not_opened_for_the_reviewer(attempted, how):
    """It knows the names of the coming seconds, as they were and as they are."""
    names = "review-critic-$time reviews-0002/critic-$time"
    script = (
        f"{HERE}; mkdir -p reviews-0002; for second in $(seq 0 90); do"
        f' time=$(date -u -d "+$second seconds" +%Y%m%dT%H%M%SZ); for name in {names}; do {PLANTS[how]}; done; done'
    )
    project = attempted(script)
    project.assert_unharmed()
    (review,) = project.kept.glob("reviews-0002/critic-*/1")
    assert (review / "output.log").read_text() == "looked\n"
    assert not any(path.is_symlink() for path in (review, *review.parents, *review.iterdir()))


def test_what_an_agent_says_that_reviews_took_is_not_counted(attempted):
    result = '{"ended": "exited", "seconds": 7200, "usage": {}}'
    names = "review-ghost reviews-0002/ghost issue-1/reviews-0002/ghost"
    write = f"mkdir -p $name-20260422T150000Z/1; echo '{result}' > $name-20260422T150000Z/1/result.json"
    project = attempted(f"{HERE}; for name in {names}; do {write}; done")
    project.assert_unharmed()
    world = read_world(project.app)
    (budget,) = read_funds(project.app, world).of_issue(world.states["greeting"])
    assert (budget.spent < 600_000, budget.unread) == (True, 0)


LITTER = """\
mkdir -p .git/hooks deep/deep
for file in evil.test.js conftest.py Makefile .envrc .git/hooks/post-merge deep/deep/evil.test.js
do echo 'touch $OUTSIDE/sprung' > $file; done
echo "$TOKEN" > notes.txt
ln -s nowhere dangling
ln -s $OUTSIDE/file link
ln -s $OUTSIDE folder
mkfifo pipe
for file in prompt.md output.log result.json; do rm -f $file; ln -s $OUTSIDE/file $file; done
echo "done with $TOKEN" > summary.txt
"""
"""What the user's tools would run, follow or wait for, what no archive takes, and files in the place of ours."""


def test_of_what_an_agent_leaves_only_its_summary_is_kept_in_the_checkout(attempted):
    half = "a1B2" * 9
    project = attempted(f"TOKEN=ghp_; TOKEN=$TOKEN{half}; {HERE}\n{LITTER}")
    project.assert_unharmed()
    assert all(path.is_dir() or stat.S_ISREG(path.lstat().st_mode) for path in project.kept.rglob("*"))
    kept = {path.name: path.read_text() for path in (project.kept / "attempt-0002").iterdir()}
    assert kept.keys() == {"prompt.md", "output.log", "result.json", "summary.txt"}
    assert "it says hello" in kept["prompt.md"]
    assert json.loads(kept["result.json"])["ended"] == "exited"
    assert kept["summary.txt"].startswith("done with ")
    assert [name for name, text in kept.items() if f"ghp_{half}" in text] == []
    assert [*(project.place / "cache").rglob("irontree-agent-*")] == []
    assert len(dict(files_to_pack(Layout(project.app.repository.root)))) > len(kept), "it can be exported"


@pytest.mark.parametrize("attempted", ["bubblewrap"], indirect=True)
def test_what_is_kept_of_an_agent_is_out_of_its_reach_in_the_sandbox(attempted):
    project = attempted("touch $ROOT/.mino/reports/issue-1/attempt-0002/evil.test.js; ls $ROOT; true")
    project.assert_unharmed()
    assert not (project.kept / "attempt-0002" / "evil.test.js").exists()
    assert "SPEC.md" not in (project.kept / "attempt-0002" / "output.log").read_text()
