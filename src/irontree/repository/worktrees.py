"""The checkout that a workflow is to be worked on in: what git says of it, and the worktree or branch that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from irontree.domain.workflow.checkout import Checkout, ExecutionRoot, worktree_folder
from irontree.errors import EnvironmentRefused, GitFailed, NotARepository
from irontree.files import disk_errors, read_bytes, write_beneath
from irontree.processes.children import ChildProcesses, Unrecorded
from irontree.repository.git import STATE_FOLDER, Git, git_environment
from irontree.repository.location import worktrees

_WORKFLOW_BYTES = 16 * 1024 * 1024


def git_in(folder: Path, environment: Mapping[str, str]) -> Git:
    """Git in *folder* for a command that needs nothing of `.mino`; *environment* is the caller's."""
    return Git(folder, ChildProcesses(Unrecorded()), git_environment(environment))


def look_at(git: Git) -> Checkout:
    """What git says of its folder: outside a repository, or without a commit, no more than that."""
    folder = str(git.folder.resolve())
    top = git.find("rev-parse", "--show-toplevel")
    if not top:
        return Checkout(folder)
    root = Path(top).resolve()
    found = Checkout(folder, str(root), branch=git.find("symbolic-ref", "--quiet", "--short", "HEAD") or "")
    head = git.find("rev-parse", "--verify", "--quiet", "HEAD")
    if not head:
        return found
    own, common = (git.find("rev-parse", "--path-format=absolute", each) for each in ("--git-dir", "--git-common-dir"))
    names = git.read("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").decode("utf-8", "surrogateescape")
    with disk_errors(root):
        made = Path(worktree_folder(str(root)))
        taken = frozenset(path.name for path in made.iterdir()) if made.is_dir() else frozenset[str]()
    return replace(
        found,
        head=head,
        linked=own != common,
        branches=frozenset(names.splitlines()),
        taken=taken,
        dirty=tuple(_dirty(git.at(root))),
    )


def user_checkout(git: Git, remote: str | None) -> Checkout:
    """The same for work that is driven by Iron Tree: with the branches of *remote*, without its own folder."""
    found = look_at(git)
    if not found.head:
        return found
    listed = git.read("for-each-ref", "--format=%(refname:lstrip=3)", f"refs/remotes/{remote}/") if remote else b""
    theirs = listed.decode("utf-8", "surrogateescape").splitlines()
    dirty = tuple(path for path in found.dirty if path.partition("/")[0] != STATE_FOLDER)
    return replace(found, branches=frozenset({*found.branches, *theirs} - {"HEAD"}), dirty=dirty)


def _dirty(git: Git) -> Iterator[str]:
    said = git.read("status", "--porcelain=v1", "-z", "--untracked-files=all").decode("utf-8", "surrogateescape")
    entries = iter(said.split("\0"))
    for entry in entries:
        if entry:
            yield entry[3:]
        if entry[:1] in ("R", "C"):  # the name before follows
            next(entries, None)


def make_ready(git: Git, root: ExecutionRoot) -> None:
    """Make the branch, or the worktree with the workflow in it; what fails half way leaves nothing behind.

    Raises GitFailed, and EnvironmentRefused for a disk that refuses.
    """
    git = git.at(Path(root.repo_root))
    match root.makes:
        case "branch":
            _run(git, "switch", "--quiet", "--create", root.branch)
        case "worktree":
            _make_worktree(git, root)
        case None:
            pass


def _make_worktree(git: Git, root: ExecutionRoot) -> None:
    place = Path(root.worktree_path)
    with disk_errors(place.parent):
        place.parent.mkdir(parents=True, exist_ok=True)
    _run(git, "worktree", "add", "--quiet", "-b", root.branch, str(place), root.source_head)
    try:
        source = Path(root.source_workflow_path)
        data = read_bytes(source, _WORKFLOW_BYTES)
        with disk_errors(place):
            write_beneath(place, str(source.relative_to(root.repo_root)), data or b"")
    except (EnvironmentRefused, KeyboardInterrupt):
        git.run("worktree", "remove", "--force", str(place))
        git.run("branch", "--quiet", "-d", root.branch)  # refuses one that has got a commit
        raise


def _run(git: Git, *words: str) -> None:
    done = git.run(*words)
    if not done.ok:
        said = done.output.strip()
        raise GitFailed(f"git {words[0]} failed in {git.folder}: {said}", output=said)


def roots(git: Git) -> tuple[Path, ...]:
    """Where runs may be: the folder, the top of its repository, all its worktrees, and our folder of them."""
    folder = git.folder.resolve()
    top = git.find("rev-parse", "--show-toplevel")
    if not top:
        return (folder,)
    found = [folder, Path(top).resolve()]
    try:
        found += [each.path for each in worktrees(git)]
    except NotARepository:  # it went away
        return tuple(found)
    made = Path(worktree_folder(str(found[1])))
    found += sorted(made.iterdir()) if made.is_dir() else []
    return tuple(dict.fromkeys(path.resolve() for path in found if path.is_dir()))
