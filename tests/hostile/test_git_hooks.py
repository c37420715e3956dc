"""The user's hooks run on what an agent wrote, and neither they nor it reach our git (R4)."""

from __future__ import annotations

import pytest

from irontree.ports import CommitRefused, Committed
from tests.support.repositories import git, head, hook, write


def test_hooks_never_see_the_agent_s_folder(attacked):
    """Not what git ignores in it, not its `.git`, nothing that the agent put beside its work."""
    attacked.act("git config core.fsmonitor $TRAP; mkdir cache; echo evil > cache/tool; echo done > work.txt")
    seen = attacked.outside.parent / "seen"
    hook(attacked.project.root / ".git" / "hooks", "pre-commit", f"(pwd; ls -A; git status) > '{seen}'")
    assert isinstance(attacked.commit(), Committed)
    attacked.assert_unharmed()
    place, *names = seen.read_text().splitlines()
    assert place == str(attacked.path.with_name("hooks"))
    assert "work.txt" in names
    assert "cache" not in names


def test_hooks_that_are_kept_in_the_repository_are_the_base_s(attacked):
    root = attacked.project.root
    hook(root / "githooks", "pre-commit", '. "$(dirname "$0")/rules"')
    write(root / "githooks", rules="echo policy says no; exit 1\n")
    git(root, "config", "core.hooksPath", "githooks")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--no-verify", "--message", "hooks")
    attacked.prepare()
    attacked.act("echo 'touch $TRAP.ran' > githooks/pre-commit; echo exit 0 > githooks/rules; echo done > work.txt")
    assert attacked.commit() == CommitRefused("policy says no\n")


def test_what_a_hook_does_to_its_git_folder_changes_nothing(attacked):
    """A hook may call what the agent wrote."""
    attacked.act("echo done > work.txt")
    plant = f"git config core.fsmonitor '{attacked.trap}'; ln -sf '{attacked.outside}/file' .git/info/exclude"
    lead = f"git config core.worktree '{attacked.outside}'; git config commit.gpgSign true"
    hook(attacked.project.root / ".git" / "hooks", "commit-msg", f"{plant}; {lead}; rm '{attacked.sprung}'; exit 0")
    base, made = attacked.base, attacked.commit()
    attacked.sprung.unlink(missing_ok=True)  # the hooks' own git may run it: what counts is what ours does from here on
    assert isinstance(made, Committed)
    assert made.files == ("work.txt",)
    assert git(attacked.project.store, "show", "--no-patch", "--format=%P", made.sha) == base
    attacked.project.repository.keep(made.sha, "refs/irontree/issue-1/2", source=attacked.project.run_workspace())
    attacked.prepare()
    attacked.assert_unharmed()


def test_a_message_that_is_a_link_is_not_read(attacked):
    attacked.act("echo done > work.txt")
    replace = f"rm -f .git/COMMIT_EDITMSG; ln -s '{attacked.outside}/file' .git/COMMIT_EDITMSG"
    hook(attacked.project.root / ".git" / "hooks", "commit-msg", replace)
    refused = attacked.commit()
    assert isinstance(refused, CommitRefused)
    assert "no message" in refused.output
    attacked.assert_unharmed()


def test_husky_hooks_are_made_by_set_up_and_run(attacked):
    """`.husky/_` is made and ignored; what it calls is in the repository."""
    root = attacked.project.root
    hook(root / ".husky", "pre-commit", "echo from husky; exit 1")
    write(root, **{".gitignore": "cache/\n.husky/_/\n.mino/\n"})
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "husky")
    git(root, "config", "core.hooksPath", ".husky/_")
    call = '#!/bin/sh\\nexec "$(dirname "$(dirname "$0")")/pre-commit"\\n'
    setup = f"mkdir -p .husky/_; printf '{call}' > .husky/_/pre-commit; chmod +x .husky/_/pre-commit"
    policy = attacked.project.run_workspace().policy.model_copy(update={"setup": (setup,)})
    workspace = attacked.project.run_workspace(policy)
    workspace.prepare(attacked.base)
    attacked.act("echo '#!/bin/sh' > .husky/pre-commit; echo done > work.txt")
    assert workspace.commit("[run] #1: work", base=attacked.base) == CommitRefused("from husky\n")


def test_a_merge_runs_the_hooks_of_merges(attacked):
    project = attacked.project
    ours, theirs = project.work(ours="1\n"), project.push_from_elsewhere()
    project.repository.base(project.target)
    hooks = project.root / ".git" / "hooks"
    hook(hooks, "pre-commit", "echo no commits here; exit 1")
    hook(hooks, "pre-merge-commit", "test -f .git/MERGE_HEAD && test -f ours && test -f elsewhere.txt")
    hook(hooks, "commit-msg", 'echo "Merged-by: hook" >> "$1"')
    merged = project.run_workspace().merge(ours, theirs, "Merge main into #1\n\nIrontree-Merge: t\n")
    assert git(project.store, "show", "--no-patch", "--format=%P", merged) == f"{ours} {theirs}"
    assert git(project.store, "show", "--no-patch", "--format=%(trailers:only,unfold)", merged).splitlines() == [
        "Irontree-Merge: t",
        "Merged-by: hook",
    ]


LATER = ("post-merge", "post-checkout", "post-index-change", "reference-transaction", "pre-push")


@pytest.mark.parametrize("where", ["githooks", "{root}/githooks", ".git/hooks"])
def test_no_hook_that_was_published_runs_when_the_checkout_follows(attacked, where):
    """Kept among the files, by a relative or a whole path; or links from git's own folder to files."""
    root = attacked.project.root
    for name in LATER:
        hook(root / "githooks", name, "exit 0")
    if where == ".git/hooks":
        (root / ".git" / "hooks").mkdir(exist_ok=True)
        for name in LATER:
            (root / ".git" / "hooks" / name).symlink_to(root / "githooks" / name)
    else:
        git(root, "config", "core.hooksPath", where.format(root=root))
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "hooks")
    git(root, "push", "--quiet", "origin", "main")
    for number, published in enumerate(("githooks", "more")):
        attacked.prepare()
        evil = "; ".join(f"cp $TRAP githooks/{name}" for name in LATER)
        attacked.act(f"{evil}; echo {number} > {published}.txt")
        made = attacked.commit()
        attacked.kept(made.sha)
        attacked.project.repository.publish(made.sha, attacked.project.target)
        assert head(root) == made.sha
    attacked.assert_unharmed()


def test_what_the_users_own_post_merge_would_do_with_published_files_is_left_to_the_user(attacked):
    """Often it installs what the files name, and so runs their scripts."""
    root = attacked.project.root
    hook(root / ".git" / "hooks", "post-merge", f". ./install; touch '{attacked.sprung}'")
    attacked.act("echo 'echo evil' > install")
    made = attacked.commit()
    attacked.kept(made.sha)
    attacked.project.repository.publish(made.sha, attacked.project.target)
    assert head(root) == made.sha
    attacked.assert_unharmed()
