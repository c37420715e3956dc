"""A user's repository with a bare remote, a tiny agent, and the command line as a person types it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.cli.main import main
from irontree.services.planning.approve import approve, propose
from irontree.services.planning.publish import publish
from tests.support.repositories import git
from tests.support.store import StillClock

AGENT = """\
#!/bin/sh
# Appends to a file; refuses to start a second attempt unless it was told why the first one failed.
grep -q 'make it longer' && echo longer >> "$IRONTREE_TASK_KEY.txt"
echo "attempt $IRONTREE_ATTEMPT" >> "$IRONTREE_TASK_KEY.txt"
echo "agent at work on $IRONTREE_TASK_KEY"
"""
CONFIG = """\
agent:
  command: [{agent}]
verify:
  commands: [{{name: tests, run: test ! -e broken}}]
publish:
  remote: origin
  target_branch: main
run:
  max_retry_count: 1
"""
SPEC = """\
# Texts

## First text

- [ ] It is there (check: tests)

## Parts

### Second text

Depends on: First text

- [ ] It reads well (manual)
"""


@dataclass(frozen=True)
class Typed:
    """What came of a command line."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Shell:
    """Types command lines in the repository at *root*; *remote* is its bare remote."""

    root: Path
    remote: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> Typed:
        self.capsys.readouterr()
        code = main(["-C", str(self.root), *words])
        shown = self.capsys.readouterr()
        return Typed(code, shown.out, shown.err)

    def publish(self, spec: str = SPEC) -> None:
        """Approve a document and publish its issues, nothing more."""
        (self.root / "SPEC.md").write_text(spec)
        git(self.root, "add", "SPEC.md")
        git(self.root, "commit", "--quiet", "--message", "requirements")
        git(self.root, "push", "--quiet", "origin", "main")
        # Approved a while ago: two approvals within one second have no order.
        app = replace(open_app(self.root, origin=Origin("Test Author")), clock=StillClock())
        proposal = propose(app, self.root / "SPEC.md")
        with app.driver.hold("publish"):
            publish(app, approve(app, proposal, proposal.revision, "Test Author"))

    def configure(self, text: str) -> None:
        (self.root / ".mino" / "config.yml").write_text(text)


@pytest.fixture
def bare_shell(tmp_path, capsys) -> Shell:
    """A repository with one commit that irontree does not know yet."""
    root, remote = tmp_path / "project", tmp_path / "remote.git"
    root.mkdir()
    git(tmp_path, "init", "--quiet", "--bare", str(remote))
    git(root, "init", "--quiet")
    (root / "README.md").write_text("hello\n")
    git(root, "add", "README.md")
    git(root, "commit", "--quiet", "--message", "first")
    git(root, "remote", "add", "origin", str(remote))
    git(root, "push", "--quiet", "origin", "main")
    return Shell(root, remote, capsys)


@pytest.fixture
def shell(bare_shell, tmp_path) -> Shell:
    """Set up, with an agent; #1 First text, #2 Parts, and #3 Second text in it are published."""
    agent = tmp_path / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    assert bare_shell("init").code == 0
    bare_shell.configure(CONFIG.format(agent=agent))
    bare_shell.publish()
    return bare_shell
