"""A verification begins from nothing; what set-up made is copied in, and built from what is published (R4)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from irontree.domain.plan import WorkspacePolicy
from irontree.errors import EnvironmentRefused
from irontree.files import remove
from irontree.processes.children import ChildProcesses, Completed
from irontree.repository.caches import KEPT, SetupCaches
from tests.support.processes import MemoryRegistry, children
from tests.support.repositories import PLAIN, commit, write

COUNTING = "mkdir -p deps/lib && cat app.py package.json > deps/lib/made 2>/dev/null; echo made >> ../set-up.log"
CACHED = WorkspacePolicy(setup=(COUNTING,), cache_paths=("deps",))


@pytest.fixture
def base(project) -> str:
    (project.root / ".gitignore").write_text("deps/\n*.log\n")
    commit(project.root, ".gitignore", "deps/\n*.log\n")
    return commit(project.root, "package.json", "{}\n")


def verify(project, policy=CACHED):
    return project.repository.workspace("verify", policy)


def times_set_up(workspace) -> int:
    log = workspace.path.parent / "set-up.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def made_in(workspace) -> str:
    return (workspace.path / "deps" / "lib" / "made").read_text()


@pytest.mark.parametrize("name", ["verify", "review"])
def test_nothing_of_an_earlier_use_is_there(project, base, name):
    """Ignored files too: a check could leave a module that the next one imports."""
    workspace = project.repository.workspace(name, PLAIN)
    workspace.prepare(base)
    (workspace.path / "deps").mkdir()
    write(workspace.path / "deps", hidden="evil\n")
    write(workspace.path, **{"run.log": "log\n"})
    (workspace.path / "deps").chmod(0o500)
    workspace.prepare(base)
    assert not (workspace.path / "deps").exists()
    assert not (workspace.path / "run.log").exists()


def test_an_issue_s_own_attempts_keep_what_git_ignores_and_no_other_s_do(project, base):
    workspace = project.run_workspace()
    workspace.prepare(base, owner="issue-1")
    write(workspace.path, **{"run.log": "log\n"})
    workspace.prepare(base, owner="issue-1")
    assert (workspace.path / "run.log").exists()
    workspace.prepare(base, owner="issue-2")
    assert not (workspace.path / "run.log").exists()


def test_set_up_runs_once_for_all_that_have_the_same_dependencies(project, base):
    changed = project.work(base, **{"app.py": "print('bye')\n"})
    workspace = verify(project)
    workspace.prepare(base, published=base)
    workspace.prepare(changed, published=base)
    assert times_set_up(workspace) == 1
    assert made_in(workspace) == "print('hello')\n{}\n"
    assert (workspace.path / "app.py").read_text() == "print('bye')\n"


def test_a_cache_is_built_from_what_is_published_and_not_from_what_an_attempt_wrote(project, base):
    changed = project.work(base, **{"app.py": "print('evil')\n"})
    workspace = verify(project)
    workspace.prepare(changed, published=base)
    assert made_in(workspace) == "print('hello')\n{}\n"


def test_changed_dependencies_are_set_up_for_that_commit_alone(project, base):
    changed = project.work(base, **{"package.json": '{"more": 1}\n'})
    workspace = verify(project)
    workspace.prepare(changed, published=base)
    assert made_in(workspace) == "print('hello')\n" + '{"more": 1}\n'
    workspace.prepare(base, published=base)
    assert made_in(workspace) == "print('hello')\n{}\n"
    assert times_set_up(workspace) == 2


def test_what_is_written_into_a_copy_stays_in_it(project, base):
    workspace = verify(project)
    workspace.prepare(base, published=base)
    (workspace.path / "deps" / "lib" / "made").write_text("evil\n")
    write(workspace.path / "deps", more="evil\n")
    workspace.prepare(base, published=base)
    assert made_in(workspace) == "print('hello')\n{}\n"
    assert not (workspace.path / "deps" / "more").exists()


def test_each_workspace_has_caches_of_its_own_because_they_know_their_path(project, base):
    run, check = project.run_workspace(CACHED), verify(project)
    run.prepare(base, published=base, owner="issue-1")
    check.prepare(base, published=base)
    assert times_set_up(check) == 2


def test_other_commands_or_paths_make_another_cache(project, base):
    verify(project).prepare(base, published=base)
    other = verify(project, WorkspacePolicy(setup=("mkdir deps; echo other > deps/other",), cache_paths=("deps",)))
    other.prepare(base, published=base)
    assert (other.path / "deps" / "other").exists()


def test_links_in_a_cache_are_copied_and_never_followed(project, base, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    policy = WorkspacePolicy(setup=(f"mkdir deps && ln -s {secret} deps/link",), cache_paths=("deps",))
    workspace = verify(project, policy)
    workspace.prepare(base, published=base)
    assert (workspace.path / "deps" / "link").readlink() == secret


def test_a_cache_behind_a_link_is_refused_in_words(project, base, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    policy = WorkspacePolicy(setup=(f"ln -s {outside} deps; mkdir -p deps/lib",), cache_paths=("deps/lib",))
    with pytest.raises(EnvironmentRefused, match=r"workspace\.cache: deps/lib cannot be copied"):
        verify(project, policy).prepare(base, published=base)


MONOREPO = "for each in . packages/a packages/a/deep; do mkdir -p $each/deps; echo made > $each/deps/made; done"


def test_a_name_is_meant_in_every_folder_and_no_tracked_one(project, base):
    """As the `node_modules` of each package; a folder of sources may have that name too."""
    commit(project.root, "packages/a/deep/file", "x\n")
    commit(project.root, "src/deps/file", "old\n")
    base = commit(project.root, "packages/a/package.json", "{}\n")
    changed = project.work(base, **{"src/deps/file": "new\n"})
    workspace = verify(project, WorkspacePolicy(setup=(MONOREPO,), cache_paths=("deps",)))
    workspace.prepare(base, published=base)
    workspace.prepare(changed, published=base)
    found = {str(path.relative_to(workspace.path)) for path in workspace.path.rglob("deps/made")}
    assert found == {"deps/made", "packages/a/deps/made", "packages/a/deep/deps/made"}
    assert (workspace.path / "src/deps/file").read_text() == "new\n"


def test_a_package_that_became_a_link_gets_no_cache_written_through_it(project, base, tmp_path):
    (outside := tmp_path / "outside").mkdir()
    base = commit(project.root, "packages/a/file", "x\n")
    run = project.run_workspace()
    run.prepare(base)
    remove(run.path / "packages/a")
    (run.path / "packages/a").symlink_to(outside)
    made = run.commit("[run] #1: work", base=base)
    policy = WorkspacePolicy(setup=("mkdir packages/a/deps; echo made > packages/a/deps/made",), cache_paths=("deps",))
    with pytest.raises(EnvironmentRefused, match=r"workspace\.cache: packages/a/deps cannot be copied"):
        verify(project, policy).prepare(made.sha, published=base)
    assert list(outside.iterdir()) == []


def test_who_builds_a_cache_is_told_what_set_up_makes_beside_it(project, base):
    notes = list[str]()
    setup = "mkdir -p deps made/dist tests x.egg-info __pycache__; touch deps/a made/dist/b .env c.log x.egg-info/d"
    policy = WorkspacePolicy(setup=(setup,), cache_paths=("deps",), copy_files=(".env",))
    write(project.root, **{".env": "x\n"})
    replace(verify(project, policy), note=notes.append).prepare(base, published=base)
    replace(verify(project, policy), note=notes.append).prepare(base, published=base)
    [told] = notes
    assert told.startswith("workspace.setup also makes c.log, made: where the cache serves, that is missing")


def test_only_the_caches_that_were_used_last_are_kept(project, base):
    for number in range(10):
        policy = WorkspacePolicy(setup=(f"mkdir deps; echo {number} > deps/n",), cache_paths=("deps",))
        verify(project, policy).prepare(base, published=base)
    assert len(list((verify(project).path.parent / "caches").iterdir())) == 8


class Dies(Exception):
    """The program is killed here."""


def caches_in(folder: Path, **doubles) -> SetupCaches:
    """Caches in *folder*, of a workspace beside it in which set-up has run."""
    workspace = folder.with_name("workspace")
    (workspace / "deps").mkdir(parents=True, exist_ok=True)
    write(workspace / "deps", made="made\n", more="more\n")
    return SetupCaches(folder, workspace, CACHED, **({"children": children()} | doubles))


def test_a_cache_whose_removal_was_cut_off_serves_nobody(tmp_path):
    """It would lack files for ever: set-up does not run where there is a cache."""

    def dies(path: Path) -> None:
        (path / "deps" / "made").unlink()
        raise Dies

    folder = tmp_path / "caches"
    names = [f"cache-{number}" for number in range(KEPT)]
    for number, name in enumerate(names):
        caches_in(folder).keep(name, ["deps"])
        os.utime(folder / name, (number, number))
    with pytest.raises(Dies):
        caches_in(folder, remove=dies).keep("another", ["deps"])
    assert [name for name in names if caches_in(folder).has(name)] == names[1:]
    caches_in(folder).keep("a third", ["deps"])
    assert len([*folder.iterdir()]) == KEPT


def test_a_cache_is_on_the_disk_before_it_serves_anybody(tmp_path):
    """After a loss of power its files could be empty, and checks would fail for ever."""
    seen = list[tuple[int, bool]]()
    folder = tmp_path / "caches"

    def sync() -> None:
        seen.append((len([*folder.rglob("made")]), caches_in(folder).has("cache")))

    caches_in(folder, sync=sync).keep("cache", ["deps"])
    assert seen == [(1, False)]
    assert caches_in(folder).has("cache")


class KillsFirst(ChildProcesses):
    """The first program is killed in the middle of its work."""

    calls = 0

    def run(self, argv, **options) -> Completed:
        self.calls += 1
        if self.calls > 1:
            return super().run(argv, **options)
        half = Path(argv[-1], "deps")
        half.mkdir()
        write(half, made="", stray="")
        half.chmod(0o500)
        return Completed("exited", -9, 0.1, "", "")


def test_copying_that_a_signal_ended_is_done_again_and_asks_nobody(tmp_path):
    folder = tmp_path / "caches"
    caches_in(folder, children=KillsFirst(MemoryRegistry())).keep("cache", ["deps"])
    assert {path.name: path.read_text() for path in (folder / "cache" / "deps").iterdir()} == {
        "made": "made\n",
        "more": "more\n",
    }


def test_a_store_that_lost_what_it_wrote_is_made_anew_before_a_cache_is_looked_for(project, base):
    """A loss of power between run and verification can leave empty objects; the user's repository has the commit."""
    work = project.work(base, **{"app.py": "print('bye')\n"})
    objects = [path for path in (project.store / "objects").rglob("*") if path.is_file() and path.parent.name != "info"]
    for path in objects:
        path.chmod(0o600)
        path.write_bytes(b"")
    assert objects
    workspace = verify(project)
    workspace.prepare(work, published=base)
    assert (workspace.path / "app.py").read_text() == "print('bye')\n"
