"""A user's repository with a bare remote, a tiny agent, and the command line as a person types it."""

from __future__ import annotations

import io
import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.cli.main import main
from irontree.flows.server.connection import ServerState, state_folder
from irontree.repository import GitRepository
from irontree.services.execution.publish import publish
from irontree.services.proposals.sources import propose
from tests.support.approving import write_plan
from tests.support.gitea.server import GiteaServer, gitea_server
from tests.support.repositories import git
from tests.support.starts import Starter
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
TO_BE_JUDGED = (["run", "1"], ["verify", "1"], ["checkup", "finalize", "1"], ["run", "3"], ["verify", "3"])


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
    """Types command lines about the repository at *root*; *remote* is its bare remote.

    What they say is given as it would be told at the top of the repository, without `-C`.
    """

    root: Path
    remote: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> Typed:
        self.capsys.readouterr()
        code = main(["-C", str(self.root), *words])
        shown = self.capsys.readouterr()
        at_its_top = shown if "--json" in words else [text.replace(self._placed, "irontree ") for text in shown]
        return Typed(code, *at_its_top)

    @property
    def _placed(self) -> str:
        return f"irontree -C {self.root} "

    def publish(self, spec: str = SPEC) -> None:
        """Approve a document and publish its issues, nothing more."""
        publish_at(self.root, spec)

    def configure(self, text: str) -> None:
        (self.root / ".mino" / "config.yml").write_text(text)


def publish_at(root: Path, spec: str) -> None:
    (root / "SPEC.md").write_text(spec)
    git(root, "add", "SPEC.md")
    git(root, "commit", "--quiet", "--message", "requirements")
    git(root, "push", "--quiet", "origin", "main")
    # Approved a while ago: two approvals within one second have no order.
    app = replace(open_app(root, origin=Origin("Test Author")), clock=StillClock())
    proposal = propose(app, root / "SPEC.md")
    with app.driver.hold("publish"):
        publish(app, write_plan(app, proposal, proposal.name, "Test Author"))


# --- repositories, each made once and then copied ---------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def no_server_is_left() -> Iterator[None]:
    """One that a command started would be found by the commands of other tests, for a minute."""
    yield
    assert ServerState(state_folder()).address() is None


@pytest.fixture(scope="module")
def starter() -> Iterator[Starter]:
    """Starts commands as anew."""
    with Starter.ready() as starter:
        yield starter


@pytest.fixture(scope="session")
def bare_template(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bare-template")
    root, remote = folder / "project", folder / "remote.git"
    root.mkdir()
    git(folder, "init", "--quiet", "--bare", str(remote))
    git(root, "init", "--quiet")
    (root / "README.md").write_text("hello\n")
    git(root, "add", "README.md")
    git(root, "commit", "--quiet", "--message", "first")
    git(root, "remote", "add", "origin", str(remote))
    git(root, "push", "--quiet", "origin", "main")
    return folder


@pytest.fixture(scope="session")
def template(bare_template, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    copy(bare_template, folder)
    set_up_at(folder)
    return folder


@pytest.fixture(scope="session")
def judged_template(template, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("judged-template")
    copy(template, folder)
    with redirect_stdout(io.StringIO()):
        for words in TO_BE_JUDGED:
            main(["-C", str(folder / "project"), *words])
    shutil.copy(key_of_results(folder), folder / "results.key")
    return folder


def key_of_results(folder: Path) -> Path:
    """Where the repository in that folder keeps the key without which no result of a check is believed."""
    app = open_app(folder / "project", origin=Origin("Test Author"))
    assert isinstance(app.repository, GitRepository)
    return app.repository.state_folder / "results.key"


def set_up_at(folder: Path) -> None:
    root, agent = folder / "project", folder / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    with redirect_stdout(io.StringIO()):
        assert main(["-C", str(root), "init"]) == 0
    (root / ".mino" / "config.yml").write_text(CONFIG.format(agent=agent))
    publish_at(root, SPEC)


def copy(template: Path, folder: Path) -> None:
    """With an identity and a remote of its own; the agent is the template's, because its path is what was approved."""
    for name in ("project", "remote.git"):
        shutil.copytree(template / name, folder / name, symlinks=True)
    root = folder / "project"
    config = root / ".git" / "config"
    config.write_text(config.read_text().replace(str(template), str(folder)))
    if (root / ".mino").exists():
        git(root, "config", "irontree.id", uuid.uuid4().hex[:12])
    git(root, "status")  # the index knows the copied files by their new inodes


@pytest.fixture
def bare_shell(bare_template, tmp_path, capsys) -> Shell:
    """A repository with one commit that irontree does not know yet."""
    copy(bare_template, tmp_path)
    return Shell(tmp_path / "project", tmp_path / "remote.git", capsys)


@pytest.fixture
def shell(template, tmp_path, capsys) -> Shell:
    """Set up, with an agent; #1 First text, #2 Parts, and #3 Second text in it are published."""
    copy(template, tmp_path)
    return Shell(tmp_path / "project", tmp_path / "remote.git", capsys)


@pytest.fixture
def judged(judged_template, tmp_path, capsys) -> Shell:
    """The same, where #3 Second text waits for acceptance."""
    copy(judged_template, tmp_path)
    key = key_of_results(tmp_path)
    key.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(judged_template / "results.key", key)
    return Shell(tmp_path / "project", tmp_path / "remote.git", capsys)


@pytest.fixture
def shell_with_own_agent(bare_shell, tmp_path) -> Shell:
    """The same, made for this test alone: it may change the agent beside it."""
    set_up_at(tmp_path)
    return bare_shell


@pytest.fixture
def gitea() -> Iterator[GiteaServer]:
    """A Gitea with one repository, in which we may write."""
    with gitea_server(lambda: datetime.now(UTC), prefix="/forge") as running:
        running.contents.account("irontree", "write")
        yield running


@pytest.fixture
def on_gitea(bare_shell, gitea: GiteaServer, monkeypatch):
    """The shell in a repository that is set up for the double."""
    monkeypatch.setenv("GITEA_TOKEN", "token-of-irontree")
    (bare_shell.root / ".mino").mkdir()
    (bare_shell.root / ".mino/config.yml").write_text(
        "agent:\n  command: agent\nverify:\n  commands: [{name: tests, run: 'true'}]\n"
        f"forge:\n  adapter: gitea\n  url: {gitea.url}\n  repository: palms/iron\n"
    )
    done = bare_shell("init")
    assert done.code == 0, done.err
    assert f"issues go to {gitea.url}/palms/iron as irontree, who may write" in done.out
    return bare_shell
