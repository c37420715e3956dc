"""State lives in one place per repository, from wherever the program is called (B12)."""

from __future__ import annotations

import os
import shutil

import pytest

from irontree.errors import EnvironmentRefused, NotARepository
from tests.support.repositories import PLAIN, commit, git


@pytest.mark.parametrize("folder", [".", "src/deep", ".git", ".mino"])
def test_the_root_is_the_main_worktree_from_any_folder_of_it(project, folder):
    start = project.root / folder
    start.mkdir(parents=True, exist_ok=True)
    assert project.opened(start).root == project.root


def test_the_root_is_the_main_worktree_from_a_linked_one(project):
    linked = project.root.parent / "linked"
    git(project.root, "worktree", "add", "--quiet", str(linked))
    assert project.opened(linked).root == project.root
    assert project.opened(linked).id == project.repository.id


def test_variables_of_a_calling_git_do_not_lead_elsewhere(project, tmp_path):
    """Called from a hook or an alias, the program inherits GIT_DIR and its like."""
    other = tmp_path / "other"
    git(tmp_path, "init", "--quiet", str(other))
    opened = project.opened(GIT_DIR=str(other / ".git"), GIT_WORK_TREE=str(other), GIT_INDEX_FILE="/nowhere")
    assert opened.root == project.root
    assert opened.preflight(project.target, PLAIN) == ()


@pytest.fixture
def submodule(project, tmp_path):
    """The project as a submodule of another repository."""
    parent = tmp_path / "parent"
    git(tmp_path, "init", "--quiet", str(parent))
    git(parent, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(project.root), "libs/project")
    return parent / "libs" / "project"


def test_a_submodule_has_its_own_state(project, submodule):
    assert project.opened(submodule).root == submodule
    (submodule / "sub").mkdir()
    assert project.opened(submodule / "sub").root == submodule


def test_a_linked_worktree_of_a_submodule_leads_to_the_submodule(project, submodule, tmp_path):
    linked = tmp_path / "linked"
    git(submodule, "worktree", "add", "--quiet", "-b", "side", str(linked))
    assert project.opened(linked).root == submodule


def test_a_repository_with_its_git_folder_elsewhere_is_found(project, tmp_path):
    git(tmp_path, "init", "--quiet", "--separate-git-dir", "elsewhere.git", "apart")
    commit(tmp_path / "apart", "a.txt", "a\n")
    assert project.opened(tmp_path / "apart").root == tmp_path / "apart"


@pytest.fixture
def bare(project, tmp_path):
    """A bare repository with one linked worktree."""
    git(tmp_path, "clone", "--quiet", "--bare", str(project.root), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "--quiet", "../tree", "main")
    return tmp_path / "bare.git"


@pytest.mark.parametrize("start", ["bare.git", "tree"])
def test_a_bare_repository_has_no_place_for_the_state_until_one_is_named(project, bare, tmp_path, start):
    with pytest.raises(NotARepository, match="bare repository") as refused:
        project.opened(tmp_path / start)
    assert "git config irontree.dir" in refused.value.remedy
    git(bare, "config", "irontree.dir", str(tmp_path / "tree"))
    assert project.opened(tmp_path / start).root == tmp_path / "tree"


@pytest.mark.parametrize("named", ["nowhere", "project", "tree/sub"])
def test_a_place_that_is_no_worktree_of_this_repository_is_refused(project, bare, tmp_path, named):
    git(bare, "config", "irontree.dir", str(tmp_path / named))
    with pytest.raises(NotARepository, match="not a worktree of this repository"):
        project.opened(bare)


def test_outside_of_a_repository_the_remedy_is_named(project, tmp_path):
    with pytest.raises(NotARepository) as refused:
        project.opened(tmp_path)
    assert "git init" in refused.value.remedy


def test_a_folder_that_is_not_there_is_refused(project, tmp_path):
    with pytest.raises(NotARepository, match="not a folder"):
        project.opened(tmp_path / "gone")


def test_without_git_on_the_machine_it_says_so(project, tmp_path):
    with pytest.raises(EnvironmentRefused, match="git"):
        project.opened(PATH=str(tmp_path))


def test_a_repository_that_was_not_set_up_names_the_command_that_does_it(project, tmp_path):
    git(tmp_path, "init", "--quiet", "fresh")
    fresh = project.opened(tmp_path / "fresh")
    with pytest.raises(NotARepository) as refused:
        _ = fresh.id
    assert refused.value.remedy == "irontree init"
    assert fresh.home is None


def test_setting_up_twice_keeps_the_id_and_follows_a_move(project):
    first = project.repository.id
    assert project.repository.home == f"host:{project.root}"
    assert project.repository.adopt_home("other-host") == first
    assert project.repository.home == f"other-host:{project.root}"


def test_each_clone_is_a_repository_of_its_own(project, tmp_path):
    git(tmp_path, "clone", "--quiet", str(project.remote), "second")
    assert project.opened(tmp_path / "second").adopt_home("host") != project.repository.id


def test_a_file_that_the_settings_include_says_nothing_of_the_state(project):
    """It may be in a commit, as settings that a team shares are."""
    (project.root / ".gitconfig").write_text(
        "[irontree]\n\tid = 000000000000\n\thome = elsewhere\n[user]\n\tname = Bo\n"
    )
    expected = project.repository.id
    git(project.root, "config", "include.path", "../.gitconfig")
    assert (project.repository.id, project.repository.home) == (expected, f"host:{project.root}")
    assert project.repository.user_name() == "Bo"


def test_settings_that_change_while_it_is_open_count(project):
    repository = project.repository
    assert repository.id
    git(project.root, "config", "user.name", "Bo")
    assert repository.user_name() == "Bo"
    git(project.root, "config", "user.name", "Cy")
    assert repository.user_name() == "Cy"


def test_a_git_that_cannot_say_where_settings_come_from_is_named(project, tmp_path):
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text(
        '#!/bin/sh\ncase "$*" in version) echo git version 2.25.1; exit;; *--show-scope*) exit 129;; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    old.chmod(0o755)
    with pytest.raises(EnvironmentRefused, match=r"git is 2\.25\.1, and 2\.38 is needed"):
        _ = project.opened(PATH=f"{old.parent}{os.pathsep}{os.environ['PATH']}").id


def test_it_remembers_that_there_was_a_history(project):
    assert not project.repository.has_history()
    project.repository.mark_history()
    project.repository.mark_history()
    assert project.repository.has_history()
    assert git(project.root, "config", "--get-all", "irontree.events") == "yes"


def test_what_init_wants_to_know(project):
    repository = project.repository
    assert repository.remotes() == ("origin",)
    assert repository.current_branch() == "main"
    assert repository.user_name() == "Test Author"
    assert repository.default_target(None) == "main"
    git(project.root, "switch", "--quiet", "--create", "feature")
    assert repository.default_target("origin") == "feature"
    git(project.root, "remote", "set-head", "origin", "main")
    assert repository.default_target("origin") == "main"
    git(project.root, "switch", "--quiet", "--detach")
    assert repository.current_branch() is None


@pytest.mark.parametrize("name", ["two\nlines", "ends\n", 'a "quoted" one', "-dash"])
def test_a_folder_may_have_any_name(project, tmp_path, name):
    project.root.rename(there := tmp_path / name)
    git(there, "worktree", "add", "--quiet", "--detach", str(tmp_path / f"{name}-linked"))
    for start in (there, tmp_path / f"{name}-linked"):
        assert project.opened(start).root == there


def test_a_folder_whose_name_is_no_text_is_refused_in_words(project, tmp_path):
    project.root.rename(there := tmp_path / "not\udcff8")
    with pytest.raises(EnvironmentRefused, match="is not UTF-8 text") as refused:
        project.opened(there)
    assert "rename the folder" in refused.value.remedy


def test_a_git_that_lists_worktrees_by_lines_alone_will_do(project, tmp_path):
    """Those before 2.36, which several systems still have."""
    real = shutil.which("git")
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text(f'#!/bin/sh\ncase "$*" in *"worktree list"*" -z"*) exit 129;; esac\nexec {real} "$@"\n')
    old.chmod(0o755)
    git(project.root, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    path = f"{old.parent}{os.pathsep}{os.environ['PATH']}"
    assert project.opened(tmp_path / "linked", PATH=path).root == project.root
