"""What an agent does to the `.git` of its workspace changes nothing of what we do: it is not read (R4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.ports import Committed
from tests.support.repositories import commit, git, head, write

FOLDER = {
    "commondir": "cp -r .git ../evil; git -C ../evil config core.fsmonitor $TRAP; echo ../../evil > .git/commondir",
    "link for .git": "mv .git $OUTSIDE/git; ln -s $OUTSIDE/git .git; git config core.fsmonitor $TRAP",
    "link to the user's .git": "rm -rf .git; ln -s $ROOT/.git .git",
    "file for .git": "mv .git ../evil; echo gitdir: ../evil > .git; git config core.fsmonitor $TRAP",
    "link for config": "rm .git/config; ln -s $OUTSIDE/config .git/config",
    "link for info": "rm -rf .git/info; ln -s $OUTSIDE .git/info",
    "link for refs": "rm -rf .git/refs; ln -s $OUTSIDE .git/refs",
    "link for objects": "rm -rf .git/objects; ln -s $ROOT/.git/objects .git/objects",
    "link for index": "rm -f .git/index; ln -s $OUTSIDE/file .git/index",
    "pipe for HEAD": "rm .git/HEAD; mkfifo .git/HEAD",
    "hooks": "for name in pre-commit commit-msg reference-transaction post-index-change; do"
    " cp $TRAP .git/hooks/$name; done",
    "hooks path": "git config core.hooksPath $OUTSIDE; git config commit.gpgSign true; git config gpg.program $TRAP",
    "filter": "for kind in clean smudge process; do git config filter.x.$kind $TRAP; done; "
    "echo '* filter=x' > .git/info/attributes",
    "fsmonitor": "git config core.fsmonitor $TRAP",
    "worktree": "git config core.worktree $OUTSIDE",
    "include": "printf '[core]\\n\\tfsmonitor = %s\\n' $TRAP > ../evil; git config include.path ../../evil",
    "ssh command": "git config core.sshCommand $TRAP; git config protocol.ext.allow always",
    "alias": "git config alias.add '!'$TRAP; git config alias.status '!'$TRAP",
    "excludes": "git config core.excludesFile ../all; echo '*' > ../all; echo '*' > .git/info/exclude",
    "alternates": "mkdir ../evil; echo $PWD/../evil > .git/objects/info/alternates",
    "replaced": "git replace HEAD $(git commit-tree -m lie $(git mktree < /dev/null))",
    "grafted": "git rev-parse HEAD > .git/info/grafts; git rev-parse HEAD > .git/shallow",
    "unborn": "git checkout --quiet --orphan other; rm -f .git/index",
}


def facts(workspace: Path) -> dict[str, tuple[int, int]]:
    """When each file in its `.git` was written, and how long it is; links are not followed."""
    git_dir = workspace / ".git"
    found = (git_dir, *(git_dir.rglob("*") if git_dir.is_dir() and not git_dir.is_symlink() else ()))
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in found}


@pytest.mark.parametrize("script", FOLDER.values(), ids=FOLDER)
def test_what_is_done_to_the_git_folder_changes_nothing(attacked, script):
    attacked.act(f"{script}; echo done > work.txt; echo changed > app.py")
    base, before = attacked.base, facts(attacked.path)
    made = attacked.commit()
    attacked.assert_unharmed()
    assert facts(attacked.path) == before, "it is not repaired or written either"
    assert isinstance(made, Committed)
    assert set(made.files) == {"app.py", "work.txt"}
    assert attacked.kept(made.sha)("work.txt") == "done"
    assert git(attacked.project.root, "show", "--no-patch", "--format=%P", made.sha) == base
    attacked.prepare()
    attacked.assert_unharmed()
    assert git(attacked.path, "status", "--porcelain") == ""
    assert not (attacked.path / ".git").is_symlink()


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_a_flag_in_the_index_hides_no_change(attacked, flag):
    attacked.act(f"git update-index {flag} app.py; echo hidden > app.py")
    made = attacked.commit()
    assert attacked.kept(made.sha)("app.py") == "hidden"


def test_a_forged_time_hides_no_change(attacked):
    attacked.act("touch -r app.py ../time; printf 'print(\"HELLO\")\\n' > app.py; touch -r ../time app.py")
    made = attacked.commit()
    assert attacked.kept(made.sha)("app.py") == 'print("HELLO")'


def test_it_works_without_the_user_s_git_folder(attacked):
    path, root = attacked.path, attacked.project.root
    commit(root, "app.py", "print('hello again')\n", "second")
    git(root, "tag", "v1.0")
    attacked.act("rm -rf .git")
    attacked.prepare()
    (root / ".git").rename(root / "away")
    write(path, **{"app.py": "changed\n"})
    assert "+changed" in git(path, "diff")
    assert "+print" in git(path, "log", "-p")
    assert git(path, "describe", "--tags") == "v1.0"
    git(path, "commit", "--quiet", "--all", "--message", "mine")
    assert git(path, "log", "--format=%an %s") == "Test Author mine\nTest Author second\nTest Author first"


def test_it_names_no_path_and_no_key_of_the_user_s(attacked):
    root = attacked.project.root
    for key in ("user.signingKey", "gpg.program", "http.extraHeader", "credential.helper"):
        git(root, "config", key, "SECRET")
    attacked.prepare()
    text = b"".join(path.read_bytes() for path in (attacked.path / ".git").rglob("*") if path.is_file())
    assert b"SECRET" not in text
    assert str(root).encode() not in text


def test_it_holds_nothing_but_what_its_base_builds_on(attacked):
    """Neither another branch of the user's nor the work of another issue."""
    root, project = attacked.project.root, attacked.project
    git(root, "switch", "--quiet", "--create", "private")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "private")
    private = head(root)
    git(root, "switch", "--quiet", "main")
    other = project.work(other="another issue\n")
    verify = project.repository.workspace("verify", project.run_workspace().policy)
    verify.prepare(other)
    assert git(verify.path, "log", "-1", "--format=%H") == other
    attacked.prepare()
    for sha in (private, other):
        assert git(attacked.path, "cat-file", "-t", sha, check=False) == ""


def test_the_files_of_an_earlier_attempt_can_be_looked_at(attacked):
    project, base = attacked.project, attacked.base
    earlier = project.work(half="half\n")
    project.run_workspace().prepare(base, tree_of=earlier)
    assert git(attacked.path, "diff", "--cached", "--name-only") == "half"
    assert "+half" in git(attacked.path, "diff", "--cached")
