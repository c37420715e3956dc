"""A reviewer that is a real program, on a real repository (R18)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.domain.decide import Run, Verify
from irontree.services.answers.approve import approve
from irontree.services.execution.steps import perform
from irontree.services.proposals.sources import propose
from irontree.services.record import read_world
from tests.integration.crash.laboratory import lay_out
from tests.support.repositories import git

SPEC = """\
# Toy

## Greeting

- [ ] it says hello
- [ ] the file is there `$ test -f greet.txt`
"""
AGENT = "echo hello > greet.txt; mkdir folder; echo hello > folder/x; printf 'hello\\377\\0' > binary"
EVIDENCE = [{"file": "greet.txt", "line": 1, "quote": "hello"}]
REVIEWER = """\
#!/bin/sh
cat > "$(dirname "$0")/prompt"
echo defaced > greet.txt
{also}
git diff --name-only HEAD~1 HEAD > "$(dirname "$0")/seen"
cat > "$IRONTREE_VERDICT_FILE" <<'END'
{verdict}
END
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def attempt(place: Path, verdict: dict[str, object], also: str = ":") -> App:
    program = place / "critic"
    program.write_text(REVIEWER.replace("{verdict}", json.dumps(verdict)).replace("{also}", also))
    program.chmod(0o755)
    settings = f"verify:\n  reviewers:\n  - {{name: critic, command: [{program}]}}\n"
    app = open_app(lay_out(place, AGENT, SPEC, settings), origin=Origin("ada", "command"))
    proposal = propose(app, app.repository.root / "SPEC.md")
    approve(app, proposal, proposal.name, "ada")
    perform(app, Run("greeting"))
    perform(app, Verify("greeting"))
    return app


def test_a_cited_criterion_is_covered_and_the_commit_is_published_as_it_was(place: Path):
    criteria = [{"criterion": 1, "met": True, "evidence": EVIDENCE}]
    app = attempt(place, {"verdict": "approve", "criteria": criteria})
    assert read_world(app).states["greeting"].last_event == "verify_passed"
    assert git(place / "remote.git", "show", "main:greet.txt").strip() == "hello"
    assert (place / "seen").read_text().split() == ["binary", "folder/x", "greet.txt"]
    report = (app.repository.root / ".mino" / "reports" / "issue-1" / "report.md").read_text()
    assert "covered by `greet.txt:1 (critic)`" in report
    assert "| review: critic | review by critic | passed |" in report


def test_what_it_objects_to_is_not_published(place: Path):
    app = attempt(place, {"verdict": "request_changes", "findings": [{"text": "greet by name"}]})
    assert read_world(app).states["greeting"].last_event == "verify_failed_retryable"
    assert "greet.txt" not in git(place / "remote.git", "ls-tree", "--name-only", "main")


def test_what_a_reviewer_leaves_reaches_no_check(place: Path):
    """Ignored files stay in a workspace from one use to the next."""
    app = attempt(place, {"verdict": "approve"}, "mkdir -p junk; echo 1 > junk/judge; echo junk > .gitignore")
    left = [path.parent.parent.name for path in (place / "cache").rglob("junk/judge")]
    assert left == ["review"]
    assert app.repository.workspace("verify", read_world(app).plans["greeting"].policy.workspace).path.name == "verify"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "folder", "binary", "-x", ":(top)greet.txt"])
def test_a_citation_that_git_cannot_follow_is_no_evidence(place: Path, path: str):
    evidence = [{"file": path, "quote": "hello"}]
    app = attempt(place, {"verdict": "approve", "criteria": [{"criterion": 1, "met": True, "evidence": evidence}]})
    state = read_world(app).states["greeting"]
    assert state.blocking_check == "no-review"
