"""Publication, the only step that moves the target branch (R5), and blockers of a run in a repository.

Nothing of others is overwritten, rewritten or deleted (protocol, multi-agent git hygiene).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from irontree.domain.plan import PublishPolicy, WorkspacePolicy
from irontree.domain.settings import leads_out
from irontree.domain.text import shell_word
from irontree.errors import NoSuchBranch, PublicationRefused, RemoteUnavailable
from irontree.ports import Blocker, Moved, Published, Rewritten, Standing
from irontree.processes.children import Completed
from irontree.repository.checkout import InTheWay, in_the_way, is_held, worktree_of
from irontree.repository.git import DURABLY, FETCH, Git, is_behind, lock_in_the_way, remote_failure, said, way_past
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


def base(git: Git, policy: PublishPolicy, *, own: bool) -> str:
    """The commit new work starts from: the remote's target, else the branch here, else where it is to start.

    A branch that the remote had, and has no more, is not made again, unless it is our *own*. Raises RemoteUnavailable,
    PublicationRefused, NoSuchBranch.
    """
    found = fetched_tip(git, policy) if policy.remote else None
    if found is None and not own and policy.remote and (lost := git.repo.commit_of(tracking_branch(policy))):
        raise target_gone(policy, lost)
    found = found or git.repo.commit_of(local_branch(policy)) or _start(git, policy)
    if found is None:
        raise no_branch(git, policy)
    return found


def _start(git: Git, policy: PublishPolicy) -> str | None:
    """The commit that a branch starts from which does not exist yet; None if none is named, or it is not here."""
    return git.repo.commit_of(policy.branch_from) if policy.branch_from else None


def publish_there(moving: Moving, sha: str, policy: PublishPolicy, onto: str | None) -> Published | Moved | Rewritten:
    """Push *sha* to the remote, and bring the local branch up to it. Raises RemoteUnavailable, PublicationRefused.

    *onto* is the tip that *sha* was checked on top of; `None` means whatever is there, on a branch of our own. The
    branch must still be at that tip, which is part of *sha*: so nothing is overwritten, and nothing that was taken
    back is brought back.
    """
    git = moving.git
    if onto and _was_there(git, sha, policy):  # a push that arrived before a crash
        found = fetched_tip(git, policy)
        is_gone = found is None or not git.repo.contains(found, sha)
        return Rewritten(sha, found) if is_gone else Published(sha, _follow(moving, sha, policy))
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


def _was_there(git: Git, sha: str, policy: PublishPolicy) -> bool:
    """Whether the remote's target is known to have had *sha*: where it is now, as last seen, or by its log here."""
    branch = tracking_branch(policy)
    seen = git.repo.commit_of(branch)
    if seen is None:  # pruned: it is made anew
        return False
    return (
        git.repo.contains(seen, sha) or sha in git.read("reflog", "show", "--format=%H", branch, "--").decode().split()
    )


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
        return _make_here(moving, sha, policy, onto)
    if git.repo.contains(current, sha):
        return Published(sha)
    if onto and not git.repo.contains(current, onto):
        return Rewritten(onto, current)
    if not git.repo.contains(sha, current):
        return Moved(current)
    refused = _fast_forward(moving, sha, branch, current)
    if refused is None:
        return Published(sha)
    raise _unmoved(git, policy, refused)


def _make_here(moving: Moving, sha: str, policy: PublishPolicy, onto: str | None) -> Published | Moved | Rewritten:
    """Make the local branch at *sha*, if the policy says where it starts, and nobody had it: then it is lost."""
    git, branch = moving.git, local_branch(policy)
    if _start(git, policy) is None:
        raise no_branch(git, policy)
    if onto and not git.repo.contains(str(policy.branch_from), onto):
        raise PublicationRefused(
            f"{policy.target_branch} was deleted here; this work stands on {onto[:12]}, which was there",
            reason="target-gone",
            remedy=f"`git branch {policy.target_branch} {onto[:12]}` puts it there again; then go on",
        )
    if (unborn := worktree_of(git, branch)) is not None:
        raise PublicationRefused(
            f"{unborn} is on {policy.target_branch}, which has no commit yet: its files would all seem deleted",
            reason="checkout-not-clean",
            remedy="`git switch` to another branch there, then go on",
        )
    done = git.run(*DURABLY, "update-ref", branch, sha, "0" * len(sha))
    if done.ok:
        return Published(sha)
    if git.repo.commit_of(branch) is not None:  # somebody made it meanwhile
        return publish_here(moving, sha, policy, onto)
    refused = said(done).strip()
    if "; cannot create" in refused:
        raise PublicationRefused(
            f"{policy.target_branch} cannot be made: {refused}",
            reason="branch-name-taken",
            remedy="rename or delete the branch that stands in the way: git keeps no branch below another one",
        )
    raise _unmoved(git, policy, InTheWay(refused, "put that right", is_failure=True))


def _unmoved(git: Git, policy: PublishPolicy, refused: InTheWay) -> RemoteUnavailable | PublicationRefused:
    """The exception for a local branch that stays where it is."""
    if lock := lock_in_the_way(refused.what):
        return RemoteUnavailable(
            f"another git command is at work in your checkout: {refused.what}", remedy=way_past(git.folder / lock)
        )
    if refused.is_failure:
        return RemoteUnavailable(f"{policy.target_branch} cannot be moved: {refused.what}", remedy=refused.remedy)
    return PublicationRefused(
        f"your checkout of {policy.target_branch} cannot take up the new commit: {refused.what}",
        reason="checkout-not-clean",
        remedy=f"{refused.remedy}, then go on",
    )


def _follow(moving: Moving, sha: str, policy: PublishPolicy) -> str | None:
    """Bring the user's checkout of the branch up to what was published; a warning if it cannot follow."""
    git = moving.git
    own, checked_out = git.repo.commit_of(local_branch(policy)), worktree_of(git, local_branch(policy))
    if own is None or checked_out is None:
        return None  # nobody stands on it: nothing of the user's is moved behind their back
    refused = moving.fast_forward(checked_out, local_branch(policy), sha)
    if refused is None or worktree_of(git, local_branch(policy)) != checked_out:
        return None
    is_behind_only = git.repo.contains(sha, own)
    what = refused.what if is_behind_only else f"it has commits that {policy.remote}/{policy.target_branch} has not"
    way = _catch_up(policy, _where(git, checked_out), refused if is_behind_only else None, ahead=not is_behind_only)
    return f"your own {policy.target_branch} could not follow: {what} ({way})"


def standing(git: Git, policy: PublishPolicy) -> Standing:
    """How the user's own target branch stands to the remote's, as last fetched; see the port."""
    if policy.remote is None:
        return Standing()
    theirs, own = tracking_branch(policy), local_branch(policy)
    counted = git.find("rev-list", "--left-right", "--count", f"{own}...{theirs}", "--")  # none if one is not there
    ahead, behind = map(int, counted.split()) if counted else (0, 0)
    checked_out = worktree_of(git, own) if behind else None
    if checked_out is None:
        return Standing(ahead)
    found = None if ahead else in_the_way(git.at(checked_out), own, theirs)
    way = _catch_up(policy, _where(git, checked_out), found, ahead=bool(ahead))
    return Standing(ahead, behind, found.what if found else "", way)


def _where(git: Git, worktree: Path) -> str:
    return "" if worktree == git.folder else f" -C {shell_word(str(worktree))}"


def _catch_up(policy: PublishPolicy, where: str, found: InTheWay | None, *, ahead: bool) -> str:
    """How the user brings the own target branch up to the remote's, once what was *found* is out of the way."""
    remote, branch = policy.remote, policy.target_branch
    if ahead:
        return (
            f"`git{where} pull --rebase --autostash {remote} {branch}` puts your commits on top, then `git{where} push`"
        )
    command = f"`git{where} pull --ff-only {remote} {branch}`"
    return f"{found.remedy}, then {command}" if found else command


def _fast_forward(moving: Moving, sha: str, branch: str, current: str) -> InTheWay | None:
    """Move the local *branch* from *current* to *sha*, which contains it; returns what is in the way, else `None`."""
    checked_out = worktree_of(moving.git, branch)
    if checked_out is not None:
        refused = moving.fast_forward(checked_out, branch, sha)
        has_left = refused is not None and worktree_of(moving.git, branch) != checked_out
        return _fast_forward(moving, sha, branch, current) if has_left else refused
    if is_held(moving.common_dir, branch):
        return InTheWay("a rebase or a bisect that returns to it is under way", "finish it or abort it")
    done = moving.git.run(*DURABLY, "update-ref", branch, sha, current)
    return None if done.ok else InTheWay(said(done).strip(), "put that right", is_failure=True)


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
    """The exception for a missing target branch, or one whose first commit is missing."""
    if policy.branch_from:
        return NoSuchBranch(
            f"{policy.target_branch} is not there yet, and the commit that it starts from is not in {git.folder}: "
            f"{policy.branch_from[:12]}",
            remedy="fetch that commit, or approve the work anew",
        )
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


def blockers(moving: Moving, publish: PublishPolicy, workspace: WorkspacePolicy) -> tuple[Blocker, ...]:
    """All blockers, the most basic first, from the local repository alone.

    What the user has checked out and changed is none: work starts from commits, in a workspace (decision 0021).
    """
    settings, cut_off = moving.git.repo.settings, moving.pending()
    return (
        *((_half_moved(cut_off),) if cut_off else ()),
        *_identity(settings),
        *_target(moving.git, publish, settings, workspace),
    )


def _half_moved(move: Move) -> Blocker:
    """For a move that could not be settled: what it changed must not pass for changes of the user."""
    return Blocker(
        "checkout-half-moved",
        f"the {'switch' if move.leaves else 'fast-forward'} of {move.worktree} to {move.after[:12]} was cut off",
        "commit nothing there: `irontree checkup repair` finishes or undoes it, and leaves your own changes alone",
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
    if tip := _start(git, publish):
        yield from _content(git.repo, tip, settings, workspace)
        return
    if git.repo.commit_of("HEAD") is None:
        yield Blocker("no-commits", "the repository has no commit yet", "make the first: `git commit`")
    if publish.branch_from:
        missing = no_branch(git, publish)
        yield Blocker("target-branch-missing", missing.message, missing.remedy or "")
        return
    yield Blocker(
        "target-branch-missing",
        f"there is no branch {publish.target_branch}, here or as last fetched from {publish.remote or 'a remote'}",
        f"git fetch, git branch {publish.target_branch}, or correct publish.target_branch in .mino/config.yml",
    )


def _content(repo: GitReader, tip: str, settings: Settings, workspace: WorkspacePolicy) -> Iterator[Blocker]:
    """Content that a workspace does not include by itself."""
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
    if repo.find(attributes) and b"filter=lfs" in (repo.content(attributes) or b""):
        if not has_lfs:
            yield Blocker(
                "lfs-missing", "the repository keeps files in Git LFS, which is not set up", "git lfs install"
            )
        elif "lfs" not in workspace.filters:
            what = "the repository keeps files in Git LFS, which is not among the filters that may run"
            yield Blocker("lfs-missing", what, "set `workspace: {filters: [lfs]}` in .mino/config.yml")
    for remote in settings.remotes:
        if settings.get(f"remote.{remote}.promisor") == "true":
            yield Blocker(
                "partial-clone",
                "this is a partial clone: its missing objects cannot be fetched from a workspace without a remote",
                f"git config --unset remote.{remote}.partialCloneFilter && git fetch --refetch {remote}",
            )
