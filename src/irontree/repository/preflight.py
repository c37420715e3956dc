"""What a repository has against a run (protocol, phase 3), each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from irontree.ports import Blocker
from irontree.repository.history import shown
from irontree.repository.publication import local_branch, tracking_branch
from irontree.repository.settings import Settings, read_settings

if TYPE_CHECKING:
    from irontree.domain.plan import PublishPolicy, WorkspacePolicy
    from irontree.repository.git import Git

_SHOWN_PATHS = 5
# How many fields stand before the path in an entry of `git status --porcelain=v2`: changed, unmerged, untracked.
_FIELDS = {"1": 8, "u": 10, "?": 1}


def blockers(
    git: Git, publish: PublishPolicy, workspace: WorkspacePolicy, exempt: Sequence[str]
) -> tuple[Blocker, ...]:
    """All reasons, the most basic first. Asks nobody but the local repository."""
    settings = read_settings(git)
    return (*_checkout(git, publish, exempt), *_identity(settings), *_target(git, publish, settings, workspace))


@dataclass(frozen=True, slots=True)
class Checkout:
    """The user's checkout: whether there is a commit, the branch it is on (None: detached), what is in no commit."""

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
    """Ask git for the state of the checkout, without touching its index."""
    entries = git.paths(
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
    if publish.remote is not None and publish.remote not in settings.subsections("remote"):
        yield Blocker(
            "remote-missing",
            f"there is no remote {publish.remote}",
            f"git remote add {publish.remote} URL, or correct publish.remote in .mino/config.yml",
        )
        return
    branches = ([tracking_branch(publish)] if publish.remote else []) + [local_branch(publish)]
    hooks = (settings.relative_hooks_path or ".git").rstrip("/")
    for branch in branches:
        listing = git.ask("ls-tree", "--name-only", "-z", branch, "--", ".gitmodules", ".gitattributes", hooks)
        if listing.exit_code == 0:
            yield from _content(git, branch, set(listing.stdout.decode().split("\0")), settings, workspace)
            return
    yield Blocker(
        "target-branch-missing",
        f"there is no branch {publish.target_branch}, here or as last fetched from {publish.remote or 'a remote'}",
        f"git fetch, git branch {publish.target_branch}, or correct publish.target_branch in .mino/config.yml",
    )


def _content(
    git: Git, target: str, tracked: set[str], settings: Settings, workspace: WorkspacePolicy
) -> Iterator[Blocker]:
    """What a private clone would not bring along by itself."""
    hooks = settings.relative_hooks_path
    if hooks and hooks.rstrip("/") not in tracked and not workspace.setup:
        yield Blocker(
            "hooks-missing",
            f"core.hooksPath is {hooks}, which is not in the repository, so it would be missing in the workspace",
            "add the command that makes it to workspace.setup in .mino/config.yml (husky: `npx husky`)",
        )
    if ".gitmodules" in tracked and not any("submodule" in command for command in workspace.setup):
        yield Blocker(
            "submodules",
            "the repository has submodules, which the workspace would not have",
            "add `git submodule update --init --recursive` to workspace.setup in .mino/config.yml",
        )
    if ".gitattributes" in tracked and _needs_lfs(git, target, settings):
        yield Blocker("lfs-missing", "the repository keeps files in Git LFS, which is not set up", "git lfs install")
    for remote in settings.subsections("remote"):
        if settings.get(f"remote.{remote}.promisor") == "true":
            yield Blocker(
                "partial-clone",
                "this is a partial clone: its missing objects cannot be fetched from a workspace without a remote",
                f"git config --unset remote.{remote}.partialCloneFilter && git fetch --refetch {remote}",
            )


def _needs_lfs(git: Git, target: str, settings: Settings) -> bool:
    attributes = git.read("cat-file", "-p", f"{target}:.gitattributes")
    return "filter=lfs" in attributes and not (settings.get("filter.lfs.process") or settings.get("filter.lfs.clean"))
