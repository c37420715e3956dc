"""A workspace stands exactly where it should, whatever happened in it before (R4)."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from dataclasses import replace

import pytest

from irontree.domain.plan import WorkspacePolicy
from irontree.errors import Cancelled, ConfigRefused, EnvironmentRefused
from irontree.ports import Committed
from irontree.repository import open_repository
from tests.support.repositories import PLAIN, commit, git, head, hook, write


@pytest.fixture
def workspace(project):
    made = project.run_workspace()
    made.prepare(head(project.root), owner="issue-1")
    return made


def clean(workspace) -> bool:
    return git(workspace.path, "status", "--porcelain") == ""


def test_it_stands_outside_the_repository_in_the_cache(project, workspace):
    assert workspace.path == project.cache / "irontree" / project.repository.id / "run"
    assert project.repository.workspace("verify", PLAIN).path == workspace.path.parent / "verify"


def test_other_users_of_the_machine_cannot_look_into_it(workspace):
    assert workspace.path.stat().st_mode & 0o077 == 0


def test_a_cache_inside_the_repository_is_refused(project):
    """Node would find the packages of the repository around it."""
    inside = project.root / ".cache"
    with pytest.raises(EnvironmentRefused, match="inside the repository"):
        replace(project.repository, cache_root=inside).workspace("run", PLAIN)


def test_a_file_in_place_of_the_cache_is_refused_in_words(project):
    project.cache.write_text("a file\n")
    with pytest.raises(EnvironmentRefused, match=f"{project.cache}: not a folder, and one has to be there"):
        project.run_workspace().prepare(head(project.root))


def test_it_has_no_remote_no_branch_and_no_objects_of_its_own(workspace):
    assert git(workspace.path, "remote") == ""
    assert git(workspace.path, "for-each-ref", "refs/heads", "refs/remotes") == ""
    assert git(workspace.path, "count-objects") == "0 objects, 0 kilobytes"


def test_it_has_the_tags_that_version_tools_look_for(project):
    git(project.root, "tag", "v1.2")
    workspace = project.run_workspace()
    workspace.prepare(head(project.root))
    assert git(workspace.path, "describe", "--tags") == "v1.2"


def test_leftovers_go_and_ignored_caches_stay(project, workspace):
    write(workspace.path, **{"app.py": "broken\n", "junk.txt": "junk\n", "run.log": "log\n"})
    (workspace.path / "cache").mkdir()
    write(workspace.path / "cache", big="cached\n")
    git(workspace.path, "init", "--quiet", "nested")
    workspace.prepare(head(project.root), owner="issue-1")
    assert sorted(path.name for path in workspace.path.iterdir()) == [
        ".git",
        ".gitignore",
        "app.py",
        "cache",
        "run.log",
    ]
    assert (workspace.path / "app.py").read_text() == "print('hello')\n"


def test_pristine_means_without_caches(project, workspace):
    write(workspace.path, **{"run.log": "log\n"})
    project.run_workspace(WorkspacePolicy(pristine=True)).prepare(head(project.root), owner="issue-1")
    assert not (workspace.path / "run.log").exists()


def test_the_files_of_one_commit_can_stand_on_another(project, workspace):
    base = head(project.root)
    earlier = project.work(base, half="half\n")
    workspace.prepare(base)
    assert not (workspace.path / "half").exists()
    workspace.prepare(base, tree_of=earlier)
    assert (workspace.path / "half").exists()
    assert head(workspace.path) == base
    assert git(workspace.path, "diff", "--cached", "--name-only") == "half"


def test_a_commit_made_after_the_workspace_is_found(project, workspace):
    later = commit(project.root, "later.txt", "later\n")
    workspace.prepare(later)
    assert (workspace.path / "later.txt").exists()


@pytest.mark.parametrize(
    "harm",
    [
        "touch .git/index.lock .git/HEAD.lock .git/config.lock",
        "rm -rf .git",
        "rm -rf .git; git init --quiet .",
        "rm -rf .git; ln -s ../../../../project/.git .git",
        "rm .git/HEAD",
        "rm -rf .git/objects",
        "echo rubbish > .git/index",
        "echo rubbish > .git/config",
        "git checkout --quiet --orphan elsewhere",
        "git switch --quiet --create mine; git commit --quiet --allow-empty --message mine",
        "git replace HEAD $(git commit-tree -m lie HEAD^{tree})",
        "rm -rf ../run",
    ],
)
def test_it_is_put_right_after(project, workspace, harm):
    before = git(project.root, "for-each-ref")
    os.system(f"cd '{workspace.path}' && ({harm}) 2>/dev/null")
    workspace.prepare(head(project.root))
    assert head(workspace.path) == head(project.root)
    assert clean(workspace)
    assert (workspace.path / "app.py").read_text() == "print('hello')\n"
    assert git(workspace.path, "remote") == ""
    assert not (workspace.path / ".git").is_symlink()
    assert git(project.root, "for-each-ref") == before


def test_without_its_git_folder_it_is_not_taken_for_a_part_of_the_repository_around_it(project, workspace):
    """People keep their home, and with it the cache, in git: nothing there may be reset or cleaned."""
    home = project.root.parent
    git(home, "init", "--quiet")
    write(home, notes="precious\n")
    os.system(f"rm -rf '{workspace.path}/.git/objects'")
    workspace.prepare(head(project.root))
    assert (home / "notes").read_text() == "precious\n"
    assert clean(workspace)


@pytest.mark.parametrize("verb", ["merge", "rebase", "cherry-pick", "bisect start"])
def test_what_was_left_unfinished_is_put_away(project, workspace, verb):
    base = head(project.root)
    for name in ("theirs", "ours"):
        git(workspace.path, "switch", "--quiet", "--create", name, base)
        commit(workspace.path, "app.py", f"{name}\n")
    git(workspace.path, *verb.split(), "theirs", check=False)
    assert verb.split()[0].removesuffix("e").removesuffix("-pick") in git(workspace.path, "status")
    workspace.prepare(base)
    assert git(workspace.path, "status") == f"HEAD detached at {base[:7]}\nnothing to commit, working tree clean"


def test_a_lock_in_the_users_repository_is_not_ours_to_remove(project, workspace):
    lock = project.root / ".git" / "index.lock"
    lock.touch()
    workspace.prepare(head(project.root))
    assert lock.exists()


def test_a_repository_that_moved_gets_a_new_clone(project, workspace, tmp_path):
    project.root.rename(tmp_path / "moved")
    moved = project.opened(tmp_path / "moved")
    moved.workspace("run", PLAIN).prepare(head(tmp_path / "moved"))
    assert clean(workspace)


def test_garbage_collection_by_the_user_loses_nothing_that_is_kept(project, workspace):
    sha = project.work()
    git(project.root, "reflog", "expire", "--expire=now", "--all")
    git(project.root, "gc", "--quiet", "--prune=now")
    workspace.prepare(sha)
    assert not project.repository.lacking((sha,))
    assert (workspace.path / "work.txt").exists()


def test_a_shallow_repository_works_too(project, tmp_path):
    project.push_from_elsewhere("one.txt")
    project.push_from_elsewhere("two.txt")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{project.remote}", "shallow")
    repository = project.opened(tmp_path / "shallow")
    repository.adopt_home("host")
    workspace = repository.workspace("run", PLAIN)
    workspace.prepare(repository.base(project.target))
    base = project.push_from_elsewhere("three.txt")
    assert repository.base(project.target) == base
    workspace.prepare(base)
    write(workspace.path, work="done\n")
    made = workspace.commit("[run] #1: work", base=base)
    repository.keep(made.sha, "refs/irontree/issue-1/2", source=workspace)
    repository.workspace("verify", PLAIN).prepare(made.sha)
    assert repository.publish(made.sha, project.target).sha == made.sha
    assert head(project.remote, "main") == made.sha


def test_a_bare_repository_with_worktrees_works_too(project, tmp_path):
    git(tmp_path, "clone", "--quiet", "--bare", str(project.remote), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "--quiet", str(tmp_path / "tree"), "main")
    git(tmp_path / "bare.git", "config", "irontree.dir", str(tmp_path / "tree"))
    hook(tmp_path / "bare.git" / "hooks", "pre-commit", "echo checked > checked.txt; git add checked.txt")
    repository = project.opened(tmp_path / "tree")
    repository.adopt_home("host")
    assert repository.preflight(project.local_target, PLAIN) == ()
    base, workspace = repository.base(project.local_target), repository.workspace("run", PLAIN)
    workspace.prepare(base)
    write(workspace.path, work="done\n")
    made = workspace.commit("[run] #1: work", base=base)
    repository.keep(made.sha, "refs/irontree/issue-1/2", source=workspace)
    assert repository.publish(made.sha, project.target).warning is None
    assert (tmp_path / "tree" / "checked.txt").exists()


def test_a_repository_with_sha256_works_too(project, tmp_path):
    git(tmp_path, "init", "--quiet", "--object-format=sha256", "modern")
    base = commit(tmp_path / "modern", "a.txt", "a\n")
    repository = project.opened(tmp_path / "modern")
    repository.adopt_home("host")
    workspace = repository.workspace("run", PLAIN)
    workspace.prepare(base)
    write(workspace.path, work="done\n")
    made = workspace.commit("[run] #1: work\n\nIrontree-Run: t\n", base=base)
    repository.keep(made.sha, "refs/irontree/issue-1/2", source=workspace)
    assert repository.find_token("t", base=base, source=workspace) == made.sha
    assert repository.publish(made.sha, project.local_target).sha == made.sha
    assert len(made.sha) == 64


def test_untracked_files_can_be_copied_in_and_are_never_committed(project):
    (project.root / "secrets").mkdir()
    write(project.root, **{".env": "KEY=1\n", "local [1].cfg": "x\n"})
    write(project.root / "secrets", key="k\n")
    workspace = project.run_workspace(WorkspacePolicy(copy_files=(".env", "local [1].cfg", "secrets")))
    workspace.prepare(head(project.root))
    assert (workspace.path / ".env").read_text() == "KEY=1\n"
    assert (workspace.path / "secrets" / "key").read_text() == "k\n"
    write(workspace.path, **{".env": "KEY=2\n", "local [1].cfg": "changed\n", "work": "done\n"})
    assert workspace.commit("[run] #1: work", base=head(project.root)).files == ("work",)


def test_something_that_cannot_be_copied_is_named(project):
    (project.root / "cache").mkdir()
    os.mkfifo(project.root / "cache" / "pipe")
    with pytest.raises(EnvironmentRefused, match="pipe"):
        project.run_workspace(WorkspacePolicy(copy_files=("cache",))).prepare(head(project.root))


def test_a_link_left_where_a_file_is_copied_to_is_not_followed(project, tmp_path):
    write(project.root, **{".env": "KEY=1\n"})
    write(tmp_path, precious="precious\n")
    workspace = project.run_workspace(WorkspacePolicy(copy_files=(".env",)))
    workspace.prepare(head(project.root))
    (workspace.path / ".env").unlink()
    (workspace.path / ".env").symlink_to(tmp_path / "precious")
    workspace.prepare(head(project.root))
    assert (tmp_path / "precious").read_text() == "precious\n"
    assert (workspace.path / ".env").read_text() == "KEY=1\n"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("gone.env", EnvironmentRefused),
        ("app.py", ConfigRefused),
        ("../other", ConfigRefused),
        ("/etc/passwd", ConfigRefused),
    ],
)
def test_a_file_that_cannot_be_copied_is_named(project, path, error):
    with pytest.raises(error) as refused:
        project.run_workspace(WorkspacePolicy(copy_files=(path,))).prepare(head(project.root))
    assert path in refused.value.message
    assert refused.value.remedy


def test_set_up_commands_run_in_the_workspace_with_a_scrubbed_environment(project):
    setup = ('echo "$IRONTREE_WORKSPACE:$GITHUB_TOKEN:$GIT_DIR" > cache.log',)
    opened = project.opened(GITHUB_TOKEN="secret", GIT_DIR="/nowhere")
    workspace = opened.workspace("run", WorkspacePolicy(setup=setup))
    workspace.prepare(head(project.root))
    assert (workspace.path / "cache.log").read_text() == f"{workspace.path}::\n"


def test_a_set_up_that_fails_says_which_command_and_what_it_printed(project):
    workspace = project.run_workspace(WorkspacePolicy(setup=("true", "echo no such package; exit 4")))
    with pytest.raises(EnvironmentRefused) as refused:
        workspace.prepare(head(project.root))
    assert "exit 4" in refused.value.message
    assert "no such package" in refused.value.message
    assert str(workspace.path) in refused.value.remedy


def test_a_set_up_can_be_stopped(project):
    stop = threading.Event()
    workspace = project.run_workspace(WorkspacePolicy(setup=("sleep 1000",)))
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(Cancelled):
        workspace.prepare(head(project.root), cancel=stop)


def test_hooks_that_would_silently_not_run_are_an_error(project):
    """husky's `.husky/_` is ignored, so a clone does not have it."""
    git(project.root, "config", "core.hooksPath", ".husky/_")
    with pytest.raises(EnvironmentRefused, match=r"\.husky/_") as refused:
        project.run_workspace().prepare(head(project.root))
    assert "workspace.setup" in refused.value.remedy
    project.run_workspace(WorkspacePolicy(setup=("mkdir -p .husky/_",))).prepare(head(project.root))


def test_verification_needs_no_hooks(project):
    git(project.root, "config", "core.hooksPath", ".husky/_")
    project.repository.workspace("verify", PLAIN).prepare(head(project.root))


def test_hooks_do_not_run_while_a_workspace_is_prepared(project, tmp_path):
    hook(project.root / ".git" / "hooks", "post-checkout", f"touch '{tmp_path}/hook-ran'")
    project.run_workspace().prepare(head(project.root))
    assert not (tmp_path / "hook-ran").exists()


def test_submodules_come_by_a_set_up_command(project, tmp_path):
    git(tmp_path, "init", "--quiet", "library")
    commit(tmp_path / "library", "lib.py", "x = 1\n")
    allow = ("-c", "protocol.file.allow=always")
    git(project.root, *allow, "submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    git(project.root, "commit", "--quiet", "--message", "with library")
    setup = "git -c protocol.file.allow=always submodule --quiet update --init --recursive"
    workspace = project.run_workspace(WorkspacePolicy(setup=(setup,)))
    for _ in range(2):
        workspace.prepare(head(project.root))
        assert (workspace.path / "lib" / "lib.py").exists()
        assert clean(workspace)


def test_a_half_made_clone_of_a_killed_run_is_never_seen_and_goes(project):
    folder = project.cache / "irontree" / project.repository.id
    (folder / ".making-killed" / "clone" / ".git").mkdir(parents=True)
    project.run_workspace().prepare(head(project.root))
    assert {path.name for path in folder.iterdir()} == {"run"}


def test_a_cache_folder_that_was_wiped_in_between_is_made_again(project, workspace):
    shutil.rmtree(project.cache)
    workspace.prepare(head(project.root))
    assert clean(workspace)


def test_stores_that_were_added_to_those_it_borrows_from_are_gone_before_the_next_use(project, workspace):
    listed = workspace.path / ".git" / "objects" / "info" / "alternates"
    before = listed.read_text()
    listed.write_text(f"{before}/etc\n")
    workspace.prepare(head(project.root))
    assert listed.read_text() == before == f"{project.store.parent / 'history.git' / 'objects'}\n"


def test_what_it_borrows_from_is_not_written_through_a_link(project, workspace):
    objects = workspace.path / ".git" / "objects"
    shutil.rmtree(objects)
    objects.symlink_to(project.root / ".git" / "objects")
    workspace.prepare(head(project.root))
    assert not (project.root / ".git" / "objects" / "info" / "alternates").exists()
    assert clean(workspace)


@pytest.mark.parametrize(
    "trick",
    [
        "cp -r . ../evil; mv ../evil .; echo evil > commondir",
        "rm config; mkfifo config",
        "rm config; mkdir config",
        "rm config; ln -s $OUTSIDE/config config",
        "rm -rf info; ln -s $OUTSIDE info",
        "rm -rf refs; ln -s $OUTSIDE refs",
        "ln -s $OUTSIDE logs",
    ],
)
def test_what_an_agent_put_into_git_s_folder_leads_nowhere_and_blocks_nothing(project, workspace, tmp_path, trick):
    (outside := tmp_path / "outside").mkdir()
    write(outside, config="precious\n", exclude="precious\n", **{"Cargo.lock": "precious\n"})
    environment = os.environ | {"OUTSIDE": str(outside)}
    subprocess.run(["sh", "-ec", trick], cwd=workspace.path / ".git", env=environment, check=True)
    workspace.prepare(head(project.root))
    assert {path.read_text() for path in outside.iterdir()} == {"precious\n"}
    assert not (workspace.path / ".git" / "commondir").exists()
    assert clean(workspace)


def test_nothing_is_copied_through_a_link_that_leads_out(project, tmp_path):
    (project.root / "conf").mkdir()
    write(project.root, **{"conf/.env": "KEY=1\n"})
    (tmp_path / "outside").mkdir()
    write(tmp_path / "outside", **{".env": "precious\n"})
    workspace = project.run_workspace(WorkspacePolicy(copy_files=("conf/.env",)))
    workspace.prepare(head(project.root))
    shutil.rmtree(workspace.path / "conf")
    (workspace.path / "conf").symlink_to(tmp_path / "outside")
    linked = workspace.commit("a link", base=head(project.root)).sha
    project.repository.keep(linked, "refs/irontree/issue-1/2", source=workspace)
    with pytest.raises(EnvironmentRefused, match="cannot be copied"):
        workspace.prepare(linked)
    assert (tmp_path / "outside" / ".env").read_text() == "precious\n"


GITS_OWN = ("objects/0a/tmp_obj_x", "objects/pack/tmp_pack_x", "objects/pack/.tmp-1-pack-x.pack", "HEAD.lock")
ARRIVING = "objects/tmp_objdir-incoming-x/0a"


def test_what_a_killed_git_left_in_the_store_goes(project):
    workspace = project.run_workspace()
    workspace.prepare(head(project.root))
    git_dir = project.store
    (git_dir / ARRIVING).mkdir(parents=True)
    for name in GITS_OWN:
        (git_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (git_dir / name).touch()
    assert project.repository.remove_leftovers() == len(GITS_OWN) + 1
    assert not [name for name in (*GITS_OWN, ARRIVING) if (git_dir / name).exists()]
    assert project.repository.remove_leftovers() == 0


def test_objects_that_nobody_needs_do_not_pile_up(project, workspace):
    """Nothing is collected as garbage there: objects wait for their ref."""
    left = [project.store / "objects" / "17", project.store.with_name("history.git") / "objects" / "17"]
    for folder in left:
        folder.mkdir(exist_ok=True)
        for number in range(30):
            (folder / f"{number:038}").write_bytes(b"")
    kept = project.work(**{"app.py": "print('bye')\n"})
    project.repository.keep(kept, "refs/irontree/issue-1/2", source=workspace)
    workspace.prepare(commit(project.root, "more.txt", "more\n"))
    assert not any(path.name.startswith("0" * 36) for folder in left if folder.is_dir() for path in folder.iterdir())
    write(workspace.path, **{"app.py": "print('later')\n"})
    assert workspace.commit("[run] #1: later\n", base=head(project.root)).files == ("app.py",)
    assert project.repository.read_ref("refs/irontree/issue-1/2") == kept


@pytest.mark.parametrize("harm", ["gone", "empty"])
def test_a_history_that_lost_objects_is_made_anew_for_the_next_attempt_at_the_same_base(project, harm):
    """Programs of the workspace borrow from it: hooks would refuse each commit, and nobody could say why."""
    workspace, base = project.run_workspace(), head(project.root)
    workspace.prepare(base, owner="issue-1")
    history = project.store.with_name("history.git")
    lost = [path for path in (history / "objects").rglob("*") if path.is_file()]
    for path in lost:
        path.chmod(0o600)
        path.write_bytes(b"") if harm == "empty" else path.unlink()
    assert lost
    workspace.prepare(base, owner="issue-1")
    assert git(workspace.path, "rev-list", "--objects", "HEAD")
    git(workspace.path, "cat-file", "-p", "HEAD:app.py")


def test_folders_with_any_letters_hold_store_and_history(project):
    odd = project.cache.with_name('new\nline, "quoted" \\ and ünï')
    repository = open_repository(project.root, project.children, odd / "cache", odd / "state", os.environ)
    workspace, base = repository.workspace("run", PLAIN), head(project.root)
    workspace.prepare(base)
    assert git(workspace.path, "rev-parse", "HEAD^{tree}") == git(project.root, "rev-parse", f"{base}^{{tree}}")
    write(workspace.path, **{"work.txt": "done\n"})
    assert isinstance(workspace.commit("work", base=base), Committed)


def test_a_state_folder_inside_a_workspace_is_refused(project):
    """Who works there would have the store, and the next attempt would remove it."""
    inside = project.cache / "irontree" / project.repository.id / "run"
    repository = open_repository(project.root, project.children, project.cache, inside, os.environ)
    with pytest.raises(EnvironmentRefused, match="is inside the folder of workspaces"):
        repository.workspace("run", PLAIN)
