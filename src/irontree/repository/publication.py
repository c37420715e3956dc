"""Publication, the only step that moves the target branch (R5), and blockers of a run in a repository.

Nothing of others is overwritten, rewritten or deleted (protocol, multi-agent git hygiene).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from irontree.domain.plan import PublishPolicy, WorkspacePolicy
from irontree.domain.settings import leads_out
from irontree.errors import NoSuchBranch, PublicationRefused, RemoteUnavailable
from irontree.ports import Blocker, Moved, Published, Rewritten
from irontree.processes import Completed
from irontree.repository.git import (
    DURABLY,
    FETCH,
    Git,
    is_behind,
    lock_in_the_way,
    remote_failure,
    said,
    shown,
    way_past,
)
from irontree.repository.location import worktrees
from irontree.repository.moving import Move, Moving
from irontree.repository.settings import Settings

if TYPE_CHECKING:
    from irontree.repository.reading import GitReader


def fetched_tip(git: Git, policy: PublishPolicy) -> str | None:
    """The remote's target, brought here; None if the remote has no such branch."""
    branch = f"refs/heads/{policy.target_branch}"
    done = git.exchange(str(policy.remote), FETCH, f"+{branch}:{tracking_branch(policy)}")
    if done.ok:
        return git.repo.commit_of(tracking_branch(policy))
    if "couldn't find remote ref" in done.output:
        return None
    raise remote_failure(f"cannot fetch {policy.target_branch} from {policy.remote}", said(done))


def publish_there(moving: Moving, sha: str, policy: PublishPolicy, onto: str | None) -> Published | Moved | Rewritten:
    """Push *sha* to the remote, and bring the local branch up to it. Raises RemoteUnavailable, PublicationRefused.

    *onto* is the tip that *sha* was checked on top of; `None` means whatever is there, on a branch of our own. The
    branch must still be at that tip, which is part of *sha*: so nothing is overwritten, and nothing that was taken
    back is brought back.
    """
    git = moving.git
    if onto is None or not git.repo.contains(sha, onto):
        tip = fetched_tip(git, policy)
    else:
        tip = onto if git.repo.commit_of(tracking_branch(policy)) else None  # the remote never had the branch
    if tip is not None and not git.repo.contains(sha, tip):
        return _found(moving, sha, policy, onto, tip)
    done = _push(git, sha, policy, tip)
    if done.ok and not is_behind(done.output):
        return Published(sha, _follow(moving, sha, policy))
    refused = remote_failure(f"cannot push to {policy.target_branch} on {policy.remote}", said(done))
    try:
        found = fetched_tip(git, policy)
    except (RemoteUnavailable, PublicationRefused):
        raise refused from None  # it is the better reason
    if found is None and onto and tip and is_behind(done.output):
        return Rewritten(tip, None)
    if found is None or not (git.repo.contains(found, sha) or is_behind(done.output)):
        raise refused
    if found != tip and git.repo.contains(sha, found) and git.repo.contains(found, onto or found):
        return publish_there(moving, sha, policy, found)  # it moved on to what we stand on as well
    return _found(moving, sha, policy, onto, found)


def _found(
    moving: Moving, sha: str, policy: PublishPolicy, onto: str | None, found: str
) -> Published | Moved | Rewritten:
    """The outcome where the remote's branch is at *found*: a push may have arrived although its answer was lost."""
    repo = moving.git.repo
    if repo.contains(found, sha):
        return Published(sha, _follow(moving, sha, policy))
    return Rewritten(onto, found) if onto and not repo.contains(found, onto) else Moved(found)


def _push(git: Git, sha: str, policy: PublishPolicy, tip: str | None) -> Completed:
    """Push *sha*, which contains *tip*, onto a branch that is at *tip*; or that does not exist, without one.

    The lease is no force: what it lets pass is a fast-forward. It refuses one from another tip, an earlier one too.
    """
    lease = f"refs/heads/{policy.target_branch}:{tip or ''}"
    return git.exchange(
        str(policy.remote),
        ("push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no", f"--force-with-lease={lease}"),
        f"{sha}:refs/heads/{policy.target_branch}",
    )


def publish_here(moving: Moving, sha: str, policy: PublishPolicy, onto: str | None) -> Published | Moved | Rewritten:
    """Move the local branch, where there is no remote. Raises RemoteUnavailable, PublicationRefused."""
    git = moving.git
    branch = local_branch(policy)
    current = git.repo.commit_of(branch)
    if current is None:
        raise no_branch(git, policy)
    if git.repo.contains(current, sha):
        return Published(sha)
    if onto and not git.repo.contains(current, onto):
        return Rewritten(onto, current)
    if not git.repo.contains(sha, current):
        return Moved(current)
    refused = _fast_forward(moving, sha, branch, current)
    if refused is None:
        return Published(sha)
    if lock := lock_in_the_way(refused):
        raise RemoteUnavailable(
            f"another git command is at work in your checkout: {refused}", remedy=way_past(git.folder / lock)
        )
    raise PublicationRefused(
        f"your checkout of {policy.target_branch} cannot take up the new commit: {refused}",
        reason="checkout-not-clean",
        remedy="commit or stash your changes there, then go on",
    )


def _follow(moving: Moving, sha: str, policy: PublishPolicy) -> str | None:
    """Bring the user's checkout of the branch up to what was published; a warning if it cannot follow."""
    git = moving.git
    own, checked_out = git.repo.commit_of(local_branch(policy)), _worktree_of(git, local_branch(policy))
    if own is None or checked_out is None:
        return None  # nobody stands on it: nothing of the user's is moved behind their back
    refused = moving.fast_forward(checked_out, local_branch(policy), sha)
    if refused is None:
        return None
    theirs = f"{policy.remote}/{policy.target_branch}"
    if not git.repo.contains(sha, own):
        return (
            f"your own {policy.target_branch} could not follow: it has commits that {theirs} has not; "
            "`git pull --rebase` puts them on top, then `git push`"
        )
    command = f"git merge --ff-only {theirs}"
    return f"your own {policy.target_branch} could not follow; when you are ready: `{command}` ({refused})"


def _fast_forward(moving: Moving, sha: str, branch: str, current: str) -> str | None:
    """Move the local *branch* from *current* to *sha*, which contains it; returns git's refusal, else `None`."""
    checked_out = _worktree_of(moving.git, branch)
    if checked_out is not None:
        return moving.fast_forward(checked_out, branch, sha)
    done = moving.git.run(*DURABLY, "update-ref", branch, sha, current)
    return None if done.ok else said(done).strip()


def _worktree_of(git: Git, branch: str) -> Path | None:
    """The worktree with *branch* checked out. For a submodule git lists its git folder: that means ours."""
    if git.repo.stands_at(branch):
        return git.folder
    for worktree in worktrees(git):
        if worktree.branch == branch:
            return worktree.path if (worktree.path / ".git").exists() else git.folder
    return None


def target_gone(policy: PublishPolicy, lost: str) -> PublicationRefused:
    """The exception for a target that was deleted on the remote; *lost* is where it was when it was last seen."""
    branch, remote = policy.target_branch, policy.remote
    return PublicationRefused(
        f"{branch} was deleted on {remote}; it was at {lost[:12]}",
        reason="target-gone",
        remedy=f"`git push {remote} {lost[:12]}:refs/heads/{branch}` puts it there again; `git fetch --prune {remote}` "
        "lets the next publication make it anew; then go on",
    )


def no_branch(git: Git, policy: PublishPolicy) -> NoSuchBranch:
    """The exception for a missing target branch."""
    return NoSuchBranch(
        f"{git.folder} has no branch {policy.target_branch}",
        remedy=f"`git branch {policy.target_branch}`, or correct publish.target_branch in .mino/config.yml",
    )


def local_branch(policy: PublishPolicy) -> str:
    """The full name of the target branch here."""
    return f"refs/heads/{policy.target_branch}"


def tracking_branch(policy: PublishPolicy) -> str:
    """The full name of the branch that remembers the remote's target."""
    return f"refs/remotes/{policy.remote}/{policy.target_branch}"


# --- Blockers of a run (protocol, phase 3), each with its remedy


_SHOWN_PATHS = 5
# Number of fields before the path in an entry of `git status --porcelain=v2`: changed, unmerged, untracked.
_FIELDS = {"1": 8, "u": 10, "?": 1}


def blockers(
    moving: Moving, publish: PublishPolicy, workspace: WorkspacePolicy, exempt: Sequence[str]
) -> tuple[Blocker, ...]:
    """All blockers, the most basic first, from the local repository alone."""
    git, settings = moving.git, moving.git.repo.settings
    cut_off = moving.pending()
    checkout = (_half_moved(cut_off),) if cut_off else _checkout(git, publish, exempt)
    return (*checkout, *_identity(settings), *_target(git, publish, settings, workspace))


def _half_moved(move: Move) -> Blocker:
    """For a move that could not be settled: what it changed must not pass for changes of the user."""
    return Blocker(
        "checkout-half-moved",
        f"the fast-forward of {move.worktree} to {move.after[:12]} was cut off",
        "commit nothing there: `irontree checkup repair` finishes or undoes it, and leaves your own changes alone",
    )


class Checkout(NamedTuple):
    """The user's checkout: whether it has a commit, its branch (`None` if detached), and uncommitted paths."""

    has_commit: bool
    branch: str | None
    changed: tuple[str, ...]

    def uncommitted(self, exempt: Sequence[str] = ()) -> tuple[str, ...]:
        """Paths with changes that are in no commit, untracked ones too; never `.mino/` and *exempt*."""
        spared = (".mino", *(path.rstrip("/") for path in exempt))
        return tuple(
            shown(path) for path in self.changed if not any(path == s or path.startswith(f"{s}/") for s in spared)
        )


def read_checkout(git: Git) -> Checkout:
    """Read the state of the checkout from git, without touching its index."""
    entries = git.repo.paths(
        *("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all"),
        *("--no-renames", "--ignore-submodules=untracked"),
    )
    about = dict(entry[2:].split(" ", 1) for entry in entries if entry.startswith("# "))
    branch = about["branch.head"]
    return Checkout(
        has_commit=about["branch.oid"] != "(initial)",
        branch=None if branch == "(detached)" else branch,
        changed=tuple(entry.split(" ", _FIELDS[entry[0]])[-1] for entry in entries if entry[0] in _FIELDS),
    )


def _checkout(git: Git, publish: PublishPolicy, exempt: Sequence[str]) -> Iterator[Blocker]:
    checkout = read_checkout(git)
    if not checkout.has_commit:
        yield Blocker("no-commits", "the repository has no commit yet", "make the first: `git commit`")
        return
    if checkout.branch is None:
        yield Blocker(
            "detached-head", "your checkout is on no branch (detached HEAD)", f"git switch {publish.target_branch}"
        )
    dirty = checkout.uncommitted(exempt)
    if dirty:
        more = f" and {len(dirty) - _SHOWN_PATHS} more" if len(dirty) > _SHOWN_PATHS else ""
        yield Blocker(
            "dirty-working-tree",
            f"changes that are in no commit: {', '.join(dirty[:_SHOWN_PATHS])}{more}",
            "commit them or put them aside (`git stash --include-untracked`): work starts from what is committed",
        )


def _identity(settings: Settings) -> Iterator[Blocker]:
    missing = [name for name in ("user.name", "user.email") if not settings.get(name)]
    if missing:
        remedy = " && ".join(f"git config {name} …" for name in missing)
        yield Blocker("missing-identity", f"git does not know who commits: {', '.join(missing)} not set", remedy)


def _target(git: Git, publish: PublishPolicy, settings: Settings, workspace: WorkspacePolicy) -> Iterator[Blocker]:
    if publish.remote is not None and publish.remote not in settings.remotes:
        yield Blocker(
            "remote-missing",
            f"there is no remote {publish.remote}",
            f"git remote add {publish.remote} URL, or correct publish.remote in .mino/config.yml",
        )
        return
    for branch in (*([tracking_branch(publish)] if publish.remote else ()), local_branch(publish)):
        if tip := git.repo.commit_of(branch):
            yield from _content(git.repo, tip, settings, workspace)
            return
    yield Blocker(
        "target-branch-missing",
        f"there is no branch {publish.target_branch}, here or as last fetched from {publish.remote or 'a remote'}",
        f"git fetch, git branch {publish.target_branch}, or correct publish.target_branch in .mino/config.yml",
    )


def _content(repo: GitReader, tip: str, settings: Settings, workspace: WorkspacePolicy) -> Iterator[Blocker]:
    """Content that a private clone does not include by itself."""
    hooks = settings.relative_hooks_path
    if hooks and not workspace.setup and (leads_out(hooks) or not repo.find(f"{tip}:{hooks.rstrip('/')}")):
        yield Blocker(
            "hooks-missing",
            f"core.hooksPath is {hooks}, which is not in the repository, so it would be missing in the workspace",
            "add the command that makes it to workspace.setup in .mino/config.yml (husky: `npx husky`)",
        )
    if not any("submodule" in command for command in workspace.setup) and repo.find(f"{tip}:.gitmodules"):
        yield Blocker(
            "submodules",
            "the repository has submodules, which the workspace would not have",
            "add `git submodule update --init --recursive` to workspace.setup in .mino/config.yml",
        )
    has_lfs = settings.get("filter.lfs.process") or settings.get("filter.lfs.clean")
    attributes = f"{tip}:.gitattributes"
    if not has_lfs and repo.find(attributes) and b"filter=lfs" in (repo.content(attributes) or b""):
        yield Blocker("lfs-missing", "the repository keeps files in Git LFS, which is not set up", "git lfs install")
    for remote in settings.remotes:
        if settings.get(f"remote.{remote}.promisor") == "true":
            yield Blocker(
                "partial-clone",
                "this is a partial clone: its missing objects cannot be fetched from a workspace without a remote",
                f"git config --unset remote.{remote}.partialCloneFilter && git fetch --refetch {remote}",
            )
