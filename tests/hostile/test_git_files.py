"""Whatever files an agent leaves, they are data: none is run, followed or waited for (R4, R5)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from irontree.domain.plan import WorkspacePolicy
from irontree.errors import ConfigRefused, EnvironmentRefused
from irontree.ports import CommitRefused, Committed
from tests.support.repositories import commit, git, head, write


def test_repositories_within_are_files_and_nothing_in_them_runs(attacked):
    attacked.act(
        "git init -q made; cp $TRAP made/.git/hooks/pre-commit; cd made; echo x > file; git add .; git commit -qnm 1; "
        "git config core.fsmonitor $TRAP; git config filter.x.clean $TRAP; echo '* filter=x' > .gitattributes"
    )
    attacked.act("git init -q empty; echo z > empty/z; mkdir linked; echo y > linked/y; ln -s $ROOT/.git linked/.git")
    made = attacked.commit()
    attacked.assert_unharmed()
    assert set(made.files) == {"made/.gitattributes", "made/file", "empty/z", "linked/y"}
    assert "160000" not in git(attacked.project.store, "ls-tree", "-r", made.sha)


def test_a_repository_in_a_folder_that_is_ignored_stays(attacked):
    """Tools keep packages as repositories, in folders that git ignores."""
    attacked.act("mkdir cache; git init -q cache/package; echo done > work.txt")
    assert attacked.commit().files == ("work.txt",)
    assert (attacked.path / "cache/package/.git").is_dir()


@pytest.fixture
def library(attacked):
    """The project has a submodule, which a set-up command brings."""
    root = attacked.project.root
    folder = root.parent / "library"
    git(root.parent, "init", "--quiet", "library")
    commit(folder, "lib.py", "x = 1\n")
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(folder), "lib")
    git(root, "commit", "--quiet", "--message", "with library")
    setup = "git -c protocol.file.allow=always submodule --quiet update --init"
    attacked.project.run_workspace(WorkspacePolicy(setup=(setup,))).prepare(attacked.base)
    return attacked


def test_nothing_that_was_put_into_a_submodule_runs_and_it_stays_where_it_was(library):
    library.act("rm lib/.git; git init -q lib; cd lib; git add .; git commit -qm mine; git config core.fsmonitor $TRAP")
    library.act("echo done > work.txt")
    made = library.commit()
    library.assert_unharmed()
    assert isinstance(made, Committed)
    assert made.files == ("work.txt",)


def test_changed_files_of_a_submodule_are_refused_in_words(library):
    library.act("echo 'x = 2' > lib/lib.py; echo done > work.txt")
    refused = library.commit()
    assert isinstance(refused, CommitRefused)
    assert refused.output.endswith(": lib")


def test_a_pipe_in_a_submodule_is_not_waited_for(library):
    library.act("mkfifo lib/.gitignore; echo done > work.txt")
    made = library.commit()
    assert isinstance(made, Committed)
    assert made.files == ("work.txt",)


def test_folders_without_end_keep_no_work_from_being_taken(attacked):
    attacked.act("deep=$(printf 'd/%.0s' $(seq 300)); mkdir -p $deep; echo x > ${deep}x; echo done > work.txt")
    assert attacked.project.run_workspace().salvage(attacked.base, "refs/irontree/salvage/issue-1/2")
    made = attacked.commit()
    assert isinstance(made, Committed)
    assert made.files == ("work.txt",)


def test_what_a_check_does_to_a_file_of_any_name_is_undone(attacked):
    """Also where a file passes for another one because its name is no text."""
    folder = os.fsencode(attacked.project.root)
    for name in (b"odd\xff.py", "odd\ufffd.py".encode()):
        Path(os.fsdecode(folder + b"/" + name)).write_text("x = 1\n")
    git(attacked.project.root, "add", "--all")
    git(attacked.project.root, "commit", "--quiet", "--message", "odd names")
    attacked.prepare()
    attacked.act("for each in odd*; do echo 'x = 2' > $each; done")
    workspace = attacked.project.run_workspace()
    assert workspace.put_back() == ("odd\ufffd.py", "odd\ufffd.py")
    assert [path.read_text() for path in attacked.path.glob("odd*")] == ["x = 1\n"] * 2


def test_settings_of_submodules_and_of_lfs_are_data(attacked):
    attacked.act(
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ext::%s\\n\\tupdate = !%s\\n' $TRAP $TRAP > .gitmodules; "
        "printf '[lfs]\\n\\turl = http://127.0.0.1:9/\\n[lfs \"customtransfer.x\"]\\npath = %s\\n' $TRAP > .lfsconfig;"
        "mkdir x; echo x > x/x; printf '*.bin filter=lfs\\n* filter=trap diff=trap\\n' > .gitattributes; echo b > a.bin"
    )
    made = attacked.commit()
    attacked.assert_unharmed()
    assert set(made.files) == {".gitmodules", ".lfsconfig", ".gitattributes", "a.bin", "x/x"}
    attacked.kept(made.sha)
    attacked.project.run_workspace().prepare(made.sha)
    attacked.assert_unharmed()


@pytest.mark.parametrize("name", [".GIT", ".Git", "git~1", ".g\u200cit", ".git ", "sub/.gIT"])
def test_a_name_that_some_system_takes_for_git_s_is_refused_in_words(attacked, name):
    (attacked.path / name).mkdir(parents=True)
    write(attacked.path / name, config="[core]\n\tfsmonitor = touch sprung\n")
    refused = attacked.commit()
    assert isinstance(refused, CommitRefused)
    assert "invalid path" in refused.output
    attacked.prepare()
    write(attacked.path, work="done\n")
    assert isinstance(attacked.commit(), Committed)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Readme", "README"), ("ma\u00f1ana", "man\u0303ana"), ("src/a", "SRC/b"), ("APP.py", "app.py")],
)
def test_names_that_some_system_takes_for_one_are_refused_in_words(attacked, one, other):
    for name in (one, other):
        (attacked.path / name).parent.mkdir(exist_ok=True)
        write(attacked.path, **{name: "x\n"})
    refused = attacked.commit()
    assert isinstance(refused, CommitRefused)
    assert "one file on a system that ignores case" in refused.output


def test_a_name_may_change_its_case_and_stay_what_it_was_beside_another(attacked):
    root = attacked.project.root
    commit(root, "Docs/a", "a\n")
    commit(root, "docs/b", "b\n")
    attacked.prepare()
    attacked.act("mv app.py App.py; echo c > docs/c")
    assert set(attacked.commit().files) == {"app.py", "App.py", "docs/c"}


def test_a_folder_that_became_a_link_is_committed_as_a_link(attacked):
    commit(attacked.project.root, "folder/file", "ours\n")
    attacked.prepare()
    attacked.act("rm -rf folder; ln -s $OUTSIDE folder")
    base, made = attacked.base, attacked.commit()
    tree = git(attacked.project.store, "ls-tree", "-r", made.sha)
    assert "precious" not in attacked.kept(made.sha)("folder")
    assert "folder/file" not in tree
    attacked.project.run_workspace().prepare(base)
    attacked.assert_unharmed()
    assert (attacked.path / "folder/file").read_text() == "ours\n"


def test_nothing_is_read_through_a_link_that_says_what_to_ignore(attacked):
    attacked.act(
        "rm .gitignore; ln -s $OUTSIDE/exclude .gitignore; ln -s $OUTSIDE/file .gitattributes; echo x > precious"
    )
    assert "precious" in attacked.commit().files


def test_what_is_copied_in_goes_through_no_link(attacked):
    root = attacked.project.root
    (root / "cache").mkdir()
    write(root / "cache", file="KEY\n")
    workspace = attacked.project.run_workspace(WorkspacePolicy(copy_files=("cache/file",)))
    workspace.prepare(attacked.base)
    attacked.act("rm -rf cache; ln -s $OUTSIDE cache")
    workspace.prepare(attacked.base)
    attacked.assert_unharmed()
    assert (attacked.path / "cache/file").read_text() == "KEY\n"


PIPES = {
    "ignore rules": "rm .gitignore; mkfifo .gitignore",
    "attributes": "mkfifo .gitattributes",
    "modules": "mkfifo .gitmodules",
    "rules in a folder": "mkdir deep; echo x > deep/x; mkfifo deep/.gitignore deep/.gitattributes",
    "repository within": "git init -q deep; echo x > deep/x; rm deep/.git/HEAD; mkfifo deep/.git/HEAD",
    "repository in a cache": "git init -q cache/deep; rm cache/deep/.git/HEAD; mkfifo cache/deep/.git/HEAD",
    "untracked": "mkfifo pipe",
}


@pytest.mark.parametrize("script", PIPES.values(), ids=PIPES)
def test_a_pipe_is_not_waited_for(attacked, script):
    attacked.act(f"{script}; echo done > work.txt")
    made = attacked.commit()
    assert isinstance(made, Committed)
    assert "work.txt" in made.files


def test_a_file_that_became_a_pipe_is_refused_in_words_and_the_rest_is_kept(attacked):
    attacked.act("rm app.py; mkfifo app.py; echo done > work.txt")
    refused = attacked.commit()
    assert isinstance(refused, CommitRefused)
    assert "app.py" in refused.output
    assert attacked.project.run_workspace().salvage(attacked.base, "refs/irontree/salvage/issue-1/2")
    assert git(attacked.project.root, "show", "refs/irontree/salvage/issue-1/2:work.txt") == "done"


def test_a_link_in_place_of_the_workspace_is_not_worked_in(attacked):
    attacked.act("cd ..; mv run away; ln -s $OUTSIDE run")
    with pytest.raises(EnvironmentRefused, match="was removed"):
        attacked.commit()
    assert attacked.project.run_workspace().salvage(head(attacked.project.root), "refs/irontree/salvage/1") is None
    attacked.prepare()
    attacked.assert_unharmed()
    assert not attacked.path.is_symlink()


def test_a_program_of_the_user_s_settings_runs_only_where_it_is_named(attacked):
    """Its words may name a file of the work, which the agent has written."""
    root = attacked.project.root
    write(root, **{"clean.sh": "cat\n"})
    git(root, "config", "filter.own.clean", "sh clean.sh")
    attacked.act("printf 'touch %s.own; cat\\n' $TRAP > clean.sh; echo '*.x filter=own' > .gitattributes; echo x > a.x")
    refused = attacked.commit()
    assert isinstance(refused, CommitRefused)
    assert "a.x (`own`)" in refused.output
    assert "workspace.filters" in refused.output
    assert not attacked.trap.with_name("trap.own").exists()
    named = attacked.project.run_workspace(WorkspacePolicy(filters=("own",)))
    assert "a.x" in named.commit("[run] #1: work", base=attacked.base).files


def test_what_needs_a_program_that_is_not_named_is_refused_before_any_work(attacked):
    root = attacked.project.root
    git(root, "config", "filter.crypt.smudge", "cat")
    commit(root, ".gitattributes", "app.py filter=crypt merge=own\n")
    with pytest.raises(ConfigRefused, match="crypt") as refused:
        attacked.prepare()
    assert "workspace.filters" in refused.value.remedy


@pytest.mark.parametrize(
    "plant",
    [
        "mkdir -p .MINO/forge/issues/0001/comments; echo /accept > .MINO/forge/issues/0001/comments/0001.md",
        "ln -s $OUTSIDE .mino",
        "echo evil > .Mino",
        "echo evil > .mi\N{ZERO WIDTH NON-JOINER}no",
    ],
)
def test_nothing_that_some_system_takes_for_our_state_is_part_of_the_work(attacked, plant):
    """Where case is ignored, a checkout would write an answer of the user's into `.mino/`; a link leads it away."""
    attacked.act(f"{plant}; echo done > work.txt")
    assert attacked.commit().files == ("work.txt",)
    attacked.assert_unharmed()


def test_a_link_in_the_place_of_our_state_takes_away_nothing_that_is_kept_there(attacked):
    commit(attacked.project.root, ".mino/config.yml", "version: 1\n")
    attacked.prepare()
    attacked.act("rm -r .mino; ln -s $OUTSIDE .mino; echo done > work.txt")
    made = attacked.commit()
    assert made.files == ("work.txt",)
    assert attacked.kept(made.sha)(".mino/config.yml") == "version: 1"


def test_a_file_that_is_gone_or_became_another_kind_is_told_apart_without_a_line(attacked):
    """An empty `tests/__init__.py`, the right to run a script, a link of the same content: no line came or went."""
    root = attacked.project.root
    commit(root, "tests/__init__.py", "")
    commit(root, "tests/a.txt", "b.txt")
    commit(root, "run-tests", "#!/bin/sh\n")
    git(root, "update-index", "--chmod=+x", "run-tests")
    commit(root, "beside.txt", "more\n")
    attacked.prepare()
    attacked.act("rm tests/__init__.py; chmod -x run-tests; ln -sf b.txt tests/a.txt; ln -s tests linked")
    made, repository = attacked.commit(), attacked.project.repository
    attacked.kept(made.sha)
    assert {
        (count.path, count.kept, count.new, count.link) for count in repository.line_counts(attacked.base, made.sha)
    } == {
        ("tests/__init__.py", False, False, False),
        ("tests/a.txt", False, False, True),
        ("run-tests", False, False, False),
        ("linked", True, True, True),
    }
    assert repository.files_at(made.sha)["linked"] == "tests"
