"""Publication: the one moment at which the target branch moves, here and on the remote (ruling R5).

Never forced, never rewritten, nothing deleted (protocol, multi-agent git hygiene).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from irontree.errors import ConfigRefused, NoSuchBranch, PublicationRefused, RemoteUnavailable
from irontree.ports import Moved, Published
from irontree.repository.git import FETCH, Git, said
from irontree.repository.history import commit_of, is_ancestor
from irontree.repository.location import worktrees
from irontree.repository.refusals import is_behind, remote_failure

if TYPE_CHECKING:
    from irontree.domain.plan import PublishPolicy
    from irontree.processes import Completed

_BUSY = "index.lock"


def tip(git: Git, policy: PublishPolicy) -> str:
    """The commit that the target branch points at: on the remote (fetched now), or here if there is none.

    A branch that only exists here will be made on the remote by the first publication.
    Raises RemoteUnavailable, PublicationRefused, or NoSuchBranch.
    """
    found = fetched_tip(git, policy) if policy.remote else None
    found = found or commit_of(git, local_branch(policy))
    if found is None:
        raise _no_branch(git, policy)
    return found


def fetched_tip(git: Git, policy: PublishPolicy) -> str | None:
    """The remote's target, brought here; None if the remote has no such branch."""
    branch = f"refs/heads/{policy.target_branch}"
    done = git.run(*FETCH, str(policy.remote), f"+{branch}:{tracking_branch(policy)}")
    if done.ok:
        return commit_of(git, tracking_branch(policy))
    if "couldn't find remote ref" in done.output:
        return None
    raise remote_failure(f"cannot fetch {policy.target_branch} from {policy.remote}", said(done))


def ahead(git: Git, policy: PublishPolicy) -> int:
    """How many commits of the local target branch its remote has not, as last fetched; 0 where one of them is not."""
    if policy.remote is None:
        return 0
    return int(git.find("rev-list", "--count", f"{tracking_branch(policy)}..{local_branch(policy)}") or 0)


def has_published(git: Git, sha: str, policy: PublishPolicy) -> bool:
    """Whether the target has *sha* in its history: the remote's as last fetched, the local one without a remote."""
    tip = commit_of(git, tracking_branch(policy) if policy.remote else local_branch(policy))
    return tip is not None and is_ancestor(git, sha, tip)


def publish(git: Git, sha: str, policy: PublishPolicy) -> Published | Moved:
    """Make *sha* reachable from the target branch, or say which tip has to be merged first.

    Raises RemoteUnavailable, PublicationRefused.
    """
    if policy.mode != "direct":
        raise ConfigRefused(
            f"with publish.mode {policy.mode} nothing is pushed to {policy.target_branch}", remedy="merge its request"
        )
    return _publish_here(git, sha, policy) if policy.remote is None else _publish_there(git, sha, policy)


def _publish_there(git: Git, sha: str, policy: PublishPolicy) -> Published | Moved:
    done = _push(git, sha, policy)
    if not done.ok or is_behind(done.output):
        found = _tip_after_failure(git, policy)
        landed = found is not None and is_ancestor(git, sha, found)
        if not landed and found is not None and is_behind(done.output):
            return Moved(found)
        if not landed:
            raise remote_failure(f"cannot push to {policy.target_branch} on {policy.remote}", said(done))
    return Published(sha, _follow(git, sha, policy))


def _tip_after_failure(git: Git, policy: PublishPolicy) -> str | None:
    """What the remote has now: a push may have arrived although its answer did not."""
    try:
        return fetched_tip(git, policy)
    except (RemoteUnavailable, PublicationRefused):
        return None  # what the push said is the better reason


def _push(git: Git, sha: str, policy: PublishPolicy) -> Completed:
    return git.run(
        *("push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no"),
        *(str(policy.remote), f"{sha}:refs/heads/{policy.target_branch}"),
    )


def _publish_here(git: Git, sha: str, policy: PublishPolicy) -> Published | Moved:
    branch = local_branch(policy)
    current = commit_of(git, branch)
    if current is None:
        raise _no_branch(git, policy)
    if not is_ancestor(git, current, sha):
        return Published(sha) if is_ancestor(git, sha, current) else Moved(current)
    refused = _fast_forward(git, sha, branch)
    if refused is None:
        return Published(sha)
    if _BUSY in refused:
        raise RemoteUnavailable(f"another git command is at work in your checkout: {refused}", remedy="try again")
    raise PublicationRefused(
        f"your checkout of {policy.target_branch} cannot take up the new commit: {refused}",
        reason="checkout-not-clean",
        remedy="commit or stash your changes there, then go on",
    )


def _follow(git: Git, sha: str, policy: PublishPolicy) -> str | None:
    """Bring the local branch up to what was published; a warning if it cannot follow."""
    refused = _fast_forward(git, sha, local_branch(policy))
    if refused is None:
        return None
    theirs = f"{policy.remote}/{policy.target_branch}"
    own = commit_of(git, local_branch(policy))
    if own and not is_ancestor(git, own, sha):
        return (
            f"your own {policy.target_branch} could not follow: it has commits that {theirs} has not; "
            "`git pull --rebase` puts them on top, then `git push`"
        )
    command = f"git merge --ff-only {theirs}"
    return f"your own {policy.target_branch} could not follow; when you are ready: `{command}` ({refused})"


def _fast_forward(git: Git, sha: str, branch: str) -> str | None:
    """Move the local *branch* ahead to *sha*, in the worktree that has it checked out; why git would not, else None."""
    checked_out = _worktree_of(git, branch)
    if checked_out is None and commit_of(git, branch) is None:
        return None  # nobody has it here, and nobody asked for it
    if checked_out is None:
        done = git.run(*FETCH, ".", f"{sha}:{branch}")
    else:
        done = git.at(checked_out).run("-c", "merge.autoStash=false", "merge", "--quiet", "--ff-only", sha)
    return None if done.ok else said(done).strip()


def _worktree_of(git: Git, branch: str) -> Path | None:
    """Where *branch* is checked out. git lists its folder of a submodule in place of the worktree: ours, then."""
    for worktree in worktrees(git):
        if worktree.branch == branch:
            return worktree.path if (worktree.path / ".git").exists() else git.folder
    return None


def _no_branch(git: Git, policy: PublishPolicy) -> NoSuchBranch:
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
