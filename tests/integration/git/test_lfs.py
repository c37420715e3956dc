"""Real Git LFS: what an attempt puts there is checked, published and in the user's checkout, and survives a kill."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from irontree.domain.plan import WorkspacePolicy
from irontree.ports import Published
from tests.support.repositories import Project, commit, git, head, write
from tests.support.soak import in_soak

pytestmark = [
    in_soak,
    pytest.mark.skipif(not shutil.which("git-lfs"), reason="Git LFS is not installed here: apt-get install git-lfs"),
]
LFS = WorkspacePolicy(filters=("lfs",))
BIG = "".join(f"line {number}\n" for number in range(100_000))


@pytest.fixture
def stored(project) -> Project:
    """A project that keeps *.bin in Git LFS, one such file pushed; its remote keeps large files beside it."""
    git(project.root, "remote", "set-url", "origin", f"file://{project.remote}")
    git(project.root, "lfs", "install", "--local")
    git(project.root, "lfs", "track", "*.bin")
    git(project.root, "add", ".gitattributes")
    commit(project.root, "old.bin", "old\n")
    git(project.root, "push", "--quiet", "origin", "main")
    return project


def work(project: Project) -> str:
    workspace = project.run_workspace(LFS)
    workspace.prepare(head(project.root))
    assert (workspace.path / "old.bin").read_text() == "old\n", "an agent sees content, no pointer"
    write(workspace.path, **{"big.bin": BIG, "old.bin": "new\n"})
    made = workspace.commit("[run] #1: work", base=head(project.root))
    assert set(made.files) == {"big.bin", "old.bin"}
    project.repository.keep(made.sha, "refs/irontree/issue-1/2", source=workspace)
    assert project.show(made.sha, "big.bin").startswith("version https://git-lfs"), "the commit has the pointer"
    return made.sha


def test_a_large_file_is_checked_published_and_in_the_users_checkout(stored, tmp_path):
    sha = work(stored)
    checked = stored.repository.workspace("verify", LFS)
    checked.prepare(sha)
    assert (checked.path / "big.bin").read_text() == BIG
    assert stored.repository.publish(sha, stored.target, onto=head(stored.root)) == Published(sha)
    assert (stored.root / "big.bin").read_text() == BIG
    assert git(stored.root, "status", "--porcelain") == ""
    git(tmp_path, "clone", "--quiet", f"file://{stored.remote}", "another")
    git(tmp_path / "another", "lfs", "install", "--local")
    git(tmp_path / "another", "lfs", "pull")
    assert (tmp_path / "another/big.bin").read_text() == BIG, "the remote has the content"


@pytest.mark.parametrize("mine", [False, True], ids=["alone", "and the user"])
def test_a_checkout_that_was_moved_by_half_is_told_by_content_and_not_by_pointers(stored, mine):
    before, sha = head(stored.root), work(stored)
    record = stored.root / ".git/irontree/move.json"
    record.parent.mkdir(exist_ok=True)
    move = {"worktree": str(stored.root), "branch": "refs/heads/main", "before": before, "after": sha}
    record.write_text(json.dumps(move))
    (stored.root / "old.bin").write_text("new\n")
    (stored.root / "big.bin").write_text("mine\n" if mine else BIG[:5000])
    with stored.repository.driven():
        pass
    assert head(stored.root) == (before if mine else sha)
    assert git(stored.root, "status", "--porcelain") == ("?? big.bin" if mine else "")
    assert Path(stored.root / "old.bin").read_text() == ("old\n" if mine else "new\n")
    assert Path(stored.root / "big.bin").read_text() == ("mine\n" if mine else BIG)
